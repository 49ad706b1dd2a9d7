//! Strategies order what the gates left. One file each; [`Strategy::order`] is the only match over them.
mod cost_based;
mod simple_shuffle;
mod usage_based_v2;

use crate::{Candidate, Facts};
use rand::SeedableRng;
use rand::rngs::SmallRng;
use std::str::FromStr;

/// The closed set of strategies; the names are the config's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Strategy {
    /// Weighted random by weight, else rpm, else tpm.
    #[default]
    SimpleShuffle,
    /// Fewest tokens in this minute, with those that its calls in flight will use.
    UsageBasedV2,
    /// Lowest price of an input and an output token.
    CostBased,
}

impl Strategy {
    /// All, for messages that list what is allowed.
    pub const ALL: [Self; 3] = [Self::SimpleShuffle, Self::UsageBasedV2, Self::CostBased];

    /// As written in the config and in metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::SimpleShuffle => "simple-shuffle",
            Self::UsageBasedV2 => "usage-based-routing-v2",
            Self::CostBased => "cost-based-routing",
        }
    }

    /// Whether rpm and tpm are limits under this strategy by themselves (LiteLLM: they are weights only under
    /// simple-shuffle).
    #[must_use]
    pub const fn limits_bind(self) -> bool {
        match self {
            Self::SimpleShuffle => false,
            Self::UsageBasedV2 | Self::CostBased => true,
        }
    }

    /// Orders what the gates left, first to be asked first, and answers the scores in that order.
    pub(crate) fn order(self, facts: &Facts<'_>, kept: &mut [Candidate<'_>]) -> Vec<f64> {
        match self {
            Self::SimpleShuffle => simple_shuffle::order(facts, kept),
            Self::UsageBasedV2 => usage_based_v2::order(facts, kept),
            Self::CostBased => cost_based::order(facts, kept),
        }
    }
}

/// The decision's dice: the same seed rolls the same.
fn dice(facts: &Facts<'_>) -> SmallRng {
    SmallRng::seed_from_u64(facts.dice)
}

/// A count as a score. It is rounded beyond 2^53, which no rate a minute comes near.
fn score(count: u64) -> f64 {
    count as f64
}

/// The name is not one of [`Strategy::ALL`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnknownStrategy;

impl FromStr for Strategy {
    type Err = UnknownStrategy;

    fn from_str(name: &str) -> Result<Self, UnknownStrategy> {
        Self::ALL.into_iter().find(|strategy| strategy.name() == name).ok_or(UnknownStrategy)
    }
}
