//! Calls in flight, by deployment: a hold that was taken adds its request, settling or voiding it takes it off.
use crate::ledger::Hold;
use std::collections::HashMap;
use std::sync::Arc;

/// Who has how many. A deployment without any is not in it, so it is bounded by what really runs.
#[derive(Debug, Default)]
pub(crate) struct InFlight(HashMap<Arc<str>, u64>);

impl InFlight {
    /// A hold was taken.
    pub(super) fn begin(&mut self, hold: &Hold) {
        if hold.rpm > 0 {
            let calls = self.0.entry(Arc::clone(&hold.member.id)).or_default();
            *calls = calls.saturating_add(hold.rpm);
        }
    }

    /// A hold has ended. One that ends twice, or was never taken here, takes nothing below 0.
    pub(super) fn end(&mut self, hold: &Hold) {
        if let Some(calls) = self.0.get_mut(&hold.member.id) {
            *calls = calls.saturating_sub(hold.rpm);
            if *calls == 0 {
                self.0.remove(&hold.member.id);
            }
        }
    }

    /// Calls of this deployment that run.
    pub(crate) fn of(&self, id: &str) -> u64 {
        self.0.get(id).copied().unwrap_or(0)
    }

    /// All that have any.
    pub(crate) fn all(&self) -> &HashMap<Arc<str>, u64> {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::Member;

    fn hold(id: &str) -> Hold {
        let member = Member { id: id.into(), model: "openai/gpt-4o".into() };
        Hold { rpm: 1, ..Hold::unreserved(member, 0) }
    }

    #[test]
    fn what_began_and_has_not_ended_is_in_flight() {
        let mut in_flight = InFlight::default();
        for id in ["a", "b", "a"] {
            in_flight.begin(&hold(id));
        }
        in_flight.end(&hold("b"));
        assert_eq!((in_flight.of("a"), in_flight.of("b"), in_flight.of("c")), (2, 0, 0));
        assert_eq!(in_flight.all().len(), 1);
    }

    #[test]
    fn a_hold_that_ends_twice_takes_nothing_below_zero() {
        let mut in_flight = InFlight::default();
        in_flight.begin(&hold("a"));
        in_flight.end(&hold("a"));
        in_flight.end(&hold("a"));
        in_flight.begin(&hold("a"));
        assert_eq!(in_flight.of("a"), 1);
    }

    #[test]
    fn a_hold_that_reserved_nothing_is_no_call() {
        let mut in_flight = InFlight::default();
        in_flight.begin(&hold("a"));
        let bare = Hold { rpm: 0, ..hold("a") };
        in_flight.begin(&bare);
        in_flight.end(&bare);
        assert_eq!(in_flight.of("a"), 1);
    }
}
