//! What a run leaves behind, what was done to it on purpose, and the words of the verdict on it.
use super::event::{Deployment, Event, What};
use super::monitor::Act;
use std::collections::BTreeSet;

/// By the names of the design.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Invariant {
    /// Admitted less given back never exceeds the limit of a window.
    I1,
    /// Every counter has a time to live of at most 60 s, from its first write on, set once.
    I2,
    /// A refund never creates a key, never goes below 0, never touches another window.
    I3,
    /// No reservation takes a deployment that cools down, and a cooldown's end never moves earlier.
    I4,
    /// After two quiet flush periods the counters are what was used.
    I6,
    /// While Redis is away the replicas' shares keep the limit together.
    I8,
    /// Nobody waits beyond the deadline.
    I9,
}

/// A broken invariant, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) invariant: Invariant,
    pub(crate) text: String,
}

/// What was done on purpose, and so what the counters may show beside what was used.
#[derive(Debug, Clone, Default)]
pub(crate) struct Faults {
    /// Calls may have been answered by nobody: counters may be too high, and shares may have been granted.
    pub(crate) unknown: bool,
    /// Connections were cut so often that a report may have been cut off twice, which loses it.
    pub(crate) lossy: bool,
    /// Replicas that were killed, and when: what they had not written is lost.
    pub(crate) killed: Vec<(u64, u64)>,
    /// Windows that Redis forgot or that ended before it was back.
    pub(crate) forgotten: Vec<String>,
    /// Windows that lie wholly in an outage.
    pub(crate) away: Vec<String>,
}

/// All that a run left behind.
#[derive(Debug, Clone, Default)]
pub(crate) struct Evidence {
    pub(crate) deployments: Vec<Deployment>,
    /// As many as lived at a time.
    pub(crate) replicas: u64,
    pub(crate) deadline_ms: u64,
    /// The windows are Redis' own minutes.
    pub(crate) by_servers_minute: bool,
    pub(crate) events: Vec<Event>,
    pub(crate) acts: Vec<Act>,
    /// What the sampling reader found.
    pub(crate) samples: Vec<Found>,
    /// When the keys were listed at the end, in microseconds.
    pub(crate) listed_us: u64,
    pub(crate) listed: Vec<Listed>,
    pub(crate) faults: Faults,
}

impl Evidence {
    /// All windows that something was granted in.
    pub(crate) fn minutes(&self) -> BTreeSet<String> {
        let minute = |event: &Event| match &event.what {
            What::Granted { minute, .. } => Some(minute.clone()),
            _ => None,
        };
        self.events.iter().filter_map(minute).collect()
    }
}

/// A key that Redis shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Listed {
    pub(crate) key: String,
    /// The number in it, if it is one.
    pub(crate) number: Option<i64>,
    /// As `PTTL` answers: -1 lives for ever, -2 has ended since.
    pub(crate) left_ms: i64,
}

/// What happened, in numbers: a run without substance proves nothing.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Figures {
    pub(crate) asked: usize,
    pub(crate) granted: usize,
    pub(crate) refused: usize,
    /// Callers that left first.
    pub(crate) left: usize,
    /// Granted without Redis.
    pub(crate) by_share: usize,
    /// Slots taken in Redis that nobody was told of.
    pub(crate) unknown: usize,
    /// Slots taken twice in Redis for one request.
    pub(crate) twice: usize,
    pub(crate) cooled: usize,
    pub(crate) windows: usize,
    pub(crate) executions: usize,
    /// Slots that the counters show beyond what was used.
    pub(crate) over_counted: i64,
    pub(crate) waits: usize,
    pub(crate) longest_wait_ms: u64,
    /// How long the machine kept a replica from running, at most.
    pub(crate) longest_stall_ms: u64,
}

/// The verdict on a run.
#[derive(Debug)]
pub(crate) struct Verdict {
    pub(crate) found: Vec<Found>,
    pub(crate) figures: Figures,
}

impl Verdict {
    /// Which invariants were broken, each once.
    pub(crate) fn broken(&self) -> Vec<Invariant> {
        let mut broken: Vec<Invariant> = self.found.iter().map(|found| found.invariant).collect();
        broken.sort();
        broken.dedup();
        broken
    }
}

const COUNTER_MS_MAX: i64 = 60_000;
/// Keys that live for ever on purpose.
const LASTING: [&str; 3] = ["onegate:key:", "onegate:team:", "onegate:records"];

/// What is wrong with a key's time to live, as a reader sees it.
pub(crate) fn misbehaved(listed: &Listed, is_counter: bool) -> Option<Found> {
    let Listed { key, left_ms, .. } = listed;
    let lasts = LASTING.iter().any(|name| key.starts_with(name));
    let too_long = is_counter && *left_ms > COUNTER_MS_MAX;
    let wrong = too_long || (*left_ms == -1 && !lasts);
    wrong.then(|| Found { invariant: Invariant::I2, text: format!("{key} was seen to live {left_ms} ms") })
}
