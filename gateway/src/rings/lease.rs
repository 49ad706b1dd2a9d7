//! A hold that cannot be forgotten: however an attempt ends, its reservation is settled or given back.
use ledger::{Hold, Ledger, Outcome, Probe, Sample, Settle};
use std::sync::Arc;

/// A reservation in the hands of one attempt. Dropped before the call was sent it is given back; after that it
/// is settled at what is known: the caller left, the provider worked all the same.
#[must_use = "an open lease holds a slot of the deployment"]
pub struct Lease {
    ledger: Arc<dyn Ledger>,
    hold: Option<Hold>,
    sent: bool,
    tokens_so_far: u64,
    sample: Sample,
}

impl Lease {
    /// Takes charge of a hold.
    pub fn new(ledger: Arc<dyn Ledger>, hold: Hold) -> Self {
        Self { ledger, hold: Some(hold), sent: false, tokens_so_far: 0, sample: Sample::default() }
    }

    /// The call is on its way: from now on walking away costs `tokens`, an estimate.
    pub fn sent(&mut self, tokens: u64) {
        self.sent = true;
        self.tokens_so_far = tokens;
    }

    /// Content has come: if the deployment was on probation, it has proved itself.
    pub fn answered(&self) {
        if let Some(hold) = &self.hold {
            self.ledger.answered(hold);
        }
    }

    /// The right to try the deployment, if it is on probation.
    #[must_use]
    pub fn probe(&self) -> Option<&Probe> {
        self.hold.as_ref().and_then(|hold| hold.probe.as_ref())
    }

    /// What the call tells of its deployment, for when it is settled. One that the caller left tells nothing.
    pub fn tells(&mut self, sample: Sample) {
        self.sample = sample;
    }

    /// Replaces the hold by what was used.
    pub fn settle(mut self, tokens: u64, outcome: Outcome) {
        if let Some(hold) = self.hold.take() {
            self.ledger.settle(Settle { hold, tokens, outcome, sample: self.sample });
        }
    }

    /// The call never reached the provider: the slot goes back, and the failure still counts.
    pub fn not_sent(mut self) {
        if let Some(hold) = self.hold.take() {
            let bare = Hold::unreserved(hold.member.clone(), hold.began_ms);
            self.ledger.void(hold);
            self.ledger.settle(Settle {
                hold: bare,
                tokens: 0,
                outcome: Outcome::Failure,
                sample: Sample::default(),
            });
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let Some(hold) = self.hold.take() else { return };
        if self.sent {
            self.ledger.settle(Settle {
                hold,
                tokens: self.tokens_so_far,
                outcome: Outcome::Neutral,
                sample: Sample::default(),
            });
        } else {
            self.ledger.void(hold);
        }
    }
}
