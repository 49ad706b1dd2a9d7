//! The embedded ledger: a lock round the book, for one replica alone.
use crate::book::Book;
use crate::book::slots::Slots;
use crate::book::spend::Spends;
use crate::budget::{Account, AddSpend, HeldSpend, HoldSpend, RenewSpend, SpendHold, Spending};
use crate::clock::{Clock, Minute};
use crate::ledger::{Cooldown, Group, Hold, Ledger, Member, Reserve, Reserved, Settle, Status, View};
use crate::money::MicroDollars;
use crate::slots::{Slot, TakeSlot, TakenSlot};
use async_trait::async_trait;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A ledger in this process. It is exact, needs no server, and shares with nobody.
pub struct MemoryLedger {
    clock: Arc<dyn Clock>,
    book: Mutex<Book>,
    spends: Mutex<Spends>,
    slots: Mutex<Slots>,
}

impl MemoryLedger {
    /// An empty ledger that lives by this clock.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, book: Mutex::default(), spends: Mutex::default(), slots: Mutex::default() }
    }

    /// A panic elsewhere leaves counters that are still whole: each operation changes them in one go.
    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn spends(&self) -> MutexGuard<'_, Spends> {
        self.spends.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn slots(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for MemoryLedger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryLedger").finish_non_exhaustive()
    }
}

#[async_trait]
impl Ledger for MemoryLedger {
    async fn view(&self, group: &Group) -> View {
        let now_ms = self.now_ms();
        let book = self.book();
        let readings = group.members.iter().map(|member| book.reading(member, now_ms)).collect();
        View { minute: Minute::of(now_ms), read_at_ms: now_ms, readings }
    }

    async fn reserve(&self, reserve: Reserve) -> Reserved {
        self.book().reserve(&reserve, self.now_ms())
    }

    fn begin(&self, member: &Member) -> Hold {
        self.book().begin(member, self.now_ms())
    }

    fn answered(&self, hold: &Hold) {
        self.book().answered(hold, self.now_ms());
    }

    fn settle(&self, settle: Settle) {
        self.book().settle(&settle, self.now_ms());
    }

    fn void(&self, hold: Hold) {
        self.book().void(&hold, self.now_ms());
    }

    fn cool(&self, cooldown: Cooldown) {
        self.book().cool(&cooldown, self.now_ms());
    }

    async fn hold_spend(&self, ask: HoldSpend) -> HeldSpend {
        self.spends().hold(&ask, self.now_ms())
    }

    fn renew_spend(&self, renew: RenewSpend) {
        self.spends().renew(&renew, self.now_ms());
    }

    fn settle_spend(&self, hold: &SpendHold, cost: MicroDollars) {
        self.spends().end(hold, cost, self.now_ms());
    }

    fn void_spend(&self, hold: &SpendHold) {
        self.spends().end(hold, MicroDollars::ZERO, self.now_ms());
    }

    fn add_spend(&self, add: AddSpend) {
        let cost = add.cost;
        self.spends().end(&add.into_hold(), cost, self.now_ms());
    }

    async fn spendings(&self, accounts: &[Account]) -> Vec<Spending> {
        let (mut spends, now_ms) = (self.spends(), self.now_ms());
        spends.prune(now_ms);
        accounts.iter().map(|account| spends.stands(account, now_ms)).collect()
    }

    async fn take_slot(&self, ask: TakeSlot) -> TakenSlot {
        self.slots().take(&ask)
    }

    fn free_slot(&self, slot: &Slot) {
        self.slots().free(slot);
    }

    fn now_ms(&self) -> u64 {
        self.clock.unix_ms()
    }

    fn status(&self) -> Status {
        Status::Embedded
    }

    async fn drain(&self) {}
}
