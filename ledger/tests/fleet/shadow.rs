//! Redis' memory once more, rebuilt from what it did, one execution after the other. Judges what only the server's
//! own order can show: limits, times to live, refunds and cooldowns at the moment of each script.
use super::event::Deployment;
use super::evidence::{Found, Invariant};
use super::monitor::{Act, Execution};
use std::collections::{BTreeMap, HashMap};

/// Redis counts in milliseconds.
const CLOCK_ERROR_US: u64 = 2_000;
const COUNTER_TTL_MS_MAX: u64 = 60_000;
const MINUTE_US: u64 = 60_000_000;
/// The correction of a replica's clock errs by half a round trip, and a call takes a moment to arrive.
const LATE_US_MAX: u64 = 1_000_000;

/// A counter's name taken apart: `<id>:<model>:<kind>:<HH-MM>`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Counter {
    pub(crate) id: String,
    pub(crate) kind: String,
    pub(crate) minute: String,
}

impl Counter {
    pub(crate) fn of(key: &str) -> Option<Self> {
        let parts: Vec<&str> = key.split(':').collect();
        let [id, .., kind, minute] = parts[..] else { return None };
        let is_counter = ["rpm", "tpm", "calls", "fails"].contains(&kind);
        is_counter.then(|| Self { id: id.to_owned(), kind: kind.to_owned(), minute: minute.to_owned() })
    }
}

#[derive(Debug, Clone, Default)]
struct Key {
    number: i64,
    ends: Option<End>,
}

/// When a key ends. Redis reads its clock for a command and again to tell of it, and a loaded machine may halt it
/// between; so all that is known is the time at which the command before had ended, and that of its own end.
#[derive(Debug, Clone, Copy)]
struct End {
    earliest_us: u64,
    latest_us: u64,
}

/// What the monitor knows of a command's time.
#[derive(Debug, Clone, Copy)]
struct Moment {
    after_us: u64,
    before_us: u64,
}

impl Moment {
    fn plus(self, length_ms: u64) -> End {
        let length_us = length_ms * 1_000;
        let earliest_us = (self.after_us + length_us).saturating_sub(CLOCK_ERROR_US);
        End { earliest_us, latest_us: self.before_us + length_us + CLOCK_ERROR_US }
    }

    fn surely_before(self, end: End) -> bool {
        self.before_us < end.earliest_us
    }

    fn surely_after(self, end: End) -> bool {
        self.after_us > end.latest_us
    }
}

/// A slot that the reserve script took.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Charge {
    pub(crate) id: String,
    pub(crate) minute: String,
    /// The deployment was cooling down.
    pub(crate) cooled: bool,
}

/// See the file's head.
#[derive(Debug, Default)]
pub(crate) struct Shadow {
    keys: HashMap<String, Key>,
    limits: HashMap<String, (Option<u64>, Option<u64>)>,
    reserve: (String, String),
    by_servers_minute: bool,
    /// By the hold's amount, which names it.
    pub(crate) charges: HashMap<i64, Vec<Charge>>,
    /// All that a counter was ever raised and lowered by, over its lives.
    pub(crate) sums: BTreeMap<Counter, i64>,
    /// All that it was ever lowered by, as a positive number.
    pub(crate) given_back: BTreeMap<Counter, i64>,
    pub(crate) found: Vec<Found>,
    pub(crate) executions: usize,
    last_us: Option<u64>,
}

impl Shadow {
    /// `by_servers_minute`: the replicas' windows must be Redis' own minutes.
    pub(crate) fn of(acts: &[Act], deployments: &[Deployment], by_servers_minute: bool) -> Self {
        let text = include_str!("../../../lua/reserve.lua");
        let sha = redis::Script::new(text).get_hash().to_owned();
        let limits = deployments.iter().map(|it| (it.id.clone(), (it.rpm, it.tpm))).collect();
        let mut shadow =
            Self { limits, reserve: (sha, text.to_owned()), by_servers_minute, ..Self::default() };
        for act in acts {
            match act {
                Act::Executed(execution) => shadow.execute(execution),
                Act::Restarted => {
                    shadow.keys.clear();
                    shadow.sums.clear();
                }
            }
        }
        shadow
    }

