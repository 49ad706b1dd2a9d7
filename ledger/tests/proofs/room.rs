//! Where there is room, nobody is refused; where there is none left, all of it is used.
use super::{PATIENT_MS, Run, holds, limited};
use crate::fleet::clock::{START_MS, Time};
use crate::fleet::event::{Deployment, Mix, What};
use crate::fleet::{Fleet, Order};
use std::collections::BTreeMap;

const MINUTE_MS: u64 = 60_000;
const REPLICAS: usize = 3;

/// So many requests at once in each window, dealt out to the replicas; answers how many each window admitted.
fn admitted(run: Run, deployments: Vec<Deployment>, requests: usize) -> Vec<usize> {
    let mut plan = run.plan(Time::Held { at_ms: START_MS }, PATIENT_MS, Mix::default());
    plan.deployments = deployments;
    plan.pause_ms = 1;
    let mut fleet = Fleet::start(plan, REPLICAS);
    for window in 0..run.windows {
        let turn = |replica: usize| usize::try_from(window).unwrap() + 5 * replica;
        let part = |replica: usize| (requests + replica) / REPLICAS;
        let orders: Vec<Order> = (0..REPLICAS)
            .map(|replica| Order::Burst { requests: part(replica), turn: turn(replica) })
            .collect();
        fleet.order_each(&orders);
        // Else a jump of time would leave the reports of a window behind before the flush has its turn.
        fleet.order(&Order::Drain);
        fleet.order(&Order::Advance { by_ms: MINUTE_MS });
    }
    let evidence = fleet.finish();
    holds(&evidence, run);
    let mut admitted: BTreeMap<&str, usize> = BTreeMap::new();
    for event in &evidence.events {
        if let What::Granted { minute, .. } = &event.what {
            *admitted.entry(minute).or_default() += 1;
        }
    }
    admitted.into_values().collect()
}

fn windows(run: Run) -> usize {
    usize::try_from(run.windows).unwrap()
}

#[test]
fn ten_requests_over_three_replicas_all_find_their_place_in_ten_deployments_of_rpm_1() {
    let run = Run { windows: 25, ..Run::short(31) };
    assert_eq!(admitted(run, limited("one", 10, 1), 10), vec![10; windows(run)]);
}

#[test]
fn at_95_percent_of_the_limits_nobody_is_refused() {
    let run = Run { windows: 10, ..Run::short(32) };
    assert_eq!(admitted(run, limited("twenty", 10, 20), 190), vec![190; windows(run)]);
}

#[test]
fn at_150_percent_of_the_limits_all_of_them_are_used() {
    let run = Run { windows: 10, ..Run::short(33) };
    assert_eq!(admitted(run, limited("twenty", 10, 20), 300), vec![200; windows(run)]);
}
