//! The checker: merged logs of the replicas beside what Redis did and shows. Answers every broken invariant, and
//! figures that tell whether the run had substance. Each rule is a function of [`Case`] and a line of [`check`];
//! what the shadow finds (I1 to I4 at the moment of each script) joins them.
use super::event::{Ended, What};
use super::evidence::{Evidence, Faults, Figures, Found, Invariant, Verdict, misbehaved};
use super::shadow::{Charge, Counter, Shadow, hh_mm};
use super::story::{Story, Told, signed};
use std::collections::{BTreeMap, HashSet};

/// What a loaded machine may add to a wait, besides the stalls that were seen.
const WAIT_SPARE_US: u64 = 250_000;
/// A flush period, a call's deadline, and what a loaded machine adds: what a killed replica had not written.
const UNWRITTEN_MS: u64 = 350;

/// Judges a run.
pub(crate) fn check(evidence: &Evidence) -> Verdict {
    let shadow = Shadow::of(&evidence.acts, &evidence.deployments, evidence.by_servers_minute);
    let story = Story::of(&evidence.events);
    let mut case = Case { evidence, shadow, story, figures: Figures::default(), found: Vec::new() };
    case.found.extend(evidence.samples.iter().cloned());
    case.found.append(&mut case.shadow.found);
    case.admissions();
    case.listing();
    case.refunds();
    case.cooldowns();
    case.slots();
    case.reports();
    case.shares();
    case.waits();
    case.count();
    Verdict { found: case.found, figures: case.figures }
}

struct Case<'a> {
    evidence: &'a Evidence,
    shadow: Shadow,
    story: Story,
    figures: Figures,
    found: Vec<Found>,
}

/// What a counter may show.
#[derive(Debug, Clone, Copy, Default)]
struct Range {
    low: i64,
    high: i64,
}

impl Range {
    /// A change that was asked for once. If it may be lost, either is right.
    fn change(&mut self, by: i64, may_be_lost: bool) {
        self.low += if may_be_lost { by.min(0) } else { by };
        self.high += if may_be_lost { by.max(0) } else { by };
    }

    fn holds(self, number: i64, faults: &Faults) -> bool {
        self.low <= number && (faults.unknown || number <= self.high)
    }
}

