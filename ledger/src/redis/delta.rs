//! Changes of counters, as Redis is to be told of them.
use crate::book::Counts;

/// Changes of one member's counters in one minute.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Delta {
    pub(super) rpm: i64,
    pub(super) tpm: i64,
    pub(super) calls: i64,
    pub(super) fails: i64,
}

impl Delta {
    pub(super) fn of(counts: Counts) -> Self {
        let Counts { rpm, tpm, calls, fails } = counts;
        Self { rpm: signed(rpm), tpm: signed(tpm), calls: signed(calls), fails: signed(fails) }
    }

    fn merge(self, other: Self, merge: fn(i64, i64) -> i64) -> Self {
        Self {
            rpm: merge(self.rpm, other.rpm),
            tpm: merge(self.tpm, other.tpm),
            calls: merge(self.calls, other.calls),
            fails: merge(self.fails, other.fails),
        }
    }

    pub(super) fn plus(self, other: Self) -> Self {
        self.merge(other, i64::saturating_add)
    }

    pub(super) fn minus(self, other: Self) -> Self {
        self.merge(other, i64::saturating_sub)
    }

    /// The increases alone. A decrease whose fate is unknown is never asked for again.
    pub(super) fn increases(self) -> Self {
        self.merge(Self::default(), i64::max)
    }

    /// Counters moved by this change, never below 0.
    pub(super) fn apply(self, counts: Counts) -> Counts {
        Counts {
            rpm: counts.rpm.saturating_add_signed(self.rpm),
            tpm: counts.tpm.saturating_add_signed(self.tpm),
            calls: counts.calls.saturating_add_signed(self.calls),
            fails: counts.fails.saturating_add_signed(self.fails),
        }
    }
}

/// A change that was not written yet.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Unsent {
    /// Never asked for.
    pub(super) fresh: Delta,
    /// Asked for once, outcome unknown: to be asked for once more, then given up.
    pub(super) again: Delta,
}

impl Unsent {
    pub(super) fn sum(self) -> Delta {
        self.fresh.plus(self.again)
    }
}

pub(super) fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
