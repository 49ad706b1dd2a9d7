//! The words of hard parallel limits: a slot is taken before a call and freed when it ends, whatever way it ends.
use crate::budget::Scope;
use crate::ledger::OnOutage;
use std::sync::Arc;

/// Asks for one of a scope's slots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TakeSlot {
    /// Whose slots.
    pub scope: Scope,
    /// How many there are, over all replicas.
    pub max: u64,
    /// Names the lease; a new one for each call, for a freed one is not taken again.
    pub lease: Arc<str>,
    /// What decides while the shared ledger is away.
    pub on_outage: OnOutage,
}

/// A slot that is taken. Its replica keeps it alive until it is freed; that of a killed replica ends after 10 s.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Slot {
    /// Whose.
    pub scope: Scope,
    /// The lease's name.
    pub lease: Arc<str>,
}

/// The answer to [`TakeSlot`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TakenSlot {
    /// One was free.
    Granted {
        /// To be freed.
        slot: Slot,
        /// Slots of the scope in use, this one included.
        used: u64,
    },
    /// None was free.
    Refused {
        /// Slots of the scope in use.
        used: u64,
        /// Slots there are. While the shared ledger is away, this replica's share of them.
        max: u64,
    },
    /// The shared ledger is away, and nothing is admitted meanwhile ([`OnOutage::Deny`]).
    Away,
}
