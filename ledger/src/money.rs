//! Money as whole micro-dollars. Prices come from the config as floats and are turned into whole numbers once; no
//! float takes part in a sum.
use std::fmt;
use std::ops::Add;

/// Femto-dollars in a micro-dollar.
const FEMTO_IN_MICRO: u128 = 1_000_000_000;
const MICRO_IN_DOLLAR: u64 = 1_000_000;
/// [`MicroDollars::MAX`].
const DOLLARS_MAX: f64 = 1e9;

/// An amount in millionths of a dollar.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MicroDollars(u64);

impl MicroDollars {
    /// Nothing.
    pub const ZERO: Self = Self(0);
    /// A billion dollars; every larger amount is taken for this one. A script in Redis counts in doubles, which
    /// are exact up to nine times as much.
    pub const MAX: Self = Self(1_000_000_000_000_000);

    /// So many millionths of a dollar.
    #[must_use]
    pub fn new(micros: u64) -> Self {
        Self(micros).min(Self::MAX)
    }

    /// An amount in dollars, as a budget stands in a config, to the nearest millionth. `None` for what is no
    /// amount: negative, infinite or not a number.
    #[must_use]
    pub fn from_dollars(dollars: f64) -> Option<Self> {
        let dollars = if dollars.is_finite() { dollars.min(DOLLARS_MAX) } else { dollars };
        whole(dollars, 6).map(Self::new)
    }

    /// What so many tokens cost, each kind at its price. The sum is exact and is rounded up once, to the next whole
    /// micro-dollar: a call that costs anything never counts as nothing, and no sum of calls is ever too low.
    #[must_use]
    pub fn cost(tokens: &[(PricePerToken, u64)]) -> Self {
        let exact = tokens.iter().fold(0_u128, |sum, &(price, tokens)| {
            sum.saturating_add(u128::from(price.0) * u128::from(tokens))
        });
        u64::try_from(exact.div_ceil(FEMTO_IN_MICRO)).map_or(Self::MAX, Self::new)
    }

    /// In millionths of a dollar.
    #[must_use]
    pub fn micros(self) -> u64 {
        self.0
    }

    /// The difference; nothing where `other` is more.
    #[must_use]
    pub fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Add for MicroDollars {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self::new(self.0.saturating_add(other.0))
    }
}

/// In dollars: `$1.50`, and as many places more as it takes, `$0.000015`.
impl fmt::Display for MicroDollars {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (dollars, micros) = (self.0 / MICRO_IN_DOLLAR, self.0 % MICRO_IN_DOLLAR);
        let places = format!("{micros:06}");
        let shown = places.trim_end_matches('0').len().max(2);
        write!(f, "${dollars}.{}", places.get(..shown).unwrap_or(&places))
    }
}

/// What a token costs, in femto-dollars (10^-15): fine enough that a billion tokens are priced to the micro-dollar.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PricePerToken(u64);

impl PricePerToken {
    /// A price in dollars as it stands in a config, to the nearest femto-dollar: `1.5e-7` is exactly 150 000 000 of
    /// them, though no float is exactly 1.5e-7. `None` for what is no price: negative, not a number, or more than
    /// 18 000 dollars.
    #[must_use]
    pub fn from_dollars(dollars: f64) -> Option<Self> {
        whole(dollars, 15).map(Self)
    }
}

/// A number times ten to the power of `places`, rounded to a whole one. Formatting rounds the float's exact value,
/// where multiplying it would round twice.
fn whole(number: f64, places: usize) -> Option<u64> {
    if !number.is_finite() || number < 0.0 {
        return None;
    }
    let digits = format!("{:.places$}", number.abs()).replace('.', "");
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn price(dollars: f64) -> PricePerToken {
        PricePerToken::from_dollars(dollars).unwrap()
    }

    #[test]
    fn a_price_times_tokens_is_exact() {
        for (dollars, tokens, micros) in [
            (1.5e-7, 1_000_000, 150_000),
            (2.5e-6, 3, 8),
            (0.1, 3, 300_000),
            (1e-9, 1_000_000_000, 1_000_000),
        ] {
            assert_eq!(
                MicroDollars::cost(&[(price(dollars), tokens)]).micros(),
                micros,
                "{dollars} x {tokens}"
            );
        }
    }

    #[test]
    fn a_cost_is_rounded_up_once_over_all_kinds_of_tokens() {
        let (input, output) = (price(1.5e-7), price(6e-7));
        assert_eq!(MicroDollars::cost(&[(input, 1)]).micros(), 1);
        assert_eq!(MicroDollars::cost(&[(input, 2), (output, 1)]).micros(), 1);
        assert_eq!(MicroDollars::cost(&[(input, 3), (output, 1)]).micros(), 2);
        assert_eq!(MicroDollars::cost(&[(input, 0), (output, 0)]).micros(), 0);
        assert_eq!(MicroDollars::cost(&[(price(0.0), 1_000)]).micros(), 0);
    }

    #[test]
    fn a_price_is_the_decimal_that_was_written() {
        for femto in (1..5_000_000_u32).step_by(977) {
            let dollars: f64 = format!("{femto}e-15").parse().unwrap();
            assert_eq!(price(dollars), PricePerToken(u64::from(femto)));
        }
    }

    #[test]
    fn what_is_no_price_is_none() {
        for dollars in [-1e-9, f64::NAN, f64::INFINITY, 1e6] {
            assert_eq!(PricePerToken::from_dollars(dollars), None, "{dollars}");
        }
        assert_eq!(PricePerToken::from_dollars(-0.0), Some(PricePerToken(0)));
    }

    #[test]
    fn a_budget_is_read_to_the_nearest_micro_dollar() {
        for (dollars, micros) in
            [(0.0, 0), (10.0, 10_000_000), (0.000_001_4, 1), (0.1, 100_000), (1e300, MicroDollars::MAX.0)]
        {
            assert_eq!(MicroDollars::from_dollars(dollars).unwrap().micros(), micros, "{dollars}");
        }
        assert_eq!(MicroDollars::from_dollars(-1.0), None);
        assert_eq!(MicroDollars::from_dollars(f64::NAN), None);
    }

    #[test]
    fn an_amount_is_shown_in_dollars() {
        for (micros, shown) in [
            (0, "$0.00"),
            (15, "$0.000015"),
            (1_500_000, "$1.50"),
            (12_345_678, "$12.345678"),
            (100, "$0.0001"),
        ] {
            assert_eq!(MicroDollars::new(micros).to_string(), shown);
        }
    }

    #[test]
    fn sums_stop_at_a_billion_dollars() {
        assert_eq!(MicroDollars::new(u64::MAX), MicroDollars::MAX);
        assert_eq!(MicroDollars::MAX + MicroDollars::new(1), MicroDollars::MAX);
        assert_eq!(MicroDollars::cost(&[(price(18_000.0), u64::MAX); 9]), MicroDollars::MAX);
        assert_eq!(MicroDollars::new(3).saturating_sub(MicroDollars::new(5)), MicroDollars::ZERO);
    }
}