    /// A counter as it must stand at a time after all acts; none if it has ended or will within a moment.
    pub(crate) fn number(&self, key: &str, at_us: u64) -> Option<i64> {
        let at = Moment { after_us: at_us, before_us: at_us };
        self.keys.get(key).filter(|key| stands(key, at)).map(|key| key.number)
    }

    fn execute(&mut self, execution: &Execution) {
        self.executions += 1;
        let before_us = execution.ended_us;
        let at = Moment { after_us: self.last_us.replace(before_us).unwrap_or(before_us), before_us };
        let script = execution.words.get(1);
        let is_script = execution.words[0].to_ascii_uppercase().starts_with("EVAL");
        let reserves = is_script && (script == Some(&self.reserve.0) || script == Some(&self.reserve.1));
        self.end_keys(execution, at);
        if reserves {
            self.judge_reservation(execution, at);
        }
        let whole = [execution.words.clone()];
        let commands = if is_script { &execution.inner[..] } else { &whole[..] };
        let touched: Vec<String> = commands.iter().filter_map(|words| self.apply(words, at)).collect();
        // A plain SET is the prover's own, which plants keys without a time to live.
        for key in touched.iter().filter(|_| is_script) {
            if self.keys.get(key).is_some_and(|key| key.ends.is_none()) {
                self.find(Invariant::I2, format!("{key} was left without a time to live by its script"));
            }
        }
    }

    /// Ends what has ended. In the moment where the clocks do not tell, a key that gets a time to live is new.
    fn end_keys(&mut self, execution: &Execution, at: Moment) {
        let arms = |words: &&Vec<String>| words[0].eq_ignore_ascii_case("PEXPIRE");
        let armed: Vec<&String> =
            execution.inner.iter().filter(arms).filter_map(|words| words.get(1)).collect();
        self.keys.retain(|name, key| {
            let Some(end) = key.ends else { return true };
            let is_new = !at.surely_before(end) && armed.contains(&name);
            !at.surely_after(end) && !is_new
        });
    }

    fn judge_reservation(&mut self, execution: &Execution, at: Moment) {
        let raised = |words: &&Vec<String>| words[0].eq_ignore_ascii_case("INCRBY") && words.len() > 2;
        let mut slot: Option<Counter> = None;
        for words in execution.inner.iter().filter(raised) {
            let Some(counter) = Counter::of(&words[1]) else { continue };
            let amount: i64 = words[2].parse().unwrap();
            let before = self.keys.get(&words[1]).map_or(0, |key| key.number);
            let (rpm, tpm) = self.limits.get(&counter.id).copied().unwrap_or_default();
            let limit = if counter.kind == "rpm" { rpm } else { tpm };
            if limit.is_some_and(|limit| before >= i64::try_from(limit).unwrap()) {
                let text = format!("{} was raised from {before} though its limit is {limit:?}", words[1]);
                self.find(Invariant::I1, text);
            }
            if counter.kind == "rpm" {
                self.judge_minute(&counter, at.before_us);
                slot = Some(counter);
            } else if let Some(slot) = slot.take() {
                let cooled = self.cools(&slot.id, at);
                let charge = Charge { id: slot.id, minute: slot.minute, cooled };
                self.charges.entry(amount).or_default().push(charge);
            }
        }
        if let Some(slot) = slot {
            self.find(Invariant::I1, format!("a slot of {slot:?} was charged without its hold"));
        }
    }