impl Case<'_> {
    fn find(&mut self, invariant: Invariant, text: String) {
        self.found.push(Found { invariant, text });
    }

    fn charges(&self, hold: i64) -> &[Charge] {
        self.shadow.charges.get(&hold).map_or(&[], Vec::as_slice)
    }

    /// Redis took this hold's slot in the window that was granted. One that it took elsewhere is no proof: its answer was
    /// lost, and the replica's share decided.
    fn is_charged(&self, hold: i64, (id, minute): &(String, String)) -> bool {
        self.charges(hold).iter().any(|charge| (&charge.id, &charge.minute) == (id, minute))
    }

    /// I1 between the logs and Redis: each grant has its one slot, and no slot is without a grant but by a fault.
    fn admissions(&mut self) {
        let unknown = self.evidence.faults.unknown;
        let mut found = Vec::new();
        for (hold, told) in &self.story.holds {
            let charges = self.charges(*hold);
            let fits = |charge: &Charge, granted: &(String, String)| {
                (&charge.id, &charge.minute) == (&granted.0, &granted.1)
            };
            let wrong = match (&told.granted, charges) {
                (_, [_, _, _, ..]) => Some("was charged more than twice"),
                (_, [_, _, ..]) if !unknown => Some("was charged twice"),
                (None, [_, ..]) if told.refused && !unknown => Some("was charged and refused"),
                (Some(_), []) if !unknown && !told.away => Some("was granted and never charged"),
                (Some(granted), [charge]) if !unknown && !fits(charge, granted) => {
                    Some("was granted and another was charged")
                }
                _ => None,
            };
            if let Some(wrong) = wrong {
                found.push(format!("hold {hold} {wrong}: {told:?}, {charges:?}"));
            }
        }
        let nobodys = self.shadow.charges.keys().filter(|hold| !self.story.holds.contains_key(hold));
        found.extend(nobodys.map(|hold| format!("hold {hold} was charged and nobody asked for it")));
        found.into_iter().for_each(|text| self.find(Invariant::I1, text));
    }

    /// I2 at the end, and whether the shadow is Redis' at all.
    fn listing(&mut self) {
        let mut found = Vec::new();
        for listed in &self.evidence.listed {
            let is_counter = Counter::of(&listed.key).is_some();
            found.extend(misbehaved(listed, is_counter));
            let shadow = self.shadow.number(&listed.key, self.evidence.listed_us);
            if is_counter && listed.left_ms > 0 && shadow.is_some() && shadow != listed.number {
                let text =
                    format!("{} shows {:?}, and by what was done {shadow:?}", listed.key, listed.number);
                found.push(Found { invariant: Invariant::I6, text });
            }
        }
        self.found.append(&mut found);
    }

    /// I3: no window gives back more than was given back to it.
    fn refunds(&mut self) {
        let mut allowed: BTreeMap<(&str, &str), (i64, i64)> = BTreeMap::new();
        for (hold, told) in &self.story.holds {
            for charge in self.charges(*hold).iter().filter(|_| told.left) {
                let (slots, tokens) = allowed.entry((&charge.id, &charge.minute)).or_default();
                (*slots, *tokens) = (*slots + 1, *tokens + hold);
            }
            let Some((id, minute)) = &told.granted else { continue };
            let (slots, tokens) = allowed.entry((id, minute)).or_default();
            *slots += i64::from(told.voided);
            *tokens += given_back(*hold, told);
        }
        let mut found = Vec::new();
        for (counter, &given) in &self.shadow.given_back {
            let (slots, tokens) = allowed.get(&(&*counter.id, &*counter.minute)).copied().unwrap_or_default();
            let most = if counter.kind == "rpm" { slots } else { tokens };
            if given > most {
                found.push(format!("{counter:?} was lowered by {given}, of which {most} were its own"));
            }
        }
        found.into_iter().for_each(|text| self.find(Invariant::I3, text));
    }

    /// I4: nothing is taken that cools down, save by those who ask anyway.
    fn cooldowns(&mut self) {
        let mut found = Vec::new();
        for (hold, charges) in &self.shadow.charges {
            let anyway = self.story.holds.get(hold).is_some_and(|told| told.anyway);
            for charge in charges.iter().filter(|charge| charge.cooled && !anyway) {
                found.push(format!("hold {hold} was granted {} while it cooled down", charge.id));
            }
        }
        found.into_iter().for_each(|text| self.find(Invariant::I4, text));
    }

    /// I6 for requests, window by window.
    fn slots(&mut self) {
        let faults = &self.evidence.faults;
        let mut ranges: BTreeMap<(String, String), (Range, i64)> = BTreeMap::new();
        for (hold, told) in &self.story.holds {
            let charges = self.charges(*hold);
            if !faults.unknown {
                let may_be_kept = self.is_unwritten(told.replica, told.ended_ms);
                for charge in charges {
                    let window = (charge.id.clone(), charge.minute.clone());
                    let (range, _) = ranges.entry(window).or_default();
                    range.change(1, false);
                    if told.left {
                        range.change(-1, may_be_kept);
                    }
                }
            }
            let Some(window) = &told.granted else { continue };
            let (range, used) = ranges.entry(window.clone()).or_default();
            if faults.unknown {
                // A share's slot comes to Redis as a report, so it may be lost like one.
                let may_be_lost = faults.lossy || self.is_unwritten(told.replica, told.ended_ms);
                range.change(1, !self.is_charged(*hold, window) && may_be_lost);
            } else if charges.is_empty() {
                range.change(1, false);
            }
            if told.voided {
                range.change(-1, self.is_unwritten(told.replica, told.ended_ms));
            }
            *used += i64::from(!told.voided);
        }
        let mut found = Vec::new();
        for ((id, minute), (range, used)) in ranges {
            if faults.forgotten.contains(&minute) {
                continue;
            }
            let counter = Counter { id, kind: "rpm".to_owned(), minute };
            let number = self.shadow.sums.get(&counter).copied().unwrap_or(0);
            self.figures.over_counted += (number - used).max(0);
            if !range.holds(number, faults) {
                found.push(format!("{counter:?} shows {number}, and {range:?} is right"));
            }
        }
        found.into_iter().for_each(|text| self.find(Invariant::I6, text));
    }

    /// I6 for what is reported: the sum over all windows.
    fn reports(&mut self) {
        let faults = &self.evidence.faults;
        if faults.lossy || !faults.forgotten.is_empty() {
            return;
        }
        let mut ranges: BTreeMap<(String, &str), Range> = BTreeMap::new();
        for (hold, told) in &self.story.holds {
            let charges = self.charges(*hold);
            let unwritten = self.is_unwritten(told.replica, told.ended_ms);
            for charge in charges.iter().filter(|_| !faults.unknown) {
                let range = ranges.entry((charge.id.clone(), "tpm")).or_default();
                range.change(*hold, false);
                if told.left {
                    range.change(-hold, unwritten || self.is_late(told.ended_ms, &charge.minute));
                }
            }
            let Some((id, minute)) = &told.granted else { continue };
            let range = ranges.entry((id.clone(), "tpm")).or_default();
            if faults.unknown || charges.is_empty() {
                range.change(*hold, false);
            }
            range.change(-given_back(*hold, told), unwritten || self.is_late(told.ended_ms, minute));
        }
        for settling in &self.story.settlings {
            let lost = self.is_unwritten(settling.replica, settling.at_ms);
            let mut change =
                |kind, by| ranges.entry((settling.id.clone(), kind)).or_default().change(by, lost);
            change("tpm", (settling.tokens - settling.hold).max(0));
            change("calls", i64::from(settling.ended != Ended::Neutral));
            change("fails", i64::from(settling.ended == Ended::Failure));
        }
        let mut found = Vec::new();
        for ((id, kind), range) in ranges {
            let of_it = self.shadow.sums.iter().filter(|(it, _)| it.id == id && it.kind == kind);
            let number: i64 = of_it.map(|(_, number)| number).sum();
            if !range.holds(number, faults) {
                found.push(format!("{kind} of {id} are {number} over all windows, and {range:?} is right"));
            }
        }
        found.into_iter().for_each(|text| self.find(Invariant::I6, text));
    }

    /// A killed replica had not yet written what it did at that time.
    fn is_unwritten(&self, replica: u64, at_ms: u64) -> bool {
        let mut killed = self.evidence.faults.killed.iter();
        killed.any(|&(it, killed_ms)| it == replica && at_ms + UNWRITTEN_MS >= killed_ms)
    }

    /// What it gave back may have come after its window's counter had ended.
    fn is_late(&self, ended_ms: u64, minute: &str) -> bool {
        self.evidence.by_servers_minute && minute != hh_mm((ended_ms + UNWRITTEN_MS) * 1_000)
    }

    /// I8: together within the limit where Redis was away all the time, each within its part wherever a share was
    /// granted.
    fn shares(&mut self) {
        let mut together: BTreeMap<(&str, &str), i64> = BTreeMap::new();
        let mut each: BTreeMap<(u64, &str, &str), i64> = BTreeMap::new();
        for (hold, told) in &self.story.holds {
            let Some(window @ (id, minute)) = &told.granted else { continue };
            let used = i64::from(!told.voided);
            *together.entry((id, minute)).or_default() += used;
            if !self.is_charged(*hold, window) {
                *each.entry((told.replica, id, minute)).or_default() += used;
            }
        }
        let limit = |id: &str| self.evidence.deployments.iter().find(|it| it.id == id)?.rpm;
        let replicas = self.evidence.replicas.max(1);
        let mut found = Vec::new();
        for ((id, minute), used) in together {
            let Some(limit) = limit(id) else { continue };
            let most = if limit == 0 { 0 } else { signed(limit.max(replicas)) };
            if self.evidence.faults.away.iter().any(|it| it == minute) && used > most {
                found.push(format!("{used} were admitted to {id} in {minute}, and {most} is the most"));
            }
        }
        for ((replica, id, minute), used) in each {
            let Some(limit) = limit(id) else { continue };
            let most = signed((limit / replicas).max(limit.min(1)));
            if used > most {
                found.push(format!("{replica} admitted {used} to {id} in {minute} by its share of {most}"));
            }
        }
        found.into_iter().for_each(|text| self.find(Invariant::I8, text));
    }

    /// I9: no wait beyond the deadline, save what the machine itself stood still.
    fn waits(&mut self) {
        let mut stalls: BTreeMap<u64, Vec<(u64, u64)>> = BTreeMap::new();
        for event in &self.evidence.events {
            if let What::Stalled { by_us } = event.what {
                stalls.entry(event.replica).or_default().push((event.at_ms, by_us));
                self.figures.longest_stall_ms = self.figures.longest_stall_ms.max(by_us / 1_000);
            }
        }
        let mut found = Vec::new();
        for event in &self.evidence.events {
            let (What::Granted { wait_us, .. } | What::Refused { wait_us, .. } | What::Viewed { wait_us }) =
                event.what
            else {
                continue;
            };
            self.figures.waits += 1;
            self.figures.longest_wait_ms = self.figures.longest_wait_ms.max(wait_us / 1_000);
            let began_ms = event.at_ms.saturating_sub(wait_us / 1_000);
            let of_it = stalls.get(&event.replica).into_iter().flatten();
            let meanwhile = of_it.filter(|&&(at_ms, by_us)| {
                at_ms >= began_ms && at_ms - by_us.min(at_ms * 1_000) / 1_000 <= event.at_ms
            });
            let stalled_us: u64 = meanwhile.map(|(_, by_us)| by_us).sum();
            if wait_us > self.evidence.deadline_ms * 1_000 + WAIT_SPARE_US + stalled_us {
                found.push(format!(
                    "{event:?} waited so long, of which {stalled_us} us the machine stood still"
                ));
            }
        }
        found.into_iter().for_each(|text| self.find(Invariant::I9, text));
    }

    fn count(&mut self) {
        let events = &self.evidence.events;
        let count = |is_it: fn(&What) -> bool| events.iter().filter(|event| is_it(&event.what)).count();
        let figures = &mut self.figures;
        figures.asked = count(|it| matches!(it, What::Asked { .. }));
        figures.granted = count(|it| matches!(it, What::Granted { .. }));
        figures.refused = count(|it| matches!(it, What::Refused { .. }));
        figures.left = count(|it| matches!(it, What::Left { .. }));
        figures.cooled = count(|it| matches!(it, What::Cooled { .. }));
        figures.executions = self.shadow.executions;
        let granted = |(_, told): (&i64, &Told)| told.granted.as_ref().map(|window| window.1.clone());
        figures.windows = self.story.holds.iter().filter_map(granted).collect::<HashSet<_>>().len();
        for (hold, told) in &self.story.holds {
            let charges = self.shadow.charges.get(hold).map_or(0, Vec::len);
            figures.by_share += usize::from(told.granted.is_some() && charges == 0);
            figures.unknown += usize::from(told.granted.is_none() && charges > 0);
            figures.twice += usize::from(charges > 1);
        }
    }
}

/// Tokens of the hold that its own window gets back.
fn given_back(hold: i64, told: &Told) -> i64 {
    match told.settled {
        _ if told.voided => hold,
        Some(tokens) => (hold - signed(tokens)).max(0),
        None => 0,
    }
}
