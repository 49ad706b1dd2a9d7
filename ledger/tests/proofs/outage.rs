//! Redis is away for whole windows: the replicas' shares keep the limits together, and use what they may.
use super::{REPLICAS, Run, STRICT_MS, holds};
use crate::fleet::clock::{START_MS, Time};
use crate::fleet::event::{Deployment, Mix, What};
use crate::fleet::evidence::Evidence;
use crate::fleet::{Fleet, Order};
use ledger::Minute;
use std::time::Duration;

const MINUTE_MS: u64 = 60_000;

#[derive(Debug, Clone, Copy)]
pub(super) enum Fault {
    Killed,
    Frozen,
}

/// Below, at and above the number of replicas, and not to be divided by it.
fn deployments() -> Vec<Deployment> {
    let limits = [0, 1, 2, 3, 4, 5, 7, 8, 11, 31];
    limits.map(|limit| Deployment { id: format!("of-{limit}"), rpm: Some(limit), tpm: None }).to_vec()
}

pub(super) fn redis_is_away(run: Run, fault: Fault) {
    let mut plan = run.plan(Time::Held { at_ms: START_MS }, STRICT_MS, Mix::default());
    plan.deployments = deployments();
    plan.pause_ms = 1;
    let mut fleet = Fleet::start(plan, REPLICAS);
    fleet.faults.unknown = true;
    // Once more, so that each has surely read how many there are.
    fleet.all_have_beaten();
    match fault {
        Fault::Killed => fleet.server.kill(),
        Fault::Frozen => fleet.server.freeze(),
    }
    let mut now_ms = START_MS;
    let mut step = |fleet: &mut Fleet| {
        fleet.order(&Order::Advance { by_ms: MINUTE_MS });
        now_ms += MINUTE_MS;
        Minute::of(now_ms).hh_mm()
    };
    while fleet.order_and_see(&Order::Burst { requests: 1, turn: 0 }).iter().any(|it| !was_away(&it.what)) {
        step(&mut fleet);
    }
    for _ in 0..run.windows {
        let minute = step(&mut fleet);
        fleet.faults.away.push(minute);
        fleet.order(&Order::Burst { requests: 60, turn: 0 });
    }
    let last = fleet.faults.away.last().cloned();
    match fault {
        Fault::Killed => fleet.restart_redis(Duration::ZERO),
        Fault::Frozen => fleet.server.thaw(),
    }
    fleet.all_have_beaten();
    let mut evidence = fleet.finish();
    // Of windows that ended before Redis was back only the last two are kept.
    evidence.faults.forgotten =
        evidence.minutes().into_iter().filter(|minute| Some(minute) != last.as_ref()).collect();
    holds(&evidence, run);
    each_uses_its_part(&evidence);
}

fn was_away(what: &What) -> bool {
    match what {
        What::Granted { away, .. } | What::Refused { away, .. } => *away,
        _ => true,
    }
}

/// Not less either: all were asked for more than there was.
fn each_uses_its_part(evidence: &Evidence) {
    for minute in &evidence.faults.away {
        for Deployment { id, rpm, .. } in &evidence.deployments {
            let is_it = |what: &What| matches!(what, What::Granted { id: it, minute: at, .. } if it == id && at == minute);
            let admitted = evidence.events.iter().filter(|event| is_it(&event.what)).count() as u64;
            let (limit, replicas) = (rpm.unwrap(), REPLICAS as u64);
            let want = replicas * (limit / replicas).max(limit.min(1));
            assert_eq!(admitted, want, "{id} in {minute}");
        }
    }
}

#[test]
fn while_redis_is_gone_all_admit_together_the_limit_or_one_each() {
    redis_is_away(Run::short(21), Fault::Killed);
}

#[test]
fn while_redis_is_frozen_all_admit_together_the_limit_or_one_each() {
    redis_is_away(Run::short(22), Fault::Frozen);
}
