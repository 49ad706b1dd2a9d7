//! The ledger's rules as a pure state machine: every operation takes the time, nothing here reads a clock.
//! What a shared ledger does by script must give the answers that this book gives.
mod in_flight;
mod probation;
mod samples;
pub(crate) mod slots;
pub(crate) mod spend;

use crate::clock::Minute;
use crate::ledger::{
    Cooldown, Cooling, Denial, Hold, Member, Outcome, Passed, Probe, Reading, Reserve, Reserved, Settle, Want,
};
use in_flight::InFlight;
pub(crate) use probation::OUTLIVES_MS as PROBATION_OUTLIVES_MS;
use probation::Probations;
pub(crate) use probation::WAIT_MS as PROBING_WAIT_MS;
pub(crate) use samples::Samples;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// The counters of one member in one minute.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) rpm: u64,
    pub(crate) tpm: u64,
    pub(crate) calls: u64,
    pub(crate) fails: u64,
}

/// What a settling changes, worked out once so that every ledger writes the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Settled {
    /// Tokens to take back from the hold's minute, if it still stands.
    pub(crate) unused: u64,
    /// Tokens to charge to the minute of the end.
    pub(crate) beyond: u64,
    /// Calls that ended: 0 or 1.
    pub(crate) calls: u64,
    /// Calls that failed: 0 or 1.
    pub(crate) fails: u64,
}

impl Settled {
    pub(crate) fn of(settle: &Settle) -> Self {
        let (calls, fails) = match settle.outcome {
            Outcome::Success => (1, 0),
            Outcome::Failure => (1, 1),
            Outcome::Neutral => (0, 0),
        };
        Self {
            unused: settle.hold.tpm.saturating_sub(settle.tokens),
            beyond: settle.tokens.saturating_sub(settle.hold.tpm),
            calls,
            fails,
        }
    }
}

/// Usage per member and minute, who cools down, who is on probation, and what runs.
#[derive(Debug, Default)]
pub(crate) struct Book {
    windows: BTreeMap<Minute, HashMap<Member, Counts>>,
    cooldowns: HashMap<Arc<str>, Cooling>,
    probations: Probations,
    /// Leads the tokens of probes, and tells them apart.
    tokens: (String, u64),
    in_flight: InFlight,
    pub(crate) samples: Samples,
    pruned_in: Option<Minute>,
}

impl Book {
    /// A book whose tokens are unlike those of any other.
    pub(crate) fn of(replica: &str) -> Self {
        Self { tokens: (format!("{replica}:"), 0), ..Self::default() }
    }

    /// Takes one slot at the first want that has room. A refusal charges nothing.
    pub(crate) fn reserve(&mut self, reserve: &Reserve, now_ms: u64) -> Reserved {
        self.prune(now_ms);
        let minute = Minute::of(now_ms);
        let mut passed: Vec<Passed> = Vec::new();
        for (index, want) in reserve.wants.iter().enumerate() {
            match self.denial(want, reserve.ignore_cooldown, now_ms) {
                Some(denial) => passed.push((index, denial)),
                None => {
                    let probe = self.probe(&want.member.id, reserve.ignore_cooldown, now_ms);
                    let (member, tpm) = (want.member.clone(), want.tpm_hold);
                    let hold = Hold { member, minute, began_ms: now_ms, rpm: 1, tpm, probe };
                    let counts = self.charge(&hold);
                    return Reserved::Granted { index, hold, rpm: counts.rpm, tpm: counts.tpm, passed };
                }
            }
        }
        Reserved::Refused { passed }
    }

    /// Counts a call that no limit binds: its request at once, its tokens when it is settled.
    pub(crate) fn begin(&mut self, member: &Member, now_ms: u64) -> Hold {
        self.prune(now_ms);
        let hold = Hold { rpm: 1, ..Hold::unreserved(member.clone(), now_ms) };
        self.charge(&hold);
        hold
    }