    fn judge_minute(&mut self, counter: &Counter, at_us: u64) {
        if !self.by_servers_minute {
            return;
        }
        let names = [at_us, at_us.saturating_sub(LATE_US_MAX)].map(hh_mm);
        if !names.contains(&counter.minute) {
            let text = format!("{counter:?} was charged at {} by Redis' clock", names[0]);
            self.find(Invariant::I1, text);
        }
    }

    fn cools(&self, id: &str, at: Moment) -> bool {
        self.keys.get(&format!("deployment:{id}:cooldown")).is_some_and(|key| stands(key, at))
    }

    /// Does what Redis does, and answers the key that was written.
    fn apply(&mut self, words: &[String], at: Moment) -> Option<String> {
        let key = words.get(1)?.clone();
        let number = |at: usize| words.get(at).and_then(|word| word.parse::<i64>().ok());
        match words[0].to_ascii_uppercase().as_str() {
            "INCRBY" => self.add(&key, number(2)?),
            "DECRBY" => self.add(&key, -number(2)?),
            "INCR" => self.add(&key, 1),
            "DECR" => self.add(&key, -1),
            "SET" => self.set(&key, words, at),
            "PEXPIRE" => self.arm(&key, u64::try_from(number(2)?).unwrap_or(0), at),
            "DEL" => {
                self.keys.remove(&key);
            }
            // Of these only the time to live matters, and a script that writes them arms them.
            "ZADD" | "HSET" => {
                self.keys.entry(key.clone()).or_default();
            }
            "FLUSHALL" => self.keys.clear(),
            _ => return None,
        }
        Some(key)
    }

    fn add(&mut self, name: &str, change: i64) {
        let before = self.keys.get(name).map(|key| key.number);
        if change < 0 && before.is_none() {
            self.find(Invariant::I3, format!("a refund created {name}"));
        }
        if change < 0 && before.unwrap_or(0) + change < 0 {
            self.find(Invariant::I3, format!("{name} went from {before:?} by {change}"));
        }
        self.keys.entry(name.to_owned()).or_default().number += change;
        if let Some(counter) = Counter::of(name) {
            if change < 0 {
                *self.given_back.entry(counter.clone()).or_default() -= change;
            }
            *self.sums.entry(counter).or_default() += change;
        }
    }

    fn set(&mut self, name: &str, words: &[String], at: Moment) {
        let option = words.iter().position(|word| word.eq_ignore_ascii_case("PX"));
        let ends = option.map(|option| at.plus(words[option + 1].parse().unwrap()));
        let number = words[2].parse().unwrap_or(0);
        let before = self.keys.insert(name.to_owned(), Key { number, ends }).and_then(|key| key.ends);
        if let (true, Some(before), Some(ends)) = (name.ends_with(":cooldown"), before, ends)
            && ends.latest_us < before.earliest_us
        {
            let by_ms = (before.earliest_us - ends.latest_us) / 1_000;
            self.find(Invariant::I4, format!("the end of {name} moved {by_ms} ms earlier"));
        }
    }

    fn arm(&mut self, name: &str, length_ms: u64, at: Moment) {
        let is_counter = Counter::of(name).is_some();
        let Some(key) = self.keys.get_mut(name) else { return };
        let had_one = key.ends.replace(at.plus(length_ms)).is_some();
        if is_counter && had_one {
            self.find(Invariant::I2, format!("the time to live of {name} was renewed"));
        }
        if is_counter && length_ms > COUNTER_TTL_MS_MAX {
            self.find(Invariant::I2, format!("{name} was to live {length_ms} ms"));
        }
    }

    fn find(&mut self, invariant: Invariant, text: String) {
        self.found.push(Found { invariant, text });
    }
}

fn stands(key: &Key, at: Moment) -> bool {
    key.ends.is_none_or(|end| at.surely_before(end))
}

/// The UTC minute, as key names have it.
pub(crate) fn hh_mm(at_us: u64) -> String {
    let minute = at_us / MINUTE_US;
    format!("{:02}-{:02}", minute / 60 % 24, minute % 60)
}
