//! The outcome of a decision: a plain value that explains itself.
use crate::{Removed, Strategy};
use std::fmt;
use std::sync::Arc;

/// Why a candidate was removed.
#[derive(Debug, Clone, PartialEq)]
pub enum Reason {
    /// Out for so long yet.
    Cooling {
        /// Milliseconds until it returns.
        left_ms: u64,
        /// The provider's status that began it.
        status: u16,
    },
    /// Paused by an operator.
    Blocked,
    /// Another tier serves.
    Order {
        /// Its own.
        order: Option<i64>,
        /// The one that serves.
        serving: i64,
    },
    /// Ruled out for this walk.
    Excluded,
    /// It failed in this request and another is left.
    AlreadyFailed,
    /// The request names another deployment by its id.
    NotNamed,
}

impl Reason {
    /// Whether waiting helps: a passing reason ends in 429, a lasting one in another status.
    #[must_use]
    pub fn passes(&self) -> bool {
        match self {
            Self::Cooling { .. } => true,
            Self::Blocked | Self::Order { .. } | Self::Excluded | Self::AlreadyFailed | Self::NotNamed => {
                false
            }
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cooling { left_ms, status } => {
                write!(f, "cools down for {:.1} s more after status {status}", *left_ms as f64 / 1000.0)
            }
            Self::Blocked => write!(f, "blocked by model_info.blocked"),
            Self::Order { order: Some(order), serving } => write!(f, "order {order}, order {serving} serves"),
            Self::Order { order: None, serving } => write!(f, "no order, order {serving} serves"),
            Self::Excluded => write!(f, "excluded from this walk"),
            Self::AlreadyFailed => write!(f, "failed in this request, another is left"),
            Self::NotNamed => write!(f, "the request names another deployment"),
        }
    }
}

/// A candidate in its place.
#[derive(Debug, Clone, PartialEq)]
pub struct Ranked {
    /// Its place in the group.
    pub index: usize,
    /// `model_info.id`.
    pub id: Arc<str>,
    /// By what it was ordered; the meaning is the strategy's.
    pub score: f64,
    /// The view shows its limit spent: asked after all others, since the window may have turned.
    pub spent: bool,
}

/// Why nothing is left.
#[derive(Debug, Clone, PartialEq)]
pub enum Nothing {
    /// Waiting helps: so many milliseconds until the first returns.
    Passing {
        /// Milliseconds until the earliest return.
        wait_ms: u64,
    },
    /// Waiting does not help: the last lasting reason.
    Lasting(Reason),
    /// The group holds no deployment.
    Empty,
}

/// The whole outcome: who is asked in which order, who is not and why.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    /// The model group.
    pub group: Arc<str>,
    /// What ordered the ranking.
    pub strategy: Strategy,
    /// To be asked in this order.
    pub ranked: Vec<Ranked>,
    /// Not to be asked.
    pub removed: Vec<Removed>,
}