    /// Replaces a hold by what was used.
    pub(crate) fn settle(&mut self, settle: &Settle, now_ms: u64) {
        self.prune(now_ms);
        self.in_flight.end(&settle.hold);
        self.samples.add(&settle.hold.member.id, &settle.sample, now_ms);
        let settled = Settled::of(settle);
        self.take_back(&settle.hold, 0, settled.unused);
        if settle.outcome == Outcome::Success {
            self.answered(&settle.hold, now_ms);
        }
        self.release(&settle.hold);
        if settled.beyond > 0 || settled.calls > 0 {
            let counts = self.counts_mut(Minute::of(now_ms), &settle.hold.member);
            counts.tpm = counts.tpm.saturating_add(settled.beyond);
            counts.calls += settled.calls;
            counts.fails += settled.fails;
        }
    }

    /// Gives back a hold whose call was never sent.
    pub(crate) fn void(&mut self, hold: &Hold, now_ms: u64) {
        self.prune(now_ms);
        self.in_flight.end(hold);
        self.take_back(hold, hold.rpm, hold.tpm);
        self.release(hold);
    }

    /// The call has brought content, which ends a probation that it began after; true if there was one.
    pub(crate) fn answered(&mut self, hold: &Hold, now_ms: u64) -> bool {
        self.cooling(&hold.member.id, now_ms).is_none() && self.probations.pass(hold)
    }

    /// Takes a deployment out for a time; a running cooldown that ends later stays.
    pub(crate) fn cool(&mut self, cooldown: &Cooldown, now_ms: u64) {
        self.prune(now_ms);
        let until_ms = now_ms.saturating_add(cooldown.length_ms);
        let id = &cooldown.member.id;
        let cools_until_ms = self.cooling(id, now_ms).map(|it| it.until_ms);
        if cooldown.length_ms > 0 {
            if cooldown.probation {
                let until_ms = cools_until_ms.unwrap_or(0).max(until_ms);
                self.probations.trip(id, until_ms, cools_until_ms.is_some());
            }
            if cools_until_ms.is_none_or(|cools_until_ms| cools_until_ms < until_ms) {
                self.cooldowns.insert(Arc::clone(id), Cooling { until_ms, status: cooldown.status });
            }
        }
        if let Some(probe) = &cooldown.probe {
            self.probations.release(id, &probe.token);
        }
    }

    /// Takes over the trips as a better informed ledger has them.
    pub(crate) fn learn_trips(&mut self, id: &Arc<str>, trips: u64) {
        self.probations.learn(id, trips);
    }

    /// Cooldowns in a row that failures began; 0: it has proved itself.
    pub(crate) fn trips(&self, id: &str, now_ms: u64) -> u64 {
        self.probations.trips(id, now_ms)
    }

    /// A request that this book knows of tries it.
    pub(crate) fn is_probing(&self, id: &str) -> bool {
        self.probations.is_probing(id)
    }

    /// What this minute holds for a member.
    pub(crate) fn reading(&self, member: &Member, now_ms: u64) -> Reading {
        let Counts { rpm, tpm, calls, fails } = self.counts(member, Minute::of(now_ms));
        let (in_flight, cooldown) =
            (self.in_flight.of(&member.id), self.cooling(&member.id, now_ms).cloned());
        let (trips, probing) = (self.trips(&member.id, now_ms), self.is_probing(&member.id));
        let (latency, sizes) = self.samples.of(&member.id, now_ms);
        Reading { rpm, tpm, calls, fails, in_flight, cooldown, trips, probing, latency, sizes }
    }

    /// The counters of a member in a minute; zeros where none stand.
    pub(crate) fn counts(&self, member: &Member, minute: Minute) -> Counts {
        self.windows.get(&minute).and_then(|window| window.get(member)).copied().unwrap_or_default()
    }

    /// Who has counters in a minute.
    pub(crate) fn members(&self, minute: Minute) -> impl Iterator<Item = &Member> {
        self.windows.get(&minute).into_iter().flat_map(HashMap::keys)
    }

