//! Nothing is done to Redis: then all is exact, whoever leaves, dies or has a wrong clock.
use super::{PATIENT_MS, REPLICAS, Run, STRICT_MS, holds, limited};
use crate::fleet::clock::Time;
use crate::fleet::event::Mix;
use crate::fleet::{Fleet, Order};
use ledger::{Clock, SystemClock};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::time::Duration;

const USUAL: Mix = Mix { void: 10, cool: 0, leave: 0, anyway: 0, view: 10, unreserved: 5 };

pub(super) fn steady(run: Run) {
    let fleet = run.fleet(PATIENT_MS, USUAL);
    std::thread::sleep(run.lasts());
    let figures = holds(&fleet.finish(), run);
    let unexplained = (figures.by_share, figures.unknown, figures.twice, figures.over_counted);
    assert_eq!(unexplained, (0, 0, 0, 0), "{figures:?}");
    assert!(figures.refused > 50 && figures.windows > 1, "{figures:?}");
}

pub(super) fn callers_leave(run: Run) {
    let fleet = run.fleet(PATIENT_MS, Mix { leave: 60, ..USUAL });
    std::thread::sleep(run.lasts());
    let figures = holds(&fleet.finish(), run);
    assert!(figures.left > 100 && figures.unknown > 10, "hardly anybody left: {figures:?}");
    assert_eq!(figures.over_counted, 0, "a slot went with its caller: {figures:?}");
}

pub(super) fn replicas_are_killed(run: Run) {
    let mut dice = StdRng::seed_from_u64(run.seed);
    let mut fleet = run.fleet(PATIENT_MS, USUAL);
    let deaths = run.windows.max(3);
    for _ in 0..deaths {
        std::thread::sleep(run.lasts() / u32::try_from(deaths + 1).unwrap());
        fleet.kill(dice.random_range(0..fleet.replicas()));
        fleet.join();
    }
    std::thread::sleep(run.lasts() / u32::try_from(deaths + 1).unwrap());
    holds(&fleet.finish(), run);
}

pub(super) fn deployments_cool_down(run: Run) {
    // Redis measures cooldowns by its own clock, so these minutes are as long as its own.
    let time = Time::Fast { since_ms: SystemClock.unix_ms(), minute_ms: 60_000 };
    let mut plan = run.plan(time, PATIENT_MS, Mix { cool: 8, anyway: 5, ..USUAL });
    plan.deployments = limited("cold", 6, 1_000_000);
    let mut fleet = Fleet::start(plan, REPLICAS);
    fleet.order(&Order::Go);
    std::thread::sleep(run.lasts());
    let figures = holds(&fleet.finish(), run);
    assert!(figures.cooled > 50 && figures.refused > 100, "{figures:?}");
}

pub(super) fn clocks_are_wrong(run: Run, lasts: Duration) {
    let mut plan = run.plan(Time::Machine { offset_ms: 0 }, STRICT_MS, USUAL);
    plan.deployments.extend(limited("more", 4, 200));
    let mut fleet = Fleet::start(plan, 1);
    fleet.add(&[30_000, -30_000, 7 * 3_600_000]);
    // The product's own deadline holds here, and a loaded machine may miss it.
    fleet.faults.unknown = true;
    fleet.order(&Order::Go);
    std::thread::sleep(lasts);
    assert_eq!(fleet.replicas(), REPLICAS);
    let evidence = fleet.finish();
    let figures = holds(&evidence, run);
    assert!(figures.refused > 50, "no limit was reached: {figures:?}");
}

#[test]
fn a_steady_fleet_is_exact_to_the_last_token() {
    steady(Run::short(1));
}

#[test]
fn callers_that_leave_at_any_moment_neither_cost_a_slot_nor_win_one() {
    callers_leave(Run::short(2));
}

#[test]
fn replicas_that_are_killed_lose_no_more_than_they_had_not_flushed() {
    replicas_are_killed(Run::short(3));
}

#[test]
fn nothing_is_taken_while_it_cools_down_and_no_cooldown_is_shortened() {
    deployments_cool_down(Run::short(4));
}

#[test]
fn replicas_whose_clocks_differ_by_half_a_minute_and_more_share_redis_window() {
    clocks_are_wrong(Run::short(5), Duration::from_secs(3));
}
