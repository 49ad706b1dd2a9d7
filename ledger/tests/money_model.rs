//! Random operations on money and slots by seed: the embedded ledger is the model, the shared one must answer alike.
use crate::world::{PATIENT, START_MS, World};
use ledger::{
    Account, AddSpend, BudgetWindow, Claim, Fit, HeldSpend, HoldSpend, Ledger, ManualClock, MemoryLedger,
    MicroDollars, Minute, OnOutage, RenewSpend, Slot, SpendHold, TakeSlot, TakenSlot,
};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use redis::aio::MultiplexedConnection;
use std::sync::Arc;
use std::time::Duration;

/// Time moves by whole steps. What a real server ends by its own clock (ends are remembered for 600 s, a window for
/// a day) ends between two steps, so that the moments that pass meanwhile decide nothing.
const STEP: Duration = Duration::from_secs(7);
const STEP_MS: u64 = 7_000;
const DAY_MS: u64 = 86_400_000;
/// Holds that may still be told of, ended ones among them.
const HOLDS_MAX: usize = 60;

/// Three scopes, each with a window that is forgotten in the course of the test, one that is not, and none.
fn accounts() -> Vec<Account> {
    let ends = [("old", START_MS - DAY_MS + 300 * STEP_MS + STEP_MS / 2), ("new", START_MS + DAY_MS)];
    let windows = || {
        let dated = ends.map(|(name, ends_at_ms)| Some(BudgetWindow { name: name.into(), ends_at_ms }));
        dated.into_iter().chain([None])
    };
    let scopes = ["key:a", "team:b", "provider:c"];
    scopes
        .iter()
        .flat_map(|&scope| windows().map(move |window| Account { scope: scope.into(), window }))
        .collect()
}

fn micros(dice: &mut StdRng, most: u64) -> MicroDollars {
    MicroDollars::new(dice.random_range(0..=most))
}

/// Two ledgers that are told the same.
struct Both {
    world: World,
    redis: MultiplexedConnection,
    clock: Arc<ManualClock>,
    shared: Arc<ledger::RedisLedger>,
    embedded: MemoryLedger,
    accounts: Vec<Account>,
    /// What was granted, and as what: `holds` and `asks` go together.
    holds: Vec<SpendHold>,
    asks: Vec<(Minute, HoldSpend)>,
    slots: Vec<Slot>,
    granted: usize,
    refused: usize,
    named: usize,
}

impl Both {
    async fn new() -> Self {
        let world = World::new();
        let redis = world.server.connection().await;
        let shared = world.ledger(PATIENT).await;
        let clock = Arc::new(ManualClock::at(START_MS));
        let embedded = MemoryLedger::new(clock.clone());
        Self {
            world,
            redis,
            clock,
            shared,
            embedded,
            accounts: accounts(),
            holds: Vec::new(),
            asks: Vec::new(),
            slots: Vec::new(),
            granted: 0,
            refused: 0,
            named: 0,
        }
    }

    fn new_ask(&mut self, dice: &mut StdRng) -> HoldSpend {
        self.named += 1;
        let claim = |dice: &mut StdRng| Claim {
            account: self.accounts.choose(dice).unwrap().clone(),
            limit: dice.random_bool(0.6).then(|| micros(dice, 3_000)),
            amount: micros(dice, 60),
        };
        HoldSpend {
            id: format!("h{}", self.named).as_str().into(),
            claims: (0..dice.random_range(1..=4)).map(|_| claim(dice)).collect(),
            fit: if dice.random_bool(0.5) { Fit::Below } else { Fit::Whole },
            lease_ms: dice.random_range(1..30) * STEP_MS,
            on_outage: OnOutage::Deny,
        }
    }

    async fn hold(&mut self, dice: &mut StdRng, at: &str) {
        // Some are asked once more, as one does that got no answer: soon.
        let repeated = self.asks.choose(dice).filter(|_| dice.random_bool(0.1)).cloned();
        let repeated = repeated.filter(|(minute, _)| *minute == Minute::of(self.shared.now_ms()));
        let repeats = repeated.is_some();
        let ask = repeated.map_or_else(|| self.new_ask(dice), |(_, ask)| ask);
        self.shared.drain().await;
        let want = self.embedded.hold_spend(ask.clone()).await;
        let got = self.shared.hold_spend(ask.clone()).await;
        assert_eq!(got, want, "{at}");
        match got {
            HeldSpend::Granted { hold, .. } => {
                if repeats {
                    return;
                }
                self.granted += 1;
                if self.holds.len() >= HOLDS_MAX {
                    let forgotten = dice.random_range(0..HOLDS_MAX);
                    self.holds.swap_remove(forgotten);
                    self.asks.swap_remove(forgotten);
                }
                self.holds.push(hold);
                self.asks.push((Minute::of(self.shared.now_ms()), ask));
            }
            HeldSpend::Refused(_) => self.refused += 1,
            HeldSpend::Away => panic!("{at}: redis is away"),
        }
    }

