//! Fewest tokens in this minute first, over all replicas, with those that the calls in flight will still use; equal
//! ones in random order. Source: LiteLLM's usage-based-routing-v2; what is in flight is ours, for without it all replicas
//! send to the same deployment until its first calls end.
use super::{dice, score};
use crate::{Candidate, Facts};
use rand::RngExt;

/// Scores are the tokens of the minute, to come ones included.
pub(super) fn order(facts: &Facts<'_>, kept: &mut [Candidate<'_>]) -> Vec<f64> {
    let mut dice = dice(facts);
    // The roll must not change between two comparisons, so it is made once for each.
    kept.sort_by_cached_key(|candidate| (tokens(candidate), dice.random::<u64>()));
    kept.iter().map(|candidate| score(tokens(candidate))).collect()
}

/// Each call in flight counts as much as this deployment's last calls did in the mean.
fn tokens(candidate: &Candidate<'_>) -> u64 {
    let reading = candidate.reading;
    let to_come = reading.in_flight.saturating_mul(reading.sizes.mean_tokens());
    reading.tpm.saturating_add(to_come)
}

#[cfg(test)]
mod tests {
    use crate::world::World;
    use std::collections::BTreeMap;

    fn check(group: &str, want: &[(&str, f64)]) {
        let world = World::of("strategy=usage-based-routing-v2", group);
        let ranked: Vec<(String, f64)> = world.order().into_iter().zip(world.scores()).collect();
        let want: Vec<(String, f64)> = want.iter().map(|(id, score)| ((*id).to_owned(), *score)).collect();
        assert_eq!(ranked, want);
    }

    #[test]
    fn the_fewest_tokens_come_first() {
        check("a used-tpm=500\nb used-tpm=20\nc used-tpm=100", &[("b", 20.0), ("c", 100.0), ("a", 500.0)]);
    }

    #[test]
    fn an_unused_one_comes_first_whatever_its_requests() {
        check("a used-tpm=1\nb used-rpm=1000", &[("b", 0.0), ("a", 1.0)]);
    }

    #[test]
    fn calls_in_flight_count_as_the_last_ones_did() {
        check(
            "a used-tpm=100 in-flight=2 size=300+500\nb used-tpm=899\nc used-tpm=100 in-flight=1 size=300+500",
            &[("b", 899.0), ("c", 900.0), ("a", 1_700.0)],
        );
    }

    #[test]
    fn calls_in_flight_whose_size_nobody_knows_count_nothing() {
        check("a used-tpm=100 in-flight=9\nb used-tpm=200", &[("a", 100.0), ("b", 200.0)]);
    }

    #[test]
    fn replicas_whose_calls_run_do_not_herd() {
        // Twelve requests at once over three like deployments: none has ended, so none shows in the tokens.
        let mut running = [0_u32; 3];
        for seed in 0..12 {
            let lines: Vec<String> =
                (0..3).map(|n| format!("d{n} used-tpm=50 in-flight={} size=10+90", running[n])).collect();
            let mut world = World::of("strategy=usage-based-routing-v2", &lines.join("\n"));
            world.dice = seed;
            let first = world.order()[0].trim_start_matches('d').parse::<usize>().unwrap();
            running[first] += 1;
        }
        assert_eq!(running, [4, 4, 4]);
    }

    #[test]
    fn counts_that_cannot_be_overflow_nothing() {
        let most = u64::MAX;
        let group = format!("a used-tpm={most} in-flight={most} size={most}+{most}\nb used-tpm=1");
        assert_eq!(World::of("strategy=usage-based-routing-v2", &group).order(), ["b", "a"]);
    }

    #[test]
    fn equal_ones_take_turns_by_the_dice() {
        let mut first = BTreeMap::new();
        for seed in 0..9_000 {
            let mut world =
                World::of("strategy=usage-based-routing-v2", "a\nb used-tpm=5\nc used-tpm=5\nd used-tpm=5");
            world.dice = seed;
            assert_eq!(world.order()[0], "a");
            *first.entry(world.order()[1].clone()).or_insert(0_u32) += 1;
        }
        assert!(first.len() == 3 && first.values().all(|times| (2_800..=3_200).contains(times)), "{first:?}");
    }
}
