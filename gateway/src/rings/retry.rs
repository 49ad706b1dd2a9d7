//! The middle ring: whether the group is asked again, and when. It cures "this deployment"; the fallback ring
//! cures "this group". Numbers are LiteLLM's (retry counts, back-off).
use super::Miss;
use crate::catalog::{Group, Settings};
use crate::providers::FailureKind;
use routing::Decision;
use std::sync::Arc;
use std::time::Duration;

/// First back-off; doubles with each wait.
const BACKOFF_FIRST: Duration = Duration::from_millis(500);
/// Longest back-off.
const BACKOFF_MAX: Duration = Duration::from_secs(8);
/// Jitter added to every wait: up to this much.
const JITTER_MAX: Duration = Duration::from_millis(750);
/// A provider's `Retry-After` up to here is waited for.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(60);

/// What comes after a miss.
#[derive(Debug, PartialEq, Eq)]
pub enum Next {
    /// Decide again, after this wait.
    Again(Duration),
    /// This group has had its tries.
    GiveUp,
}

/// The tries of one visit to a group.
#[derive(Debug, Default)]
pub struct Tries {
    /// Failed in this visit: not asked again while another is left.
    pub failed: Vec<Arc<str>>,
    /// Tiers that were left behind.
    pub excluded: Vec<Arc<str>>,
    /// Attempts after the first, in all.
    pub retries: u32,
    counted: u32,
    waits: u32,
    earlier: Option<Miss>,
}

/// What bounds the tries, besides the failures themselves.
#[derive(Debug)]
pub struct Bounds<'a> {
    /// The router's settings.
    pub settings: &'a Settings,
    /// The request's own `num_retries`: beats the deployment's and the router's.
    pub num_retries: Option<u32>,
    /// The request names one deployment by its id: there is no other tier to go to.
    pub named: bool,
    /// What is left of the request's time; `None`: unbounded.
    pub left: Option<Duration>,
    /// Randomness for the jitter, in `0.0..1.0`.
    pub jitter: f64,
}

impl Tries {
    /// What to do after `miss` came out of `decision`.
    pub fn after(&mut self, miss: &Miss, decision: &Decision, group: &Group, bounds: &Bounds<'_>) -> Next {
        let next = match miss {
            Miss::Failed { id, failure, num_retries } => {
                self.failed.push(id.clone());
                let budget = bounds.num_retries.or(*num_retries).unwrap_or(bounds.settings.num_retries);
                let peers = decision.ranked.iter().any(|ranked| !self.failed.contains(&ranked.id));
                if !peers && !bounds.named && later_tier(decision, group) {
                    Next::GiveUp
                } else {
                    self.after_failure(failure.kind, failure.retry_wait, peers, budget, bounds)
                }
            }
            Miss::Busy(_) | Miss::NoCandidate { .. } => Next::GiveUp,
        };
        match next {
            Next::Again(wait) if bounds.left.is_none_or(|left| wait < left) => {
                self.retries += 1;
                Next::Again(wait)
            }
            Next::Again(_) | Next::GiveUp if bounds.named => Next::GiveUp,
            Next::Again(_) | Next::GiveUp => self.next_tier(miss, decision, group),
        }
    }

    /// Keeps what an earlier try ran into, for the verdict.
    pub fn remember(&mut self, miss: Miss) {
        if self.earlier.as_ref().is_none_or(|earlier| telling(&miss) >= telling(earlier)) {
            self.earlier = Some(miss);
        }
    }

    /// What this visit comes to, `miss` being its end: the most telling of all its misses, the last among equals.
    #[must_use]
    pub fn verdict(mut self, miss: Miss) -> Miss {
        let last = match &miss {
            Miss::Failed { .. } => return miss,
            Miss::Busy(_) | Miss::NoCandidate { .. } => telling(&miss),
        };
        self.earlier.take_if(|earlier| telling(earlier) > last).unwrap_or(miss)
    }

    fn after_failure(
        &mut self,
        kind: FailureKind,
        retry_wait: Option<Duration>,
        peers: bool,
        budget: u32,
        bounds: &Bounds<'_>,
    ) -> Next {
        if !kind.retryable_elsewhere() {
            return Next::GiveUp;
        }
        // A dead key or a missing model is the deployment's own: moving on costs no allowance, and asking the
        // same one again is of no use.
        if !kind.transient() {
            return if peers && budget > 0 { Next::Again(Duration::ZERO) } else { Next::GiveUp };
        }
        if self.counted >= budget {
            return Next::GiveUp;
        }
        self.counted += 1;
        if peers {
            return Next::Again(Duration::ZERO);
        }
        let jitter = JITTER_MAX.mul_f64(bounds.jitter);
        let asked = retry_wait.filter(|wait| !wait.is_zero() && *wait <= RETRY_AFTER_MAX);
        let wait = asked.unwrap_or_else(|| {
            let doubled = BACKOFF_FIRST.saturating_mul(1 << self.waits.min(10));
            doubled.max(bounds.settings.retry_after).min(BACKOFF_MAX)
        });
        self.waits += 1;
        Next::Again(wait + jitter)
    }

    /// A tier whose tries are over is left behind when a later one remains. That is no visit to another group.
    fn next_tier(&mut self, miss: &Miss, decision: &Decision, group: &Group) -> Next {
        if let Miss::Failed { failure, .. } = miss
            && !failure.kind.retryable_elsewhere()
        {
            return Next::GiveUp;
        }
        if !later_tier(decision, group) {
            return Next::GiveUp;
        }
        let tier = serving_tier(decision, group);
        for deployment in &group.routing.deployments {
            if deployment.order == tier {
                self.excluded.push(deployment.id.clone());
            }
        }
        (self.counted, self.waits) = (0, 0);
        self.retries += 1;
        Next::Again(Duration::ZERO)
    }
}

/// How much a miss tells the caller. A provider's failure says most; "busy" knows more than a provider's 429, the
/// earliest return; that nobody may be asked at all hides that waiting would have helped.
fn telling(miss: &Miss) -> u8 {
    match miss {
        Miss::Failed { failure, .. } if failure.kind == FailureKind::RateLimit => 1,
        Miss::NoCandidate { .. } => 0,
        Miss::Busy(_) => 2,
        Miss::Failed { .. } => 3,
    }
}

/// The order of those that were asked; `None` also where nobody was.
fn serving_tier(decision: &Decision, group: &Group) -> Option<i64> {
    decision.ranked.first().and_then(|first| group.routing.deployments[first.index].order)
}

fn later_tier(decision: &Decision, group: &Group) -> bool {
    let tier = serving_tier(decision, group);
    group.routing.deployments.iter().any(|other| is_later(tier, other.order))
}

/// Deployments without an order come after those with one.
fn is_later(tier: Option<i64>, other: Option<i64>) -> bool {
    match (tier, other) {
        (Some(tier), Some(other)) => other > tier,
        (Some(_), None) => true,
        (None, _) => false,
    }
}

#[cfg(test)]
mod tests;
