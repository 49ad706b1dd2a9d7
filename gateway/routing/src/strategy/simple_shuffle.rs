//! A random order by weight: `weight` if any candidate has one, else rpm, else tpm, else all alike. Who has no
//! weight while another has goes last. Source: LiteLLM's simple-shuffle.
use super::{dice, score};
use crate::{Candidate, Facts};
use rand::RngExt;

struct Arrival<'a> {
    candidate: Candidate<'a>,
    weight: f64,
    at: f64,
}

/// Scores are the weights.
pub(super) fn order(facts: &Facts<'_>, kept: &mut [Candidate<'_>]) -> Vec<f64> {
    let weight = weights(kept);
    let mut dice = dice(facts);
    // Each arrives after an exponential time with its weight as rate: the order of arrival is that of a weighted
    // draw without replacement, in every place and not only in the first.
    let mut arrivals: Vec<Arrival<'_>> = kept
        .iter()
        .map(|candidate| {
            let weight = weight(candidate);
            // In (0, 1], so that the logarithm is finite.
            let roll = 1.0 - dice.random::<f64>();
            let rate = if weight > 0.0 { weight } else { 1.0 };
            Arrival { candidate: candidate.clone(), weight, at: -roll.ln() / rate }
        })
        .collect();
    let weightless = |arrival: &Arrival<'_>| arrival.weight <= 0.0;
    arrivals.sort_by(|a, b| weightless(a).cmp(&weightless(b)).then(a.at.total_cmp(&b.at)));
    let mut scores = Vec::with_capacity(arrivals.len());
    for (place, arrival) in kept.iter_mut().zip(arrivals) {
        *place = arrival.candidate;
        scores.push(arrival.weight);
    }
    scores
}

/// The first kind of weight of which any candidate has more than zero. A missing one counts as zero, and so
/// does one that is no finite positive number.
fn weights(kept: &[Candidate<'_>]) -> fn(&Candidate<'_>) -> f64 {
    let kinds: [fn(&Candidate<'_>) -> f64; 3] = [
        |candidate| {
            candidate.deployment.weight.filter(|weight| weight.is_finite() && *weight > 0.0).unwrap_or(0.0)
        },
        |candidate| score(candidate.deployment.rpm.unwrap_or(0)),
        |candidate| score(candidate.deployment.tpm.unwrap_or(0)),
    ];
    let in_use = |kind: &fn(&Candidate<'_>) -> f64| kept.iter().any(|candidate| kind(candidate) > 0.0);
    kinds.into_iter().find(in_use).unwrap_or(|_| 1.0)
}

#[cfg(test)]
mod tests {
    use crate::world::World;
    use std::collections::BTreeMap;

    const ROUNDS: u32 = 20_000;

    /// How often each order came up over [`ROUNDS`] fixed seeds: `"a b" -> times`.
    fn orders(group: &str) -> BTreeMap<String, u32> {
        let (mut times, mut world) = (BTreeMap::new(), World::of("strategy=simple-shuffle", group));
        for seed in 0..u64::from(ROUNDS) {
            world.dice = seed;
            *times.entry(world.order().join(" ")).or_insert(0) += 1;
        }
        times
    }

    /// The orders come up with these probabilities. The bound is chi-square's for 1 in 10,000 at the table's
    /// degrees of freedom.
    fn check(group: &str, want: &[(&str, f64)]) {
        let bound = match want.len() {
            2 => 15.14,
            6 => 25.74,
            other => panic!("no bound for {other} orders"),
        };
        let orders = orders(group);
        let known: u32 = want.iter().filter_map(|(order, _)| orders.get(*order)).sum();
        assert_eq!(known, ROUNDS, "other orders came up: {orders:?}");
        let chi_square: f64 = want
            .iter()
            .map(|(order, probability)| {
                let expected = f64::from(ROUNDS) * probability;
                let seen = f64::from(orders.get(*order).copied().unwrap_or(0));
                (seen - expected).powi(2) / expected
            })
            .sum();
        assert!(chi_square < bound, "chi-square {chi_square:.1} >= {bound}: {orders:?}");
    }

    #[test]
    fn traffic_is_shared_by_weight() {
        check("a weight=1\nb weight=9", &[("a b", 0.1), ("b a", 0.9)]);
    }

    #[test]
    fn without_weights_rpm_shares_it_and_without_rpm_tpm() {
        let want = [("a b", 0.1), ("b a", 0.9)];
        check("a rpm=100\nb rpm=900", &want);
        check("a tpm=100\nb tpm=900", &want);
        check("a rpm=100 tpm=900\nb rpm=900 tpm=100", &want);
    }

    #[test]
    fn weight_beats_rpm_unless_no_weight_is_positive() {
        check("a weight=1 rpm=1000\nb weight=9 rpm=10", &[("a b", 0.1), ("b a", 0.9)]);
        check("a weight=0 rpm=900\nb weight=-5 rpm=100", &[("a b", 0.9), ("b a", 0.1)]);
    }

    #[test]
    fn without_any_weight_all_orders_are_alike() {
        let sixth = 1.0 / 6.0;
        let orders = ["a b c", "a c b", "b a c", "b c a", "c a b", "c b a"];
        check("a\nb\nc", &orders.map(|order| (order, sixth)));
        check("a rpm=0\nb weight=nan\nc weight=inf", &orders.map(|order| (order, sixth)));
    }

    #[test]
    fn later_places_follow_the_weights_too() {
        // Weights 1, 2, 3: the second place is drawn from what the first left.
        check(
            "a weight=1\nb weight=2\nc weight=3",
            &[
                ("a b c", 1.0 / 6.0 * 2.0 / 5.0),
                ("a c b", 1.0 / 6.0 * 3.0 / 5.0),
                ("b a c", 2.0 / 6.0 * 1.0 / 4.0),
                ("b c a", 2.0 / 6.0 * 3.0 / 4.0),
                ("c a b", 3.0 / 6.0 * 1.0 / 3.0),
                ("c b a", 3.0 / 6.0 * 2.0 / 3.0),
            ],
        );
    }

    #[test]
    fn those_without_weight_come_last_in_random_order() {
        check("a\nb weight=0.001\nc weight=0", &[("b a c", 0.5), ("b c a", 0.5)]);
    }

    #[test]
    fn the_score_is_the_weight_that_was_used() {
        let world = World::of("strategy=simple-shuffle", "a rpm=7\nb");
        assert_eq!(world.scores(), [7.0, 0.0]);
        assert_eq!(World::of("strategy=simple-shuffle", "a\nb").scores(), [1.0, 1.0]);
    }
}