    /// The cooldown of a deployment that has not ended by `now_ms`.
    pub(crate) fn cooling(&self, id: &str, now_ms: u64) -> Option<&Cooling> {
        self.cooldowns.get(id).filter(|cooling| cooling.until_ms > now_ms)
    }

    /// All cooldowns that have not ended by `now_ms`.
    pub(crate) fn cooldowns(&self, now_ms: u64) -> impl Iterator<Item = (&Arc<str>, &Cooling)> {
        self.cooldowns.iter().filter(move |(_, cooling)| cooling.until_ms > now_ms)
    }

    /// Charges a hold that was granted, here or elsewhere, and answers the counters after it.
    pub(crate) fn charge(&mut self, hold: &Hold) -> Counts {
        if let Some(probe) = &hold.probe {
            let id = &hold.member.id;
            self.probations.take(id, Arc::clone(&probe.token), probe.trips, hold.began_ms);
        }
        self.in_flight.begin(hold);
        let counts = self.counts_mut(hold.minute, &hold.member);
        counts.rpm = counts.rpm.saturating_add(hold.rpm);
        counts.tpm = counts.tpm.saturating_add(hold.tpm);
        *counts
    }

    /// What runs.
    pub(crate) fn in_flight(&self) -> &InFlight {
        &self.in_flight
    }

    /// Takes over what a better informed ledger says of a cooldown, an end before its time included.
    pub(crate) fn learn(&mut self, id: &Arc<str>, cooling: Option<Cooling>) {
        match cooling {
            Some(cooling) => {
                self.cooldowns.insert(Arc::clone(id), cooling);
            }
            None => {
                self.cooldowns.remove(id);
            }
        }
    }

    /// Forgets what no operation can reach any more. The minute before this one stays: a hold may still be
    /// taken back from it, and a clock that is set back by a moment finds its counters again.
    pub(crate) fn prune(&mut self, now_ms: u64) {
        let minute = Minute::of(now_ms);
        if self.pruned_in == Some(minute) {
            return;
        }
        self.pruned_in = Some(minute);
        self.windows.retain(|window, _| window.next() >= minute);
        self.cooldowns.retain(|_, cooling| cooling.until_ms > now_ms);
        self.probations.prune(now_ms);
        self.samples.prune(now_ms);
    }

    /// The right to try a deployment that is on probation. One that is named by its id is asked anyway.
    fn probe(&mut self, id: &str, ignore_cooldown: bool, now_ms: u64) -> Option<Probe> {
        let trips = self.trips(id, now_ms);
        (trips > 0 && !ignore_cooldown).then(|| {
            let (lead, serial) = &mut self.tokens;
            *serial += 1;
            Probe { token: format!("{lead}{serial}").into(), trips }
        })
    }

    fn release(&mut self, hold: &Hold) {
        if let Some(probe) = &hold.probe {
            self.probations.release(&hold.member.id, &probe.token);
        }
    }

    fn denial(&self, want: &Want, ignore_cooldown: bool, now_ms: u64) -> Option<Denial> {
        if !ignore_cooldown && let Some(cooling) = self.cooling(&want.member.id, now_ms) {
            return Some(Denial::Cooling { wait_ms: cooling.until_ms - now_ms });
        }
        if !ignore_cooldown && self.is_probing(&want.member.id) {
            return Some(Denial::Probing { wait_ms: PROBING_WAIT_MS });
        }
        let minute = Minute::of(now_ms);
        let wait_ms = minute.left_ms(now_ms);
        let Counts { rpm, tpm, .. } = self.counts(&want.member, minute);
        if let Some(limit) = want.rpm_limit.filter(|&limit| rpm >= limit) {
            return Some(Denial::Rpm { used: rpm, limit, wait_ms });
        }
        let is_full = want.tpm_bound().is_some_and(|bound| tpm >= bound);
        want.tpm_limit.filter(|_| is_full).map(|limit| Denial::Tpm { used: tpm, limit, wait_ms })
    }

