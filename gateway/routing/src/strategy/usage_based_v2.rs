//! Fewest tokens in this minute first, over all replicas; equal ones in random order. Source: LiteLLM's
//! usage-based-routing-v2.
use super::{dice, score};
use crate::{Candidate, Facts};
use rand::RngExt;

/// Scores are the tokens of the minute.
pub(super) fn order(facts: &Facts<'_>, kept: &mut [Candidate<'_>]) -> Vec<f64> {
    let mut dice = dice(facts);
    // The roll must not change between two comparisons, so it is made once for each.
    kept.sort_by_cached_key(|candidate| (candidate.reading.tpm, dice.random::<u64>()));
    kept.iter().map(|candidate| score(candidate.reading.tpm)).collect()
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
