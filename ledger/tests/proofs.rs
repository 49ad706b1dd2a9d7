//! The ledger's invariants over several processes, whatever is done to them and to Redis. Seeds are fixed and minutes
//! are played fast. What every change proves in seconds, `slow` proves over many windows and seeds.
mod faults;
mod outage;
mod quiet;
mod room;
mod slow;

use crate::fleet::clock::Time;
use crate::fleet::event::{Deployment, Mix};
use crate::fleet::evidence::{Evidence, Figures};
use crate::fleet::{Fleet, Order, Plan, check};
use ledger::{Clock, SystemClock};
use std::time::Duration;

/// A deadline that no machine misses, where a proof is not about deadlines.
const PATIENT_MS: u64 = 30_000;
/// The product's.
const STRICT_MS: u64 = 100;
const REPLICAS: usize = 4;

/// How long a proof goes on.
#[derive(Debug, Clone, Copy)]
struct Run {
    seed: u64,
    /// A minute of the replicas takes so long.
    minute_ms: u64,
    windows: u64,
}

impl Run {
    /// What a change has the patience for.
    fn short(seed: u64) -> Self {
        // A report that is late by a whole window is lost, so a window must outlast any halt of a loaded machine.
        Self { seed, minute_ms: 1_800, windows: 2 }
    }

    fn lasts(self) -> Duration {
        Duration::from_millis(self.minute_ms * self.windows)
    }

    /// Four replicas on fast minutes, with their callers at work.
    fn fleet(self, deadline_ms: u64, mix: Mix) -> Fleet {
        let time = Time::Fast { since_ms: SystemClock.unix_ms(), minute_ms: self.minute_ms };
        let plan = self.plan(time, deadline_ms, mix);
        let mut fleet = Fleet::start(plan, REPLICAS);
        fleet.order(&Order::Go);
        fleet
    }

    fn plan(self, time: Time, deadline_ms: u64, mix: Mix) -> Plan {
        let deployments = deployments();
        Plan { seed: self.seed, time, deadline_ms, callers: 8, pause_ms: 20, deployments, mix }
    }
}

/// Limits of every kind. Holds are millions, for they are names as well.
fn deployments() -> Vec<Deployment> {
    let all = [
        ("wide", Some(90), None),
        ("seven", Some(7), None),
        ("free", None, None),
        ("one", Some(1), None),
        ("both", Some(25), Some(60_000_000)),
        ("tokens", None, Some(40_000_000)),
        ("none", Some(0), None),
        ("left", Some(31), None),
        ("right", Some(30), None),
    ];
    all.map(|(id, rpm, tpm)| Deployment { id: id.to_owned(), rpm, tpm }).to_vec()
}

fn limited(name: &str, deployments: u64, rpm: u64) -> Vec<Deployment> {
    (0..deployments)
        .map(|number| Deployment { id: format!("{name}{number}"), rpm: Some(rpm), tpm: None })
        .collect()
}

/// Fails with everything that was found.
#[expect(clippy::print_stdout, reason = "the figures of a proof are shown with --nocapture")]
fn holds(evidence: &Evidence, run: Run) -> Figures {
    let verdict = check(evidence);
    let (broken, figures) = (verdict.broken(), verdict.figures);
    let shown: Vec<_> = verdict.found.iter().take(20).collect();
    assert!(broken.is_empty(), "broken: {broken:?} in {run:?}\n{shown:#?}\n{figures:#?}");
    println!("{run:?}: {figures:?}");
    assert!(figures.granted > 100, "hardly anything happened: {figures:?}");
    figures
}
