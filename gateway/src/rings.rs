//! The three rings of a request: fallback (which group), retry (which try), attempt (one call).
pub mod aftermath;
pub mod attempt;
pub mod cooldown;
pub mod fallback;
pub mod lease;
mod measured;
pub mod relay;
pub mod retry;
mod wants;

use crate::providers::Failure;
use crate::refusal::Refusal;
use std::sync::Arc;

/// Why an attempt gave no answer.
#[derive(Debug)]
pub enum Miss {
    /// The provider was asked and failed.
    Failed {
        /// Who.
        id: Arc<str>,
        /// How.
        failure: Failure,
        /// `litellm_params.num_retries` of who failed.
        num_retries: Option<u32>,
    },
    /// Nobody could be asked: limits, cooldowns.
    Busy(crate::refusal::Busy),
    /// Nobody may be asked, and waiting does not help.
    NoCandidate {
        /// The model group.
        group: Arc<str>,
        /// What the last gate said.
        why: String,
    },
}

impl From<Miss> for Refusal {
    fn from(miss: Miss) -> Self {
        match miss {
            Miss::Failed { failure, .. } => Self::Upstream(failure),
            Miss::Busy(busy) => Self::Busy(busy),
            Miss::NoCandidate { group, why } => Self::NoCandidate { group, why },
        }
    }
}
