//! What this replica knows by itself: a book of all that it did, and the part of it that Redis has not got yet.
//! Both are bounded by the deployments and two minutes, however long Redis is away.
use super::delta::{Delta, Unsent, signed};
use super::in_flight::Others;
use super::probes::Probes;
use super::samples::UnsentSamples;
use super::share::{Seen, share};
use crate::book::{Book, Settled};
use crate::clock::Minute;
use crate::ledger::{Cooldown, Cooling, Denial, Hold, Member, Outcome, Passed, Reserve, Reserved, Settle};
use crate::samples::{Latency, Recent, Sizes};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use tokio::time::Instant;

/// What a cooldown leaves behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum After {
    Nothing,
    /// It was out already when the failure came: on probation afterwards, but no further trip.
    Probation,
    Trip,
}

/// A cooldown that was not written yet.
#[derive(Debug, Clone)]
pub(super) struct UnsentCooldown {
    pub(super) cooling: Cooling,
    pub(super) reason: String,
    pub(super) after: After,
    /// The right to try that ends with it.
    pub(super) token: Option<Arc<str>>,
}

pub(super) type Window = (Minute, Member);

/// See the file's head.
#[derive(Debug, Default)]
pub(super) struct Local {
    book: Book,
    unsent: HashMap<Window, Unsent>,
    cooldowns: HashMap<Arc<str>, UnsentCooldown>,
    probes: Probes,
    /// rpm and tpm as Redis last showed them.
    seen: HashMap<Window, (Seen, Seen)>,
    /// What runs on other replicas.
    pub(super) others: Others,
    /// Samples that were not written yet.
    pub(super) samples: UnsentSamples,
}

impl Local {
    pub(super) fn of(replica: &str) -> Self {
        Self { book: Book::of(&format!("{replica}:alone")), ..Self::default() }
    }

    /// Redis granted this hold.
    pub(super) fn granted(&mut self, hold: &Hold, now_ms: u64) {
        self.book.prune(now_ms);
        self.book.charge(hold);
        self.probes.begin(hold, now_ms);
    }

    /// Counts a call that no limit binds. Redis gets it with the next flush.
    pub(super) fn begin(&mut self, member: &Member, now_ms: u64) -> Hold {
        let hold = self.book.begin(member, now_ms);
        self.change(hold.minute, member, Delta { rpm: signed(hold.rpm), ..Delta::default() });
        hold
    }

    /// The call has brought content; true if Redis should hear of it soon.
    pub(super) fn answered(&mut self, hold: &Hold, now_ms: u64) -> bool {
        let id = &hold.member.id;
        let proves = self.book.trips(id, now_ms) > 0 || hold.probe.is_some() && self.probes.is_trying(id);
        let tells = proves && self.book.cooling(id, now_ms).is_none();
        if tells {
            self.probes.succeed(hold, now_ms);
            if self.book.answered(hold, now_ms) {
                self.probes.stop_renewing(id);
            }
        }
        tells
    }

    /// Replaces a hold by what was used; true if Redis should hear of it soon.
    pub(super) fn settle(&mut self, settle: &Settle, now_ms: u64) -> bool {
        let answered = settle.outcome == Outcome::Success && self.answered(&settle.hold, now_ms);
        let released = self.probes.release(&settle.hold, now_ms);
        self.book.settle(settle, now_ms);
        self.samples.add(&settle.hold.member.id, &settle.sample);
        let Settled { unused, beyond, calls, fails } = Settled::of(settle);
        let Hold { member, minute, .. } = &settle.hold;
        self.change(*minute, member, Delta { tpm: -signed(unused), ..Delta::default() });
        let (calls, fails) = (signed(calls), signed(fails));
        self.change(Minute::of(now_ms), member, Delta { rpm: 0, tpm: signed(beyond), calls, fails });
        answered || released
    }

    pub(super) fn void(&mut self, hold: &Hold, now_ms: u64) {
        self.book.void(hold, now_ms);
        self.probes.release(hold, now_ms);
        let delta = Delta { rpm: -signed(hold.rpm), tpm: -signed(hold.tpm), ..Delta::default() };
        self.change(hold.minute, &hold.member, delta);
    }

    pub(super) fn cool(&mut self, cooldown: Cooldown, now_ms: u64) {
        let after = match (cooldown.probation, self.book.cooling(&cooldown.member.id, now_ms)) {
            (false, _) => After::Nothing,
            (true, Some(_)) => After::Probation,
            (true, None) => After::Trip,
        };
        self.book.cool(&cooldown, now_ms);
        let cooling =
            Cooling { until_ms: now_ms.saturating_add(cooldown.length_ms), status: cooldown.status };
        let Cooldown { member, reason, probe, .. } = cooldown;
        let token = probe.map(|probe| probe.token);
        match self.cooldowns.entry(member.id) {
            Entry::Vacant(place) => {
                place.insert(UnsentCooldown { cooling, reason, after, token });
            }
            Entry::Occupied(mut unsent) => {
                let unsent = unsent.get_mut();
                unsent.after = unsent.after.max(after);
                unsent.token = token.or(unsent.token.take());
                if unsent.cooling.until_ms < cooling.until_ms {
                    (unsent.cooling, unsent.reason) = (cooling, reason);
                }
            }
        }
    }

