//! Strategies order what the gates left.
use std::str::FromStr;

/// The closed set of strategies; the names are the config's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Strategy {
    /// Weighted random by weight, else rpm, else tpm.
    #[default]
    SimpleShuffle,
    /// Fewest tokens in this minute.
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
