//! Random operations by seed: the embedded ledger is the model, the shared one must answer alike.
use crate::world::{PATIENT, START_MS, World, group, member};
use ledger::{
    Cooldown, Denial, Hold, Latency, Ledger, ManualClock, MemoryLedger, Minute, Outcome, Reserve, Reserved,
    Sample, Settle, Sizes, Want,
};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use std::sync::Arc;
use std::time::Duration;

const IDS: [&str; 5] = ["a", "b", "c", "d", "e"];
const OPERATIONS: usize = 3_000;
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
            must_fit: dice.random_bool(0.3),
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

fn sample(dice: &mut StdRng) -> Sample {
    let mut count = || dice.random_range(0..5_000);
    let answered = Latency::Answered { per_token_us: count(), first_token_us: Some(count()) };
    let sizes = Sizes { estimated: count(), input: count(), output: count() };
    let latency = if dice.random_bool(0.1) { Latency::TimedOut } else { answered };
    Sample {
        latency: dice.random_bool(0.7).then_some(latency),
        sizes: dice.random_bool(0.7).then_some(sizes),
    }
}

fn settle(dice: &mut StdRng, hold: Hold) -> Settle {
    Settle { hold, tokens: dice.random_range(0..80), outcome: outcome(dice), sample: sample(dice) }
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

async fn both_answer_alike(seed: u64) {
    let mut dice = StdRng::seed_from_u64(seed);
    let world = World::new();
    world.clock.advance(Duration::from_millis(STEP_MS / 2));
    let shared = world.ledger(PATIENT).await;
    let clock = Arc::new(ManualClock::at(START_MS + STEP_MS / 2));
    let embedded = MemoryLedger::new(clock.clone());
    let group = group(&IDS);
    let mut holds: Vec<Hold> = Vec::new();
    let mut granted = 0;

    for operation in 0..OPERATIONS {
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
                let settle = settle(&mut dice, hold);
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
                let settle = settle(&mut dice, hold);
                embedded.settle(settle.clone());
                shared.settle(settle);
            }
            70..75 => {
                let member = member(IDS.choose(&mut dice).unwrap());
                holds.push(embedded.begin(&member));
                assert_eq!(shared.begin(&member), *holds.last().unwrap(), "{at}");
            }
            75..78 => {
                let cooldown = cooldown(&mut dice);
                embedded.cool(cooldown.clone());
                shared.cool(cooldown);
            }
            78..81 => {
                let by = Duration::from_millis(STEP_MS * dice.random_range(1..=6));
                world.advance(&shared, by).await;
                clock.advance(by);
            }
            81..84 => shared.drain().await,
            _ => {
                let (got, want) = (shared.view(&group).await, embedded.view(&group).await);
                assert_eq!((got.minute, got.readings), (want.minute, want.readings), "{at}");
            }
        }
    }
    assert!(granted > OPERATIONS / 20, "only {granted} were granted: the model was hardly used");
}

#[tokio::test]
async fn random_operations_are_answered_alike_by_both_ledgers() {
    both_answer_alike(1).await;
}

#[tokio::test]
async fn other_random_operations_are_answered_alike_too() {
    both_answer_alike(2).await;
}