    /// Redis showed these counts, of which `ours` were this replica's. `None`: not told.
    pub(super) fn saw(
        &mut self,
        minute: Minute,
        member: &Member,
        (rpm, tpm): (Option<u64>, Option<u64>),
        ours: Delta,
    ) {
        let seen = self.seen.entry((minute, member.clone())).or_default();
        let ours_of = |count: i64| u64::try_from(count).unwrap_or(0);
        if let Some(all) = rpm {
            seen.0 = Seen { all, ours: ours_of(ours.rpm) };
        }
        if let Some(all) = tpm {
            seen.1 = Seen { all, ours: ours_of(ours.tpm) };
        }
    }

    /// Reserves by this replica's share alone: it cannot see what the others use now.
    pub(super) fn reserve_share(&mut self, mut reserve: Reserve, replicas: u64, now_ms: u64) -> Reserved {
        let minute = Minute::of(now_ms);
        for want in &mut reserve.wants {
            let (rpm, tpm) = self.seen.get(&(minute, want.member.clone())).copied().unwrap_or_default();
            want.rpm_limit = want.rpm_limit.map(|limit| share(limit, replicas, rpm));
            want.tpm_limit = want.tpm_limit.map(|limit| share(limit, replicas, tpm));
        }
        match self.book.reserve(&reserve, now_ms) {
            Reserved::Granted { index, hold, rpm, tpm, passed } => {
                self.probes.begin(&hold, now_ms);
                let delta = Delta { rpm: signed(hold.rpm), tpm: signed(hold.tpm), ..Delta::default() };
                self.change(hold.minute, &hold.member, delta);
                Reserved::Granted { index, hold, rpm, tpm, passed: as_shares(passed) }
            }
            Reserved::Refused { passed } => Reserved::Refused { passed: as_shares(passed) },
        }
    }

    /// What this replica did to a member's counters that Redis has got.
    pub(super) fn written(&self, minute: Minute, member: &Member) -> Delta {
        let unsent = self.unsent.get(&(minute, member.clone())).copied().unwrap_or_default();
        Delta::of(self.book.counts(member, minute)).minus(unsent.sum())
    }

    /// What this replica did to a member's counters in all.
    pub(super) fn done(&self, minute: Minute, member: &Member) -> Delta {
        Delta::of(self.book.counts(member, minute))
    }

    /// Calls of a deployment that run, here and elsewhere.
    pub(super) fn in_flight(&self, id: &str, now: Instant) -> u64 {
        self.book.in_flight().of(id).saturating_add(self.others.of(id, now))
    }

    /// How fast and how large a deployment's last calls were.
    pub(super) fn recent(&self, id: &str, now_ms: u64) -> (Recent<Latency>, Recent<Sizes>) {
        self.book.samples.of(id, now_ms)
    }

    /// Takes over the samples as they lie in Redis, our own unsent ones after them.
    pub(super) fn learn_samples(
        &mut self,
        id: &Arc<str>,
        latency: Option<&str>,
        sizes: Option<&str>,
        now_ms: u64,
    ) {
        self.book.samples.learn(id, self.samples.with(id, latency, sizes), now_ms);
    }

    /// Calls that run here, by deployment.
    pub(super) fn own_in_flight(&self) -> &HashMap<Arc<str>, u64> {
        self.book.in_flight().all()
    }

    pub(super) fn cooling(&self, id: &str, now_ms: u64) -> Option<&Cooling> {
        self.book.cooling(id, now_ms)
    }

    /// Cooldowns in a row that failures began.
    pub(super) fn trips(&self, id: &str, now_ms: u64) -> u64 {
        self.book.trips(id, now_ms)
    }

    /// A request of this replica tries it.
    pub(super) fn is_probing(&self, id: &str) -> bool {
        self.book.is_probing(id)
    }

    /// A request of this replica tries it, and nothing else stands against it.
    pub(super) fn is_trying(&self, id: &str, now_ms: u64) -> bool {
        self.book.is_probing(id) && self.book.cooling(id, now_ms).is_none()
    }

    /// Takes over the trips as Redis has them, save where ours are still unsent.
    pub(super) fn learn_trips(&mut self, id: &Arc<str>, trips: u64) {
        let unsent_trip = self.cooldowns.get(id).is_some_and(|unsent| unsent.after != After::Nothing);
        if !unsent_trip && !self.probes.has_untold_success(id) {
            self.book.learn_trips(id, trips);
            if trips == 0 {
                self.probes.stop_renewing(id);
            }
        }
    }

