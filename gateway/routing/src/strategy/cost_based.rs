//! Lowest price of an input and an output token together first, equal ones in the group's order. Source:
//! LiteLLM's cost-based-routing, with its price for what has none.
use crate::{Candidate, Facts, Price};

/// USD per token where the config names none: dearer than anything with a price.
const UNPRICED: Price = Price { input: 5.0, output: 5.0 };

/// Scores are the price sums in USD.
pub(super) fn order(_: &Facts<'_>, kept: &mut [Candidate<'_>]) -> Vec<f64> {
    kept.sort_by(|a, b| price(a).total_cmp(&price(b)));
    kept.iter().map(price).collect()
}

fn price(candidate: &Candidate<'_>) -> f64 {
    let price = candidate.deployment.price.unwrap_or(UNPRICED);
    price.input + price.output
}

#[cfg(test)]
mod tests {
    use crate::world::World;

    fn check(group: &str, want: &[(&str, f64)]) {
        let world = World::of("strategy=cost-based-routing", group);
        let ranked: Vec<(String, f64)> = world.order().into_iter().zip(world.scores()).collect();
        let want: Vec<(String, f64)> = want.iter().map(|(id, score)| ((*id).to_owned(), *score)).collect();
        assert_eq!(ranked, want);
    }

    #[test]
    fn the_lowest_sum_comes_first() {
        check("a price=1+2\nb price=0.5+0.25\nc price=0+2", &[("b", 0.75), ("c", 2.0), ("a", 3.0)]);
    }

    #[test]
    fn what_has_no_price_costs_ten_and_what_is_free_comes_first() {
        check(
            "a\nb price=4+4\nc price=0+0\nd price=6+6",
            &[("c", 0.0), ("b", 8.0), ("a", 10.0), ("d", 12.0)],
        );
    }

    #[test]
    fn equal_prices_keep_the_groups_order() {
        check("b price=1+1\na price=2+0\nc price=0+2", &[("b", 2.0), ("a", 2.0), ("c", 2.0)]);
    }
}
