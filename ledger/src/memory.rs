//! The embedded ledger: a lock round the book, for one replica alone.
use crate::book::Book;
use crate::clock::{Clock, Minute};
use crate::ledger::{Cooldown, Group, Hold, Ledger, Member, Reserve, Reserved, Settle, Status, View};
use async_trait::async_trait;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A ledger in this process. It is exact, needs no server, and shares with nobody.
pub struct MemoryLedger {
    clock: Arc<dyn Clock>,
    book: Mutex<Book>,
}

impl MemoryLedger {
    /// An empty ledger that lives by this clock.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, book: Mutex::default() }
    }

    /// A panic elsewhere leaves counters that are still whole: each operation changes them in one go.
    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
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

    fn settle(&self, settle: Settle) {
        self.book().settle(&settle, self.now_ms());
    }

    fn void(&self, hold: Hold) {
        self.book().void(&hold, self.now_ms());
    }

    fn cool(&self, cooldown: Cooldown) {
        self.book().cool(&cooldown, self.now_ms());
    }

    fn now_ms(&self) -> u64 {
        self.clock.unix_ms()
    }

    fn status(&self) -> Status {
        Status::Embedded
    }

    async fn drain(&self) {}
}
