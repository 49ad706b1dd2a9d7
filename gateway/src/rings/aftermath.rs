//! What a call leaves behind for others: its settled lease, its count, and perhaps a cooldown.
use super::cooldown::{self, Verdict};
use super::lease::Lease;
use super::measured;
use crate::app::App;
use crate::catalog::{Catalog, Deployment};
use crate::providers::{Failure, FailureKind};
use ledger::{Cooldown, Outcome, Probe};
use std::sync::Arc;
use std::time::Duration;

/// What a failure leaves behind: its count, and perhaps a cooldown. Owns what it needs, since a stream may
/// fail long after its handler has returned.
pub struct Aftermath {
    /// The program.
    pub app: Arc<App>,
    /// The config that the request began with.
    pub catalog: Arc<Catalog>,
    /// The group's number in it.
    pub group: usize,
    /// The deployment's place in the group.
    pub place: usize,
    /// The caller waits less than the deployment is given.
    pub callers_timeout: bool,
}

impl Aftermath {
    /// Settles the lease of a call that failed before any content.
    pub async fn of(&self, failure: &Failure, lease: Lease) {
        self.of_broken(failure, 0, lease).await;
    }

    /// Settles the lease of a failed call at what it used, and takes the deployment out if the rules say so.
    pub async fn of_broken(&self, failure: &Failure, tokens: u64, mut lease: Lease) {
        let group = &self.catalog.groups[self.group];
        let deployment = &group.deployments[self.place];
        // A caller that waits less than the deployment is given says nothing of the deployment.
        let blameless = self.callers_timeout && failure.kind == FailureKind::Timeout;
        let counts = failure.kind.counts_against_deployment() && !blameless;
        let outcome = if counts { Outcome::Failure } else { Outcome::Neutral };
        let lone = group.deployments.len() == 1;
        let probe = lease.probe().cloned();
        let settings = &self.catalog.settings;
        let verdict = if counts {
            cooldown::verdict(failure, probe.as_ref(), deployment, lone, settings)
        } else {
            Verdict::Spared
        };
        // Before the lease: the right to try ends with the cooldown, and nobody may try in between.
        if let Verdict::Out(length) = verdict {
            self.cool(deployment, failure, length, probe);
        }
        if counts && failure.kind == FailureKind::Timeout {
            lease.tells(measured::TIMED_OUT);
        }
        if failure.sent {
            lease.settle(tokens, outcome);
        } else {
            lease.not_sent();
        }
        self.app.metrics.attempt(&deployment.member.id, failure.kind.name(), tokens);
        let Verdict::OutIfMany(length) = verdict else { return };
        let view = self.app.ledger.view(&group.ledger).await;
        let Some(reading) = view.readings.get(self.place) else { return };
        if cooldown::are_many(reading, deployment, lone, settings) {
            self.cool(deployment, failure, length, None);
        }
    }

    fn cool(&self, deployment: &Deployment, failure: &Failure, length: Duration, probe: Option<Probe>) {
        let length_ms = u64::try_from(length.as_millis()).unwrap_or(u64::MAX);
        let status = failure.status.unwrap_or(0);
        tracing::info!(deployment = %deployment.member.id, length_ms, status, "cooldown begins");
        let (member, reason) = (deployment.member.clone(), failure.kind.name().to_owned());
        let probation = cooldown::ends_in_probation(failure);
        self.app.ledger.cool(Cooldown { member, length_ms, status, reason, probation, probe });
    }

    /// Counts a stream that came to its end.
    pub fn success(&self, tokens: u64, lease: Lease) {
        lease.settle(tokens, Outcome::Success);
        let deployment = &self.catalog.groups[self.group].deployments[self.place];
        self.app.metrics.attempt(&deployment.member.id, "success", tokens);
    }
}
