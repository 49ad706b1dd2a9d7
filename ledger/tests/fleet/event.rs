//! What a replica's process is told, and what it writes down: one JSON line an event, merged by the checker.
use crate::fleet::clock::Time;
use ledger::{Clock, SystemClock};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// A deployment of the proofs, and the limits that bind it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Deployment {
    pub(crate) id: String,
    pub(crate) rpm: Option<u64>,
    pub(crate) tpm: Option<u64>,
}

/// How often what is done, each in percent of the requests.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(crate) struct Mix {
    /// The call is never sent: its hold is voided.
    pub(crate) void: u32,
    /// The deployment is taken out for a moment after the call.
    pub(crate) cool: u32,
    /// The caller leaves after some microseconds, whether it was answered or not.
    pub(crate) leave: u32,
    /// Asks even a deployment that cools down.
    pub(crate) anyway: u32,
    /// Reads a view before.
    pub(crate) view: u32,
    /// Settles a call that no limit bound besides.
    pub(crate) unreserved: u32,
}

/// All that a replica's process needs to know; the first line of its standard input.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Spec {
    /// Never used twice in a fleet, so that a replica that is started again is another one.
    pub(crate) replica: u64,
    pub(crate) url: String,
    pub(crate) seed: u64,
    pub(crate) log: PathBuf,
    pub(crate) time: Time,
    pub(crate) deadline_ms: u64,
    /// Callers that ask one request after the other.
    pub(crate) callers: usize,
    /// Most that a caller waits between two requests, and that a call takes.
    pub(crate) pause_ms: u64,
    pub(crate) deployments: Vec<Deployment>,
    pub(crate) mix: Mix,
}

/// How a settled call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Ended {
    Success,
    Failure,
    Neutral,
}

/// Something that happened in a replica. A hold's amount is drawn once in a fleet, so it names the hold, in the
/// logs as in Redis.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub(crate) enum What {
    /// Written before the ledger is asked; without an answer behind it, what came of it is unknown.
    Asked {
        hold: u64,
        anyway: bool,
        ids: Vec<String>,
    },
    /// `away` if the ledger was so before or after.
    Granted {
        hold: u64,
        id: String,
        minute: String,
        rpm: u64,
        wait_us: u64,
        away: bool,
    },
    /// Why each one was passed over: cooling, rpm, tpm or share.
    Refused {
        hold: u64,
        why: Vec<String>,
        wait_us: u64,
        away: bool,
    },
    /// The caller left first.
    Left {
        hold: u64,
    },
    /// `minute` of the end; one that turned meanwhile may be either of two.
    Settled {
        hold: u64,
        id: String,
        reserved: bool,
        tokens: u64,
        ended: Ended,
    },
    Voided {
        hold: u64,
    },
    Viewed {
        wait_us: u64,
    },
    Cooled {
        id: String,
        length_ms: u64,
    },
    /// The machine did not let this process run for so long.
    Stalled {
        by_us: u64,
    },
    /// All callers have ended, and nothing is in flight.
    Paused,
    /// All is written; the process ends by itself.
    Stopped,
}

/// An event, when and where.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Event {
    /// Milliseconds since the Unix epoch, by the machine's clock, which all processes share.
    pub(crate) at_ms: u64,
    pub(crate) replica: u64,
    #[serde(flatten)]
    pub(crate) what: What,
}

/// The log of one process. Each event is one write, so `kill -9` loses none that had happened.
pub(crate) struct Log {
    replica: u64,
    file: Mutex<File>,
}

impl Log {
    pub(crate) fn create(path: &Path, replica: u64) -> Self {
        Self { replica, file: Mutex::new(File::create(path).unwrap()) }
    }

    pub(crate) fn write(&self, what: What) {
        // The lock first: so the order of lines is that of the times.
        let mut file = self.file.lock().unwrap();
        let event = Event { at_ms: SystemClock.unix_ms(), replica: self.replica, what };
        let line = serde_json::to_string(&event).unwrap() + "\n";
        file.write_all(line.as_bytes()).unwrap();
    }
}

/// Reads a log. A line that a killed process left unfinished is none.
pub(crate) fn read(path: &Path) -> Vec<Event> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.split_inclusive('\n')
        .filter(|line| line.ends_with('\n'))
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect()
}
