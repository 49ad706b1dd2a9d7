//! The proofs over many windows and seeds. For the full check: each takes half a minute or more.
use super::outage::{Fault, redis_is_away};
use super::{Run, faults, quiet};
use std::time::Duration;

const MANY: Run = Run { seed: 0, minute_ms: 2_000, windows: 15 };

fn with_seeds(seeds: std::ops::Range<u64>, proof: impl Fn(Run)) {
    for seed in seeds {
        proof(Run { seed, ..MANY });
    }
}

#[test]
#[ignore = "slow: a minute"]
fn slow_steady_fleets_are_exact() {
    with_seeds(100..102, quiet::steady);
}

#[test]
#[ignore = "slow: a minute"]
fn slow_leaving_callers_win_nothing() {
    with_seeds(110..112, quiet::callers_leave);
}

#[test]
#[ignore = "slow: a minute"]
fn slow_killed_replicas_lose_only_what_they_had_not_flushed() {
    with_seeds(120..122, quiet::replicas_are_killed);
}

#[test]
#[ignore = "slow: half a minute"]
fn slow_cooldowns_hold() {
    with_seeds(130..132, quiet::deployments_cool_down);
}

#[test]
#[ignore = "slow: a minute"]
fn slow_flushed_scripts_count_nothing_twice() {
    with_seeds(140..142, faults::scripts_are_flushed);
}

#[test]
#[ignore = "slow: a minute"]
fn slow_killed_connections_never_win_a_slot() {
    with_seeds(150..152, faults::connections_are_killed);
}

#[test]
#[ignore = "slow: a minute"]
fn slow_freezes_lose_no_count() {
    with_seeds(160..164, faults::redis_freezes);
}

#[test]
#[ignore = "slow: a minute"]
fn slow_lost_memories_are_told_again() {
    with_seeds(170..174, |run| faults::redis_loses_its_memory(run, 8));
}

#[test]
#[ignore = "slow: half a minute"]
fn slow_outages_keep_the_limits() {
    with_seeds(180..183, |run| redis_is_away(run, Fault::Killed));
    with_seeds(183..186, |run| redis_is_away(run, Fault::Frozen));
}

#[test]
#[ignore = "slow: two minutes"]
fn slow_everything_at_once() {
    with_seeds(190..194, faults::everything);
}

/// Over the end of two minutes at least, by the clock on the wall: keys end there, and clocks turn.
#[test]
#[ignore = "slow: two and a half minutes"]
fn slow_wrong_clocks_share_real_windows() {
    quiet::clocks_are_wrong(Run { seed: 200, ..MANY }, Duration::from_secs(150));
}
