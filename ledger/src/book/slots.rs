//! The rules of slots as a pure state machine, for leases that nobody can leave behind: those of this process.
use crate::budget::Scope;
use crate::slots::{Slot, TakeSlot, TakenSlot};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Who holds which slots.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    leases: HashMap<Scope, HashSet<Arc<str>>>,
}

impl Slots {
    /// Takes a slot if less than `max` are in use. A lease that holds one keeps it.
    pub(crate) fn take(&mut self, ask: &TakeSlot) -> TakenSlot {
        let (used, max) = (self.used(&ask.scope), ask.max);
        if !self.holds(&ask.scope, &ask.lease) {
            if used >= max {
                return TakenSlot::Refused { used, max };
            }
            self.leases.entry(ask.scope.clone()).or_default().insert(Arc::clone(&ask.lease));
        }
        let slot = Slot { scope: ask.scope.clone(), lease: Arc::clone(&ask.lease) };
        TakenSlot::Granted { slot, used: self.used(&ask.scope) }
    }

    /// Frees a slot; false if it was not taken.
    pub(crate) fn free(&mut self, slot: &Slot) -> bool {
        let Some(leases) = self.leases.get_mut(&slot.scope) else { return false };
        let was_taken = leases.remove(&slot.lease);
        if leases.is_empty() {
            self.leases.remove(&slot.scope);
        }
        was_taken
    }

    /// Slots of a scope in use.
    pub(crate) fn used(&self, scope: &Scope) -> u64 {
        self.leases.get(scope).map_or(0, |leases| u64::try_from(leases.len()).unwrap_or(u64::MAX))
    }

    /// All slots in use, by scope.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&Scope, &HashSet<Arc<str>>)> {
        self.leases.iter()
    }

    fn holds(&self, scope: &Scope, lease: &Arc<str>) -> bool {
        self.leases.get(scope).is_some_and(|leases| leases.contains(lease))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::OnOutage;

    fn take(slots: &mut Slots, lease: &str, max: u64) -> Option<u64> {
        let ask = TakeSlot { scope: "key:1".into(), max, lease: lease.into(), on_outage: OnOutage::Local };
        match slots.take(&ask) {
            TakenSlot::Granted { used, .. } => Some(used),
            TakenSlot::Refused { .. } | TakenSlot::Away => None,
        }
    }

    #[test]
    fn as_many_are_taken_as_there_are() {
        let mut slots = Slots::default();
        assert_eq!(take(&mut slots, "a", 2), Some(1));
        assert_eq!(take(&mut slots, "a", 2), Some(1));
        assert_eq!(take(&mut slots, "b", 2), Some(2));
        assert_eq!(take(&mut slots, "c", 2), None);
        assert_eq!(take(&mut slots, "b", 1), Some(2));
        assert_eq!(take(&mut slots, "d", 0), None);
    }

    #[test]
    fn a_slot_is_freed_once_and_leaves_nothing() {
        let mut slots = Slots::default();
        take(&mut slots, "a", 1);
        let slot = Slot { scope: "key:1".into(), lease: "a".into() };
        assert!(slots.free(&slot));
        assert!(!slots.free(&slot));
        assert_eq!(slots.all().count(), 0);
        assert_eq!(take(&mut slots, "b", 1), Some(1));
    }
}
