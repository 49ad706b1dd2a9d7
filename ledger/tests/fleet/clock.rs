//! Clocks of replicas' processes: the machine's with an offset, one that runs through many minutes in seconds, and
//! one that the test moves.
use ledger::{Clock, ManualClock, SystemClock};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Where a process has its time from.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) enum Time {
    /// The machine's clock, wrong by so much; the ledger corrects it by Redis'.
    Machine { offset_ms: i64 },
    /// Taken as it is: `minute_ms` of the machine's time, from `since_ms` on, are one minute.
    Fast { since_ms: u64, minute_ms: u64 },
    /// Taken as it is: moves when the test says so.
    Held { at_ms: u64 },
}

/// 21:50:00 UTC, where every fast and held clock begins.
pub(crate) const START_MS: u64 = 1_796_075_400_000;

pub(crate) struct Wrong {
    pub(crate) offset_ms: i64,
}

impl Clock for Wrong {
    fn unix_ms(&self) -> u64 {
        SystemClock.unix_ms().saturating_add_signed(self.offset_ms)
    }
}

pub(crate) struct Fast {
    pub(crate) since_ms: u64,
    pub(crate) minute_ms: u64,
}

impl Clock for Fast {
    fn unix_ms(&self) -> u64 {
        START_MS + SystemClock.unix_ms().saturating_sub(self.since_ms) * 60_000 / self.minute_ms
    }
}

/// The clock, the hand that moves it if it is a held one, and whether the ledger has to correct it.
pub(crate) fn clock(time: Time) -> (Arc<dyn Clock>, Option<Arc<ManualClock>>, bool) {
    match time {
        Time::Machine { offset_ms } => (Arc::new(Wrong { offset_ms }), None, true),
        Time::Fast { since_ms, minute_ms } => (Arc::new(Fast { since_ms, minute_ms }), None, false),
        Time::Held { at_ms } => {
            let hand = Arc::new(ManualClock::at(at_ms));
            (hand.clone(), Some(hand), false)
        }
    }
}
