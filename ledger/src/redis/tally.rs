//! What the shared ledger counts of itself. Plain numbers; the gateway makes metrics of them.
use std::sync::atomic::{AtomicU64, Ordering};

/// A counter that only grows.
#[derive(Debug, Default)]
pub(super) struct Count(AtomicU64);

impl Count {
    pub(super) fn up(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The counters, since the start.
#[derive(Debug, Default)]
pub(super) struct Counts {
    /// Reservations that the outage policy decided.
    pub(super) by_policy: Count,
    /// Calls whose deadline passed.
    pub(super) missed: Count,
    /// Times that Redis went away after it had been there.
    pub(super) outages: Count,
}
