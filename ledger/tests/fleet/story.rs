//! The replicas' logs once more, told hold by hold.
use super::event::{Ended, Event, What};
use std::collections::BTreeMap;

/// What the logs tell of a hold.
#[derive(Debug, Clone, Default)]
pub(crate) struct Told {
    pub(crate) replica: u64,
    pub(crate) anyway: bool,
    pub(crate) refused: bool,
    /// Its caller did not wait for the answer, so the ledger gives back what it took.
    pub(crate) left: bool,
    /// Deployment and window.
    pub(crate) granted: Option<(String, String)>,
    /// The ledger was away before or after it was granted.
    pub(crate) away: bool,
    pub(crate) voided: bool,
    pub(crate) settled: Option<u64>,
    /// When it was voided, settled or left.
    pub(crate) ended_ms: u64,
}

/// A settling, with or without a hold.
#[derive(Debug, Clone)]
pub(crate) struct Settling {
    pub(crate) at_ms: u64,
    pub(crate) replica: u64,
    pub(crate) id: String,
    pub(crate) hold: i64,
    pub(crate) tokens: i64,
    pub(crate) ended: Ended,
}

/// See the file's head.
#[derive(Debug, Default)]
pub(crate) struct Story {
    pub(crate) holds: BTreeMap<i64, Told>,
    pub(crate) settlings: Vec<Settling>,
}

impl Story {
    pub(crate) fn of(events: &[Event]) -> Self {
        let mut story = Self::default();
        events.iter().for_each(|event| story.take(event));
        story
    }

    fn told(&mut self, hold: u64) -> &mut Told {
        self.holds.entry(signed(hold)).or_default()
    }

    fn take(&mut self, event: &Event) {
        match &event.what {
            What::Asked { hold, anyway, .. } => {
                let told = self.told(*hold);
                (told.replica, told.anyway) = (event.replica, *anyway);
            }
            What::Granted { hold, id, minute, away, .. } => {
                let told = self.told(*hold);
                told.granted = Some((id.clone(), minute.clone()));
                told.away = *away;
            }
            What::Refused { hold, .. } => self.told(*hold).refused = true,
            What::Voided { hold } => {
                let told = self.told(*hold);
                (told.voided, told.ended_ms) = (true, event.at_ms);
            }
            What::Settled { hold, id, reserved, tokens, ended } => {
                if *reserved {
                    let told = self.told(*hold);
                    (told.settled, told.ended_ms) = (Some(*tokens), event.at_ms);
                }
                self.settlings.push(Settling {
                    at_ms: event.at_ms,
                    replica: event.replica,
                    id: id.clone(),
                    hold: if *reserved { signed(*hold) } else { 0 },
                    tokens: signed(*tokens),
                    ended: *ended,
                });
            }
            What::Left { hold } => {
                let told = self.told(*hold);
                (told.left, told.ended_ms) = (true, event.at_ms);
            }
            What::Viewed { .. }
            | What::Cooled { .. }
            | What::Stalled { .. }
            | What::Paused
            | What::Stopped => {}
        }
    }
}

pub(crate) fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap()
}
