//! Random operations by seed: the embedded ledger is the model, the shared one must answer alike. A failure tells its
//! seed and the operation's number.
use crate::world::{PATIENT, START_MS, World, group, member};
use ledger::{
    Cooldown, Denial, Group, Hold, Latency, Ledger, ManualClock, Member, MemoryLedger, Outcome, RedisLedger,
    Reserve, Reserved, Sample, Settle, Sizes, Want,
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
            must_fit: dice.random_bool(0.3),
        })
        .collect();
    Reserve { wants, ignore_cooldown: dice.random_bool(0.1) }
}

fn cooldown(dice: &mut StdRng) -> Cooldown {
    // The status follows from the end, for at equal ends it is open whose is kept.
    let length_ms = dice.random_range(0..20) * STEP_MS + STEP_MS / 2;
    let (member, probation) = (member(IDS.choose(dice).unwrap()), dice.random_bool(0.7));
    Cooldown { member, length_ms, status: 500, reason: String::new(), probation, probe: None }
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

/// All but what is left of a cooldown, which a server measures by its own clock, and the tokens, which differ.
fn comparable(mut reserved: Reserved) -> Reserved {
    if let Reserved::Granted { hold: Hold { probe: Some(probe), .. }, .. } = &mut reserved {
        probe.token = "".into();
    }
    let (Reserved::Granted { passed, .. } | Reserved::Refused { passed }) = &mut reserved;
    for (_, denial) in passed {
        if let Denial::Cooling { wait_ms } = denial {
            *wait_ms = 0;
        }
    }
    reserved
}

/// The two ledgers, and what they have granted: the model's hold and the other's.
struct Pair {
    dice: StdRng,
    world: World,
    clock: Arc<ManualClock>,
    embedded: MemoryLedger,
    shared: Arc<RedisLedger>,
    group: Group,
    holds: Vec<(Hold, Hold)>,
    granted: usize,
    probed: usize,
}

impl Pair {
    async fn new(seed: u64) -> Self {
        let world = World::new();
        world.clock.advance(Duration::from_millis(STEP_MS / 2));
        let shared = world.ledger(PATIENT).await;
        let clock = Arc::new(ManualClock::at(START_MS + STEP_MS / 2));
        let (dice, embedded) = (StdRng::seed_from_u64(seed), MemoryLedger::new(clock.clone()));
        let (group, holds) = (group(&IDS), Vec::new());
        Self { dice, world, clock, embedded, shared, group, holds, granted: 0, probed: 0 }
    }

    fn member(&mut self) -> Member {
        member(IDS.choose(&mut self.dice).unwrap())
    }

    fn some_hold(&mut self) -> Option<(Hold, Hold)> {
        (!self.holds.is_empty()).then(|| self.holds.swap_remove(self.dice.random_range(0..self.holds.len())))
    }

    async fn play(&mut self, at: &str) {
        match self.dice.random_range(0..100) {
            0..40 => self.reserve(at).await,
            40..65 => {
                if let Some((want, got)) = self.some_hold() {
                    self.end(want, got);
                }
            }
            65..70 => {
                let hold = Hold::unreserved(self.member(), self.shared.now_ms());
                self.end(hold.clone(), hold);
            }
            70..75 => {
                let member = self.member();
                let (want, got) = (self.embedded.begin(&member), self.shared.begin(&member));
                assert_eq!(got, want, "{at}");
                self.holds.push((want, got));
            }
            75..78 => {
                let cooldown = cooldown(&mut self.dice);
                self.embedded.cool(cooldown.clone());
                self.shared.cool(cooldown);
            }
            78..81 => {
                let by = Duration::from_millis(STEP_MS * self.dice.random_range(1..=6));
                self.world.advance(&self.shared, by).await;
                self.clock.advance(by);
            }
            81..84 => self.shared.drain().await,
            _ => {
                let (got, want) =
                    (self.shared.view(&self.group).await, self.embedded.view(&self.group).await);
                assert_eq!((got.minute, got.readings), (want.minute, want.readings), "{at}");
            }
        }
    }

    async fn reserve(&mut self, at: &str) {
        // Between a report and its flush, only this replica's view knows of it.
        self.shared.drain().await;
        let reserve = reserve(&mut self.dice);
        let want = self.embedded.reserve(reserve.clone()).await;
        let got = self.shared.reserve(reserve).await;
        assert_eq!(comparable(got.clone()), comparable(want.clone()), "{at}");
        if let (Reserved::Granted { hold: got, .. }, Reserved::Granted { hold: want, .. }) = (got, want) {
            self.granted += 1;
            self.probed += usize::from(got.probe.is_some());
            self.holds.push((want, got));
        }
    }

    fn end(&mut self, want: Hold, got: Hold) {
        let (kind, tokens) = (self.dice.random_range(0..10), self.dice.random_range(0..80));
        let (outcome, sample) = (outcome(&mut self.dice), sample(&mut self.dice));
        let answers = self.dice.random_bool(0.2);
        for (ledger, hold) in [(&self.embedded as &dyn Ledger, want), (&*self.shared, got)] {
            if answers {
                ledger.answered(&hold);
            }
            match kind {
                0..2 => ledger.void(hold),
                _ => settle(ledger, Settle { hold, tokens, outcome, sample }),
            }
        }
    }
}

/// A try that fails cools its deployment again, before its right is given back.
fn settle(ledger: &dyn Ledger, settle: Settle) {
    let hold = &settle.hold;
    if hold.probe.is_some() && settle.outcome == Outcome::Failure {
        let (member, reason, probe) = (hold.member.clone(), String::new(), hold.probe.clone());
        let length_ms = STEP_MS / 2;
        ledger.cool(Cooldown { member, length_ms, status: 500, reason, probation: true, probe });
    }
    ledger.settle(settle);
}

async fn both_answer_alike(seed: u64, operations: usize) {
    let mut pair = Pair::new(seed).await;
    for operation in 0..operations {
        pair.play(&format!("seed {seed}, operation {operation}")).await;
    }
    let Pair { granted, probed, .. } = pair;
    assert!(granted > operations / 20, "seed {seed}: only {granted} were granted, the model was hardly used");
    assert!(probed > operations / 500, "seed {seed}: only {probed} were tries, probation was hardly used");
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
