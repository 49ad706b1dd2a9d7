//! Probation: after a cooldown that a failure began, a deployment is tried by one request at a time until one
//! succeeds. Source: design section 5; the mark outlives the cooldown by ten minutes.
use crate::ledger::Hold;
use std::collections::HashMap;
use std::sync::Arc;

/// How long the mark of probation outlives its cooldown, in milliseconds.
pub(crate) const OUTLIVES_MS: u64 = 600_000;
/// Nobody knows when a try ends; whoever was passed by asks again after so long.
pub(crate) const WAIT_MS: u64 = 1_000;

/// What stands against one deployment.
#[derive(Debug, Clone)]
struct Mark {
    trips: u64,
    /// End of the last cooldown that counted.
    until_ms: u64,
    /// Who tries it.
    token: Option<Arc<str>>,
}

/// All marks of probation.
#[derive(Debug, Default)]
pub(crate) struct Probations(HashMap<Arc<str>, Mark>);

impl Probations {
    /// A failure began a cooldown, or extended one if it was cooling already, which is no further trip.
    pub(crate) fn trip(&mut self, id: &Arc<str>, until_ms: u64, was_cooling: bool) {
        let mark = self.0.entry(Arc::clone(id)).or_insert(Mark { trips: 0, until_ms, token: None });
        mark.until_ms = mark.until_ms.max(until_ms);
        if !was_cooling || mark.trips == 0 {
            mark.trips += 1;
        }
    }

    /// Cooldowns in a row; 0: not on probation.
    pub(crate) fn trips(&self, id: &str, now_ms: u64) -> u64 {
        self.0.get(id).filter(|mark| mark.lives(now_ms)).map_or(0, |mark| mark.trips)
    }

    /// Someone tries it.
    pub(crate) fn is_probing(&self, id: &str) -> bool {
        self.0.get(id).is_some_and(|mark| mark.token.is_some())
    }

    /// Gives the right to try it, which another ledger may have given already.
    pub(crate) fn take(&mut self, id: &Arc<str>, token: Arc<str>, trips: u64, now_ms: u64) {
        let mark = self.0.entry(Arc::clone(id)).or_insert(Mark { trips, until_ms: now_ms, token: None });
        mark.token = Some(token);
    }

    /// The right is given back, if it is still this one.
    pub(crate) fn release(&mut self, id: &str, token: &str) {
        if let Some(mark) = self.0.get_mut(id).filter(|mark| mark.token.as_deref() == Some(token)) {
            mark.token = None;
        }
    }

    /// This call has succeeded. One that had the right, or began after the cooldown, ends the probation: then true.
    pub(crate) fn pass(&mut self, hold: &Hold) -> bool {
        let token = hold.probe.as_ref().map(|probe| &probe.token);
        let passes =
            |mark: &Mark| mark.until_ms <= hold.began_ms || token.is_some() && mark.token.as_ref() == token;
        let passed = self.0.get(&hold.member.id).is_some_and(passes);
        if passed {
            self.0.remove(&hold.member.id);
        }
        passed
    }

    /// Takes over the trips as a better informed ledger has them.
    pub(crate) fn learn(&mut self, id: &Arc<str>, trips: u64) {
        match self.0.get_mut(id) {
            Some(_) if trips == 0 => {
                self.0.remove(id);
            }
            Some(mark) => mark.trips = trips,
            None if trips > 0 => {
                self.0.insert(Arc::clone(id), Mark { trips, until_ms: 0, token: None });
            }
            None => {}
        }
    }

    /// Forgets the marks that have outlived their time.
    pub(crate) fn prune(&mut self, now_ms: u64) {
        self.0.retain(|_, mark| mark.lives(now_ms) || mark.token.is_some());
    }
}

impl Mark {
    /// One that was only heard of has no end here; whoever told of it tells when it is gone.
    fn lives(&self, now_ms: u64) -> bool {
        self.until_ms == 0 || now_ms < self.until_ms.saturating_add(OUTLIVES_MS)
    }
}
