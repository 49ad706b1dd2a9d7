//! Tries of deployments on probation: those under way here, whose right is renewed while they run, and the ends of
//! tries and calls that Redis has not been told of yet.
use crate::book::PROBATION_OUTLIVES_MS;
use crate::ledger::Hold;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

/// The right to try lasts so long without being renewed: a replica that dies frees it.
pub(super) const PROBE_MS: u64 = 15_000;
const RENEW_AFTER_MS: u64 = 5_000;

/// See the file's head.
#[derive(Debug, Default)]
pub(super) struct Probes {
    trying: HashMap<Arc<str>, Trying>,
    ended: HashMap<Arc<str>, Ended>,
}

#[derive(Debug)]
struct Trying {
    token: Arc<str>,
    renewed_ms: u64,
}

/// What Redis is to be told of one deployment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ended {
    /// The right to give back.
    pub(super) token: Option<Arc<str>>,
    /// A call that began then has succeeded: the latest such.
    pub(super) success_began_ms: Option<u64>,
    /// The call that had the right has succeeded.
    pub(super) passed: bool,
    at_ms: u64,
}

impl Probes {
    /// A hold with the right to try was granted.
    pub(super) fn begin(&mut self, hold: &Hold, now_ms: u64) {
        if let Some(probe) = &hold.probe {
            let trying = Trying { token: Arc::clone(&probe.token), renewed_ms: now_ms };
            self.trying.insert(Arc::clone(&hold.member.id), trying);
        }
    }

    /// A request of this replica has the right.
    pub(super) fn is_trying(&self, id: &str) -> bool {
        self.trying.contains_key(id)
    }

    /// The call has succeeded.
    pub(super) fn succeed(&mut self, hold: &Hold, now_ms: u64) {
        self.stop(hold);
        let token = hold.probe.as_ref().map(|probe| Arc::clone(&probe.token));
        let (passed, success_began_ms) = (token.is_some(), Some(hold.began_ms));
        self.end(&hold.member.id, Ended { token, success_began_ms, passed, at_ms: now_ms });
    }

    /// The try is over, whatever came of it; true if it was still under way.
    pub(super) fn release(&mut self, hold: &Hold, now_ms: u64) -> bool {
        let stopped = self.stop(hold);
        if let Some(token) = &stopped {
            let token = Some(Arc::clone(token));
            let ended = Ended { token, success_began_ms: None, passed: false, at_ms: now_ms };
            self.end(&hold.member.id, ended);
        }
        stopped.is_some()
    }

    /// The probation is over, so whoever tries still tries in vain.
    pub(super) fn stop_renewing(&mut self, id: &str) {
        self.trying.remove(id);
    }

    /// A success that Redis has not been told of.
    pub(super) fn has_untold_success(&self, id: &str) -> bool {
        self.ended.get(id).is_some_and(|ended| ended.success_began_ms.is_some())
    }

    /// Anything that Redis has not been told of.
    pub(super) fn has_untold(&self) -> bool {
        !self.ended.is_empty()
    }

    /// Hands out all that is to be told.
    pub(super) fn take_ended(&mut self) -> Vec<(Arc<str>, Ended)> {
        self.ended.drain().collect()
    }

    /// Puts back what Redis may not have heard. Saying it twice changes nothing.
    pub(super) fn put_back(&mut self, id: &Arc<str>, ended: Ended) {
        self.end(id, ended);
    }

    /// The rights that are to be renewed now.
    pub(super) fn renewals(&mut self, now_ms: u64) -> Vec<(Arc<str>, Arc<str>)> {
        let mut due = Vec::new();
        for (id, trying) in &mut self.trying {
            if now_ms.saturating_sub(trying.renewed_ms) >= RENEW_AFTER_MS {
                trying.renewed_ms = now_ms;
                due.push((Arc::clone(id), Arc::clone(&trying.token)));
            }
        }
        due
    }

    /// Keeps memory bounded while nothing can be told.
    pub(super) fn forget(&mut self, now_ms: u64) {
        self.ended.retain(|_, ended| now_ms < ended.at_ms.saturating_add(PROBATION_OUTLIVES_MS));
    }

    fn stop(&mut self, hold: &Hold) -> Option<Arc<str>> {
        let token = &hold.probe.as_ref()?.token;
        match self.trying.entry(Arc::clone(&hold.member.id)) {
            Entry::Occupied(trying) if trying.get().token == *token => Some(trying.remove().token),
            Entry::Occupied(_) | Entry::Vacant(_) => None,
        }
    }

    fn end(&mut self, id: &Arc<str>, ended: Ended) {
        match self.ended.entry(Arc::clone(id)) {
            Entry::Occupied(mut standing) => {
                let standing = standing.get_mut();
                standing.success_began_ms = standing.success_began_ms.max(ended.success_began_ms);
                standing.passed |= ended.passed;
                standing.token = ended.token.or(standing.token.take());
            }
            Entry::Vacant(place) => {
                place.insert(ended);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Minute;
    use crate::ledger::{Member, Probe};

    const NOW_MS: u64 = 1_796_075_410_000;

    fn hold(token: Option<&str>) -> Hold {
        let member = Member { id: "dep-a".into(), model: "openai/gpt-4o".into() };
        let probe = token.map(|token| Probe { token: token.into(), trips: 1 });
        Hold { member, minute: Minute::of(NOW_MS), began_ms: NOW_MS, rpm: 1, tpm: 0, probe }
    }

    #[test]
    fn a_running_try_is_renewed_from_time_to_time_until_it_ends() {
        let mut probes = Probes::default();
        probes.begin(&hold(Some("t")), NOW_MS);
        assert!(probes.renewals(NOW_MS + RENEW_AFTER_MS - 1).is_empty());
        assert_eq!(probes.renewals(NOW_MS + RENEW_AFTER_MS), [("dep-a".into(), "t".into())]);
        assert!(probes.renewals(NOW_MS + RENEW_AFTER_MS + 1).is_empty());
        assert!(probes.release(&hold(Some("t")), NOW_MS));
        assert!(probes.renewals(NOW_MS + 3 * RENEW_AFTER_MS).is_empty());
    }

    #[test]
    fn a_late_end_of_an_older_try_does_not_end_the_newer_one() {
        let mut probes = Probes::default();
        probes.begin(&hold(Some("new")), NOW_MS);
        assert!(!probes.release(&hold(Some("old")), NOW_MS));
        assert!(probes.is_trying("dep-a"));
    }

    #[test]
    fn a_success_is_not_lost_to_what_is_told_after_it() {
        let mut probes = Probes::default();
        probes.succeed(&hold(None), NOW_MS);
        let told = probes.take_ended();
        probes.begin(&hold(Some("t")), NOW_MS);
        probes.release(&hold(Some("t")), NOW_MS);
        for (id, ended) in told {
            probes.put_back(&id, ended);
        }
        let (_, ended) = probes.take_ended().remove(0);
        assert_eq!(ended.success_began_ms, Some(NOW_MS));
        assert_eq!(ended.token.as_deref(), Some("t"));
        assert!(!ended.passed, "the try came to nothing; who succeeded had no right to vouch for it");
    }
}
