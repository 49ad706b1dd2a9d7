//! The outcome of a decision: a plain value that explains itself.
#[cfg(test)]
mod tests;

use crate::{Candidate, Facts, Group, Removed, Strategy, gates};
use std::collections::BTreeSet;
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
    /// On probation, and another request tries it.
    Probing {
        /// Milliseconds after which to ask again.
        wait_ms: u64,
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
        self.wait_ms().is_some()
    }

    /// Milliseconds until it passes; `None` for a lasting one.
    #[must_use]
    pub fn wait_ms(&self) -> Option<u64> {
        match self {
            Self::Cooling { left_ms, .. } => Some(*left_ms),
            Self::Probing { wait_ms } => Some(*wait_ms),
            Self::Blocked | Self::Order { .. } | Self::Excluded | Self::AlreadyFailed | Self::NotNamed => {
                None
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
            Self::Probing { .. } => write!(f, "on probation, another request tries it"),
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
    /// It is on probation: asked before all others, and the ledger lets one request at a time try it.
    pub probation: bool,
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
    /// Not to be asked, in the order of the gates.
    pub removed: Vec<Removed>,
    nothing: Option<Nothing>,
}

impl Decision {
    /// Why nobody is to be asked; `None` while somebody is.
    #[must_use]
    pub fn nothing_left(&self) -> Option<Nothing> {
        self.nothing.clone()
    }

    /// Who cools down (`model_info.id`), and for how many milliseconds more.
    pub fn cooling(&self) -> impl Iterator<Item = (&Arc<str>, u64)> {
        self.removed.iter().filter_map(|removed| match removed.reason {
            Reason::Cooling { left_ms, .. } => Some((&removed.id, left_ms)),
            _ => None,
        })
    }
}

/// Decides who is asked in which order: the gates remove, the strategy orders, one on probation goes first, and
/// where limits bind, those whose limit the view shows spent go last. Pure: equal facts give equal decisions.
#[must_use]
pub fn decide(group: &Group, facts: &Facts<'_>) -> Decision {
    let (kept, removed) = gates::apply(group, facts).into_parts();
    let nothing = kept.is_empty().then(|| why_nothing(group, facts, &removed));
    Decision {
        group: group.name.clone(),
        strategy: facts.strategy,
        ranked: rank(facts, kept),
        removed,
        nothing,
    }
}

fn rank(facts: &Facts<'_>, mut kept: Vec<Candidate<'_>>) -> Vec<Ranked> {
    let scores = match facts.only {
        Some(_) => vec![0.0; kept.len()],
        None => facts.strategy.order(facts, &mut kept),
    };
    let place = |(candidate, score): (&Candidate<'_>, f64)| Ranked {
        index: candidate.index,
        id: candidate.deployment.id.clone(),
        score,
        spent: facts.limits_bind && candidate.spent(),
        probation: facts.only.is_none() && candidate.half_open(facts.now_ms),
    };
    let mut ranked: Vec<Ranked> = kept.iter().zip(scores).map(place).collect();
    ranked.sort_by_key(|ranked| (ranked.spent, !ranked.probation));
    ranked
}

/// What a gate removed for a passing reason, no later gate was asked about. So all of them are asked again at
/// each later time at which such a reason ends: waiting helps if somebody is left then.
fn why_nothing(group: &Group, facts: &Facts<'_>, removed: &[Removed]) -> Nothing {
    let Some(last) = removed.last() else { return Nothing::Empty };
    let mut reason = last.reason.clone();
    let mut waits_ms: BTreeSet<u64> = removed.iter().filter_map(|removed| removed.reason.wait_ms()).collect();
    while let Some(wait_ms) = waits_ms.pop_first() {
        let later = Facts { now_ms: facts.now_ms.saturating_add(wait_ms), ..facts.clone() };
        let (kept, removed) = gates::apply(group, &later).into_parts();
        match removed.last() {
            Some(last) if kept.is_empty() => reason = last.reason.clone(),
            _ => return Nothing::Passing { wait_ms },
        }
        // One passing reason may stand behind another: on probation once it has cooled down.
        let further = removed.iter().filter_map(|removed| removed.reason.wait_ms());
        waits_ms.extend(further.map(|further_ms| wait_ms.saturating_add(further_ms)));
    }
    Nothing::Lasting(reason)
}
