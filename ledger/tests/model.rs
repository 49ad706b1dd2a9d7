//! Random operations by seed: the embedded ledger is the model, the shared one must answer alike. A failure tells its
//! seed and the operation's number.
use crate::world::{PATIENT, START_MS, World, group, member};
use ledger::{
    Cooldown, Denial, Hold, Ledger, ManualClock, MemoryLedger, Minute, Outcome, Reserve, Reserved, Settle,
    Want,
};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use std::sync::Arc;
use std::time::Duration;

const IDS: [&str; 5] = ["a", "b", "c", "d", "e"];
/// Time moves by whole steps. Cooldowns and windows end half a step off, so that the moments that a real
/// server takes meanwhile decide nothing.
const STEP_MS: u64 = 5_000;

fn reserve(dice: &mut StdRng) -> Reserve {
    let wants = (0..dice.random_range(1..=7))
        .map(|_| Want {
            member: member(IDS.choose(dice).unwrap()),
            rpm_limit: dice.random_bool(0.7).then(|| dice.random_range(0..8)),
            tpm_limit: dice.random_bool(0.5).then(|| dice.random_range(0..200)),
            tpm_hold: dice.random_range(0..40),
        })
        .collect();
    Reserve { wants, ignore_cooldown: dice.random_bool(0.1) }
}

fn cooldown(dice: &mut StdRng) -> Cooldown {
    // The status follows from the end, for at equal ends it is open whose is kept.
    let length_ms = dice.random_range(0..20) * STEP_MS + STEP_MS / 2;
    Cooldown { member: member(IDS.choose(dice).unwrap()), length_ms, status: 500, reason: String::new() }
}

fn outcome(dice: &mut StdRng) -> Outcome {
    *[Outcome::Success, Outcome::Failure, Outcome::Neutral].choose(dice).unwrap()
}

/// All but what is left of a cooldown, which a server measures by its own clock.
fn without_cooling_waits(mut reserved: Reserved) -> Reserved {
    let (Reserved::Granted { passed, .. } | Reserved::Refused { passed }) = &mut reserved;
    for (_, denial) in passed {
        if let Denial::Cooling { wait_ms } = denial {
            *wait_ms = 0;
        }
    }
    reserved
}

async fn both_answer_alike(seed: u64, operations: usize) {
    let mut dice = StdRng::seed_from_u64(seed);
    let world = World::new();
    world.clock.advance(Duration::from_millis(STEP_MS / 2));
    let shared = world.ledger(PATIENT).await;
    let clock = Arc::new(ManualClock::at(START_MS + STEP_MS / 2));
    let embedded = MemoryLedger::new(clock.clone());
    let group = group(&IDS);
    let mut holds: Vec<Hold> = Vec::new();
    let mut granted = 0;

    for operation in 0..operations {
        let at = format!("seed {seed}, operation {operation}");
        match dice.random_range(0..100) {
            0..40 => {
                // Between a report and its flush, only this replica's view knows of it.
                shared.drain().await;
                let reserve = reserve(&mut dice);
                let want = without_cooling_waits(embedded.reserve(reserve.clone()).await);
                let got = without_cooling_waits(shared.reserve(reserve).await);
                assert_eq!(got, want, "{at}");
                if let Reserved::Granted { hold, .. } = got {
                    holds.push(hold);
                    granted += 1;
                }
            }
            40..60 if !holds.is_empty() => {
                let hold = holds.swap_remove(dice.random_range(0..holds.len()));
                let settle = Settle { hold, tokens: dice.random_range(0..80), outcome: outcome(&mut dice) };
                embedded.settle(settle.clone());
                shared.settle(settle);
            }
            60..65 if !holds.is_empty() => {
                let hold = holds.swap_remove(dice.random_range(0..holds.len()));
                embedded.void(hold.clone());
                shared.void(hold);
            }
            65..70 => {
                let hold =
                    Hold::unreserved(member(IDS.choose(&mut dice).unwrap()), Minute::of(shared.now_ms()));
                let settle = Settle { hold, tokens: dice.random_range(0..80), outcome: outcome(&mut dice) };
                embedded.settle(settle.clone());
                shared.settle(settle);
            }
            70..73 => {
                let cooldown = cooldown(&mut dice);
                embedded.cool(cooldown.clone());
                shared.cool(cooldown);
            }
            73..77 => {
                let by = Duration::from_millis(STEP_MS * dice.random_range(1..=6));
                world.advance(&shared, by).await;
                clock.advance(by);
            }
            77..80 => shared.drain().await,
            _ => {
                let (got, want) = (shared.view(&group).await, embedded.view(&group).await);
                assert_eq!((got.minute, got.readings), (want.minute, want.readings), "{at}");
            }
        }
    }
    assert!(
        granted > operations / 20,
        "seed {seed}: only {granted} were granted, so the model was hardly used"
    );
}

#[tokio::test]
async fn random_operations_are_answered_alike_by_both_ledgers() {
    both_answer_alike(1, 3_000).await;
}

#[tokio::test]
async fn other_random_operations_are_answered_alike_too() {
    both_answer_alike(2, 3_000).await;
}

#[tokio::test]
#[ignore = "slow: a minute"]
async fn slow_a_hundred_thousand_random_operations_are_answered_alike() {
    for seed in 1_000..1_020 {
        both_answer_alike(seed, 5_000).await;
    }
}