    /// What Redis is to be told of probations, and what is told already.
    pub(super) fn probes(&mut self) -> &mut Probes {
        &mut self.probes
    }

    /// A cooldown that this replica has set and Redis has not got, so that no script can obey it yet.
    pub(super) fn unsent_cooling(&self, id: &str, now_ms: u64) -> Option<&Cooling> {
        self.cooldowns.get(id).map(|unsent| &unsent.cooling).filter(|cooling| cooling.until_ms > now_ms)
    }

    /// Takes over a cooldown, or its absence, as Redis has it. Where our own is still unsent, the later end holds.
    pub(super) fn learn(&mut self, id: &Arc<str>, read: Option<Cooling>, now_ms: u64) {
        if self.unsent_cooling(id, now_ms).is_some() {
            let ours_ms = self.cooling(id, now_ms).map_or(0, |ours| ours.until_ms);
            if read.as_ref().is_none_or(|read| read.until_ms <= ours_ms) {
                return;
            }
        }
        self.book.learn(id, read);
    }

    pub(super) fn has_unsent(&self) -> bool {
        let has_reports = !self.cooldowns.is_empty() || self.probes.has_untold() || !self.samples.is_empty();
        !self.unsent.is_empty() || has_reports
    }

    /// Hands out all unsent changes; those of windows that nobody reads any more are forgotten.
    pub(super) fn take_unsent(&mut self, now_ms: u64) -> Vec<(Window, Unsent)> {
        self.forget(now_ms);
        self.unsent.drain().collect()
    }

    /// Puts a change back that was not written.
    pub(super) fn put_back(&mut self, window: Window, unsent: Unsent) {
        if unsent.fresh != Delta::default() || unsent.again != Delta::default() {
            let standing = self.unsent.entry(window).or_default();
            standing.fresh = standing.fresh.plus(unsent.fresh);
            standing.again = standing.again.plus(unsent.again);
        }
    }

    /// The unsent cooldowns. They stay until written, for reservations must obey them meanwhile.
    pub(super) fn unsent_cooldowns(&self) -> Vec<(Arc<str>, UnsentCooldown)> {
        self.cooldowns.iter().map(|(id, unsent)| (Arc::clone(id), unsent.clone())).collect()
    }

    /// Redis has got this deployment's cooldown up to `until_ms`; one that was extended meanwhile stays.
    pub(super) fn cooldown_written(&mut self, id: &str, until_ms: u64) {
        if self.cooldowns.get(id).is_some_and(|unsent| unsent.cooling.until_ms <= until_ms) {
            self.cooldowns.remove(id);
        }
    }

    /// Redis has lost its memory: what this replica had written in this minute is to be written again, and every
    /// cooldown it knows of, for those are extended at most however many replicas write them.
    /// Only what lies in the part that lost it: the rest stands.
    pub(super) fn write_again(&mut self, now_ms: u64, is_lost: impl Fn(&str) -> bool) {
        let minute = Minute::of(now_ms);
        let members: Vec<Member> =
            self.book.members(minute).filter(|member| is_lost(&member.id)).cloned().collect();
        for member in members {
            self.change(minute, &member, self.written(minute, &member).increases());
        }
        for (id, cooling) in self.book.cooldowns(now_ms).filter(|(id, _)| is_lost(id)) {
            let after = if self.book.trips(id, now_ms) > 0 { After::Trip } else { After::Nothing };
            let (cooling, reason) = (cooling.clone(), String::new());
            let unsent = UnsentCooldown { cooling, reason, after, token: None };
            self.cooldowns.entry(Arc::clone(id)).or_insert(unsent);
        }
    }

    /// Keeps memory bounded while nothing can be written.
    pub(super) fn forget(&mut self, now_ms: u64) {
        self.book.prune(now_ms);
        self.unsent.retain(|(minute, _), _| minute.next() >= Minute::of(now_ms));
        self.seen.retain(|(minute, _), _| *minute >= Minute::of(now_ms));
        self.cooldowns.retain(|_, unsent| unsent.cooling.until_ms > now_ms);
        self.probes.forget(now_ms);
    }

    fn change(&mut self, minute: Minute, member: &Member, delta: Delta) {
        if delta != Delta::default() {
            let unsent = self.unsent.entry((minute, member.clone())).or_default();
            unsent.fresh = unsent.fresh.plus(delta);
        }
    }
}

fn as_shares(passed: Vec<Passed>) -> Vec<Passed> {
    let as_share = |denial| match denial {
        Denial::Rpm { wait_ms, .. } | Denial::Tpm { wait_ms, .. } => Denial::Share { wait_ms },
        Denial::Cooling { .. } | Denial::Probing { .. } | Denial::Share { .. } | Denial::Away { .. } => {
            denial
        }
    };
    passed.into_iter().map(|(index, denial)| (index, as_share(denial))).collect()
}

#[cfg(test)]
mod tests;