    /// Ends or renews a hold, be it the first time or not.
    fn tell(&self, dice: &mut StdRng, what: u32) {
        let Some(hold) = self.holds.choose(dice) else { return };
        let (cost, lease_ms, sent) =
            (micros(dice, 80), dice.random_range(0..30) * STEP_MS, dice.random_bool(0.6));
        for ledger in [&*self.shared as &dyn Ledger, &self.embedded] {
            match what {
                0 => ledger.settle_spend(hold, cost),
                1 => ledger.void_spend(hold),
                _ => ledger.renew_spend(RenewSpend { hold: hold.clone(), lease_ms, sent }),
            }
        }
    }

    fn add(&self, dice: &mut StdRng) {
        let number = dice.random_range(0..200_u64);
        let place = usize::try_from(number).unwrap();
        let accounts = [place, place / 7].map(|at| self.accounts[at % self.accounts.len()].clone()).to_vec();
        let id = format!("add{number}").as_str().into();
        let add = AddSpend { id, at_ms: START_MS + number * 1_000, accounts, cost: micros(dice, 9) };
        self.shared.add_spend(add.clone());
        self.embedded.add_spend(add);
    }

    async fn advance(&mut self, steps: u32) {
        for _ in 0..steps {
            self.world.advance_over(&mut self.redis, &self.shared, STEP).await;
            self.clock.advance(STEP);
            // A replica that lives renews what it holds.
            self.shared.drain().await;
        }
    }

    async fn slot(&mut self, dice: &mut StdRng, at: &str) {
        self.shared.drain().await;
        if !self.slots.is_empty() && dice.random_bool(0.5) {
            let slot = self.slots.swap_remove(dice.random_range(0..self.slots.len()));
            self.shared.free_slot(&slot);
            self.embedded.free_slot(&slot);
            return;
        }
        self.named += 1;
        let ask = TakeSlot {
            scope: self.accounts.choose(dice).unwrap().scope.clone(),
            max: dice.random_range(0..6),
            lease: format!("l{}", self.named).as_str().into(),
            on_outage: OnOutage::Deny,
        };
        let want = self.embedded.take_slot(ask.clone()).await;
        let got = self.shared.take_slot(ask).await;
        assert_eq!(got, want, "{at}");
        if let TakenSlot::Granted { slot, .. } = got {
            self.slots.push(slot);
        }
    }

    async fn compare(&self, at: &str) {
        self.shared.drain().await;
        let (got, want) =
            (self.shared.spendings(&self.accounts).await, self.embedded.spendings(&self.accounts).await);
        assert_eq!(got, want, "{at}");
    }
}

async fn both_answer_alike(seed: u64, operations: usize) {
    let mut dice = StdRng::seed_from_u64(seed);
    let mut both = Both::new().await;
    for operation in 0..operations {
        let at = format!("seed {seed}, operation {operation}");
        match dice.random_range(0..100) {
            0..35 => both.hold(&mut dice, &at).await,
            35..52 => both.tell(&mut dice, 0),
            52..58 => both.tell(&mut dice, 1),
            58..68 => both.tell(&mut dice, 2),
            68..74 => both.add(&mut dice),
            74..79 => both.advance(dice.random_range(1..=4)).await,
            79..89 => both.slot(&mut dice, &at).await,
            _ => both.compare(&at).await,
        }
    }
    let (granted, refused) = (both.granted, both.refused);
    assert!(granted > operations / 20 && refused > operations / 20, "{granted} granted, {refused} refused");
}

#[tokio::test]
async fn money_and_slots_are_answered_alike_by_both_ledgers() {
    for seed in 1..=3 {
        both_answer_alike(seed, 4_000).await;
    }
}

#[tokio::test]
async fn money_and_slots_are_answered_alike_by_other_dice_too() {
    for seed in 4..=5 {
        both_answer_alike(seed, 4_000).await;
    }
}

#[tokio::test]
#[ignore = "slow: 100,000 operations"]
async fn money_and_slots_are_answered_alike_a_hundred_thousand_times() {
    for seed in 100..110 {
        both_answer_alike(seed, 10_000).await;
    }
}
