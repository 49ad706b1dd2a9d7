//! Redis loses scripts, connections and its memory while replicas work.
use super::{PATIENT_MS, Run, STRICT_MS, holds};
use crate::fleet::Fleet;
use crate::fleet::event::Mix;
use ledger::{Clock, SystemClock};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use std::time::Duration;

const USUAL: Mix = Mix { void: 10, cool: 0, leave: 5, anyway: 0, view: 10, unreserved: 5 };

/// Does it again and again, until the time is over.
fn again_and_again(lasts: Duration, every: Duration, mut act: impl FnMut()) {
    let began = SystemClock.instant();
    while began.elapsed() < lasts {
        act();
        std::thread::sleep(every);
    }
}

/// Kills one connection that is not the prover's; false if there is none.
fn cut_a_connection(redis: &mut redis::Connection, dice: &mut StdRng) -> bool {
    let clients: String = redis::cmd("CLIENT").arg("LIST").query(redis).unwrap();
    let others = clients.lines().filter(|line| !line.contains(" name=prover "));
    let ids: Vec<&str> = others.filter_map(|line| line.strip_prefix("id=")?.split(' ').next()).collect();
    let Some(id) = ids.choose(dice) else { return false };
    // 0 if it went by itself meanwhile.
    redis::cmd("CLIENT").arg(&["KILL", "ID", id]).query::<u32>(redis).unwrap() > 0
}

pub(super) fn scripts_are_flushed(run: Run) {
    let fleet = run.fleet(PATIENT_MS, USUAL);
    let mut redis = fleet.server.prover();
    let mut flushes = 0;
    again_and_again(run.lasts(), Duration::from_millis(1), || {
        redis::cmd("SCRIPT").arg("FLUSH").exec(&mut redis).unwrap();
        flushes += 1;
    });
    let figures = holds(&fleet.finish(), run);
    assert!(flushes > 50, "{flushes} flushes");
    assert_eq!((figures.by_share, figures.twice), (0, 0), "{figures:?}");
}

pub(super) fn connections_are_killed(run: Run) {
    let mut fleet = run.fleet(STRICT_MS, USUAL);
    (fleet.faults.unknown, fleet.faults.lossy) = (true, true);
    let (mut redis, mut dice) = (fleet.server.prover(), StdRng::seed_from_u64(run.seed));
    let mut kills = 0;
    again_and_again(run.lasts(), Duration::from_millis(5), || {
        kills += usize::from(cut_a_connection(&mut redis, &mut dice));
    });
    holds(&fleet.finish(), run);
    assert!(kills > 20, "{kills} kills");
}

/// Until all have found Redis again and written what they kept: a report of unknown outcome is asked for once more,
/// and one that fails twice is lost.
fn settle_down(fleet: &Fleet) {
    fleet.all_have_beaten();
    std::thread::sleep(Duration::from_millis(250));
}

pub(super) fn redis_freezes(run: Run) {
    // A freeze and the return after it must not outlast a window: older ones are not written any more.
    let run = Run { minute_ms: run.minute_ms.max(2_500), windows: run.windows.div_ceil(2), ..run };
    let mut fleet = run.fleet(STRICT_MS, USUAL);
    fleet.faults.unknown = true;
    let mut dice = StdRng::seed_from_u64(run.seed);
    settle_down(&fleet);
    again_and_again(run.lasts(), Duration::ZERO, || {
        fleet.server.freeze();
        std::thread::sleep(Duration::from_millis(dice.random_range(20..500)));
        fleet.server.thaw();
        settle_down(&fleet);
    });
    let figures = holds(&fleet.finish(), run);
    assert!(figures.by_share > 0, "the shares were never needed: {figures:?}");
}

pub(super) fn redis_loses_its_memory(run: Run, times: u32) {
    // In one window, for what was counted in it is to be known again.
    let run = Run { minute_ms: 60_000, ..run };
    let mut fleet = run.fleet(STRICT_MS, USUAL);
    fleet.faults.unknown = true;
    let mut dice = StdRng::seed_from_u64(run.seed);
    for _ in 0..times {
        std::thread::sleep(Duration::from_millis(dice.random_range(0..800)));
        fleet.restart_redis(Duration::from_millis(dice.random_range(0..500)));
        settle_down(&fleet);
    }
    holds(&fleet.finish(), run);
}

/// All of it, in the order that the dice say.
pub(super) fn everything(run: Run) {
    let mut fleet = run.fleet(STRICT_MS, USUAL);
    (fleet.faults.unknown, fleet.faults.lossy) = (true, true);
    let (mut redis, mut dice) = (fleet.server.prover(), StdRng::seed_from_u64(run.seed));
    let began = SystemClock.instant();
    while began.elapsed() < run.lasts() {
        match dice.random_range(0..10) {
            0 => {
                fleet.kill(dice.random_range(0..fleet.replicas()));
                fleet.join();
            }
            1 | 2 => {
                fleet.server.freeze();
                std::thread::sleep(Duration::from_millis(dice.random_range(20..400)));
                fleet.server.thaw();
            }
            3..7 => {
                cut_a_connection(&mut redis, &mut dice);
            }
            _ => redis::cmd("SCRIPT").arg("FLUSH").exec(&mut redis).unwrap(),
        }
        std::thread::sleep(Duration::from_millis(dice.random_range(0..100)));
    }
    fleet.all_have_beaten();
    holds(&fleet.finish(), run);
}

#[test]
fn scripts_that_are_flushed_all_the_time_count_nothing_twice() {
    scripts_are_flushed(Run::short(11));
}

#[test]
fn connections_that_are_killed_all_the_time_may_cost_slots_and_never_win_one() {
    connections_are_killed(Run::short(12));
}

#[test]
fn a_redis_that_freezes_again_and_again_keeps_nobody_waiting_and_loses_no_count() {
    redis_freezes(Run::short(13));
}

#[test]
fn a_redis_that_comes_back_empty_is_told_all_that_the_replicas_know() {
    redis_loses_its_memory(Run::short(14), 2);
}
