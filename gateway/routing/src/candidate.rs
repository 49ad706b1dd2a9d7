//! The candidates of a decision. Nothing leaves them without a reason.
use crate::{Deployment, Group, Reason};
use ledger::{Reading, Recent, View};
use std::sync::Arc;

/// A deployment that might serve the request, with what the ledger says of it.
#[derive(Debug, Clone)]
pub struct Candidate<'a> {
    /// Its place in the group.
    pub index: usize,
    /// What routing knows of it.
    pub deployment: &'a Deployment,
    /// What the ledger said of it.
    pub reading: &'a Reading,
}

impl Candidate<'_> {
    /// Whether it is on probation: a cooldown that a failure began is over, and it has not proved itself since.
    #[must_use]
    pub fn half_open(&self, now_ms: u64) -> bool {
        let cools = self.reading.cooldown.as_ref().is_some_and(|cooling| cooling.until_ms > now_ms);
        self.reading.trips > 0 && !cools
    }

    /// Whether the ledger's last word shows a limit used up. A hint: the window may have turned since.
    #[must_use]
    pub fn spent(&self) -> bool {
        let used_up = |used: u64, limit: Option<u64>| limit.is_some_and(|limit| used >= limit);
        used_up(self.reading.rpm, self.deployment.rpm) || used_up(self.reading.tpm, self.deployment.tpm)
    }
}

/// One that was removed, by which gate, and why.
#[derive(Debug, Clone, PartialEq)]
pub struct Removed {
    /// Its place in the group.
    pub index: usize,
    /// `model_info.id`.
    pub id: Arc<str>,
    /// The gate's name, as in metrics.
    pub gate: &'static str,
    /// Why.
    pub reason: Reason,
}

/// What is kept and what was removed: together always all of the group.
#[derive(Debug, Clone)]
pub struct Candidates<'a> {
    kept: Vec<Candidate<'a>>,
    removed: Vec<Removed>,
}

impl<'a> Candidates<'a> {
    /// All deployments of a group. A view that lacks a reading counts as an unused deployment.
    #[must_use]
    pub fn of(group: &'a Group, view: &'a View) -> Self {
        static UNUSED: Reading = Reading {
            rpm: 0,
            tpm: 0,
            calls: 0,
            fails: 0,
            in_flight: 0,
            cooldown: None,
            trips: 0,
            probing: false,
            latency: Recent::NONE,
            sizes: Recent::NONE,
        };
        let kept = group.deployments.iter().enumerate().map(|(index, deployment)| Candidate {
            index,
            deployment,
            reading: view.readings.get(index).unwrap_or(&UNUSED),
        });
        Self { kept: kept.collect(), removed: Vec::new() }
    }

    /// The only way out: `reason_for` says why a candidate must go, or `None` to keep it.
    pub fn remove_if(&mut self, gate: &'static str, reason_for: impl Fn(&Candidate<'a>) -> Option<Reason>) {
        let removed = &mut self.removed;
        self.kept.retain(|candidate| match reason_for(candidate) {
            Some(reason) => {
                let (index, id) = (candidate.index, candidate.deployment.id.clone());
                removed.push(Removed { index, id, gate, reason });
                false
            }
            None => true,
        });
    }

    /// Those that are left, in the group's order.
    #[must_use]
    pub fn kept(&self) -> &[Candidate<'a>] {
        &self.kept
    }

    /// Those that are left, and those that were removed.
    #[must_use]
    pub fn into_parts(self) -> (Vec<Candidate<'a>>, Vec<Removed>) {
        (self.kept, self.removed)
    }
}