    fn take_back(&mut self, hold: &Hold, rpm: u64, tpm: u64) {
        let standing = self.windows.get_mut(&hold.minute).and_then(|window| window.get_mut(&hold.member));
        if let Some(counts) = standing {
            counts.rpm = counts.rpm.saturating_sub(rpm);
            counts.tpm = counts.tpm.saturating_sub(tpm);
        }
    }

    fn counts_mut(&mut self, minute: Minute, member: &Member) -> &mut Counts {
        self.windows.entry(minute).or_default().entry(member.clone()).or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::Sample;

    const START_MS: u64 = 1_796_075_410_000; // 21:50:10

    fn member() -> Member {
        Member { id: "dep-a".into(), model: "openai/gpt-4o".into() }
    }

    fn want(rpm_limit: Option<u64>, tpm_limit: Option<u64>, tpm_hold: u64) -> Want {
        Want { member: member(), rpm_limit, tpm_limit, tpm_hold, must_fit: false }
    }

    fn one(want: Want) -> Reserve {
        Reserve { wants: vec![want], ignore_cooldown: false }
    }

    fn cooldown(length_ms: u64) -> Cooldown {
        let (member, reason) = (member(), String::new());
        Cooldown { member, length_ms, status: 429, reason, probation: false, probe: None }
    }

    fn hold_of(reserved: Reserved) -> Hold {
        match reserved {
            Reserved::Granted { hold, .. } => hold,
            Reserved::Refused { passed } => panic!("refused: {passed:?}"),
        }
    }

    #[test]
    fn a_spent_limit_waits_for_the_end_of_the_minute() {
        let mut book = Book::default();
        book.reserve(&one(want(Some(1), None, 0)), START_MS);
        let refused = book.reserve(&one(want(Some(1), None, 0)), START_MS + 1_000);
        let wait_ms = 49_000;
        let passed = vec![(0, Denial::Rpm { used: 1, limit: 1, wait_ms })];
        assert_eq!(refused, Reserved::Refused { passed });
    }

    #[test]
    fn a_cooldown_waits_for_its_own_end_and_ends_exactly_there() {
        let mut book = Book::default();
        book.cool(&cooldown(5_000), START_MS);
        let refused = book.reserve(&one(want(None, None, 0)), START_MS + 4_999);
        assert_eq!(refused, Reserved::Refused { passed: vec![(0, Denial::Cooling { wait_ms: 1 })] });
        hold_of(book.reserve(&one(want(None, None, 0)), START_MS + 5_000));
    }

    #[test]
    fn a_window_of_an_hour_ago_is_forgotten_with_its_cooldowns() {
        let mut book = Book::default();
        for minute in 0..60 {
            let now_ms = START_MS + minute * 60_000;
            book.reserve(&one(want(None, None, 7)), now_ms);
            book.cool(&cooldown(1_000), now_ms);
        }
        assert_eq!(book.windows.len(), 2);
        book.prune(START_MS + 3_600_000);
        assert_eq!(book.cooldowns.len(), 0);
    }

    #[test]
    fn a_hold_of_a_forgotten_window_creates_no_counter() {
        let mut book = Book::default();
        let hold = hold_of(book.reserve(&one(want(None, None, 7)), START_MS));
        let later_ms = START_MS + 600_000;
        book.void(&hold, later_ms);
        book.settle(
            &Settle { hold, tokens: 0, outcome: Outcome::Neutral, sample: Sample::default() },
            later_ms,
        );
        assert_eq!(book.windows.len(), 0);
    }

    #[test]
    fn giving_back_more_than_stands_stops_at_zero() {
        let mut book = Book::default();
        let hold = hold_of(book.reserve(&one(want(None, None, 7)), START_MS));
        book.void(&hold, START_MS);
        book.void(&hold, START_MS);
        assert_eq!(book.counts(&member(), Minute::of(START_MS)), Counts::default());
    }

    #[test]
    fn a_cooldown_of_no_length_is_none() {
        let mut book = Book::default();
        book.cool(&cooldown(0), START_MS);
        assert_eq!(book.cooldowns.len(), 0);
    }
}
