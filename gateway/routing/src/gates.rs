//! The gates, in the one order in which they are asked. A gate only removes, and says why.
//!
//! A new gate is a file in `gates/`, a line in [`GATES`] and a [`Reason`](crate::Reason).
mod blocked;
mod cooldown;
mod excluded;
mod failed;
mod named;
mod order;

use crate::{Candidates, Facts, Group};

/// Removes the candidates that must not serve the request.
pub type Gate = fn(&Facts<'_>, &mut Candidates<'_>);

/// Each gate with its name in answers and metrics, in the order of asking.
pub const GATES: &[(&str, Gate)] = &[
    (named::NAME, named::gate),
    (cooldown::NAME, cooldown::gate),
    (blocked::NAME, blocked::gate),
    (order::NAME, order::gate),
    (excluded::NAME, excluded::gate),
    (failed::NAME, failed::gate),
];

/// The group's candidates after all gates.
pub(crate) fn apply<'a>(group: &'a Group, facts: &Facts<'a>) -> Candidates<'a> {
    let mut candidates = Candidates::of(group, facts.view);
    for (_, gate) in GATES {
        gate(facts, &mut candidates);
    }
    candidates
}

#[cfg(test)]
mod tests {
    use super::GATES;
    use crate::Candidates;
    use crate::world::World;
    use std::collections::BTreeSet;

    #[test]
    fn at_every_gate_kept_and_removed_are_together_the_whole_group() {
        for seed in 0..2_000 {
            let world = World::random(seed);
            let facts = world.facts();
            let mut candidates = Candidates::of(&world.group, &world.view);
            let mut left: Vec<usize> = (0..world.group.deployments.len()).collect();
            for (name, gate) in GATES {
                gate(&facts, &mut candidates);
                let (kept, removed) = candidates.clone().into_parts();
                let kept: Vec<usize> = kept.iter().map(|candidate| candidate.index).collect();
                assert!(
                    kept.iter().all(|index| left.contains(index)),
                    "{name} brought one back, seed {seed}"
                );
                assert!(kept.is_sorted(), "{name} reorders, seed {seed}");
                let all: BTreeSet<usize> =
                    kept.iter().copied().chain(removed.iter().map(|one| one.index)).collect();
                assert_eq!(all.len(), world.group.deployments.len(), "{name} loses one, seed {seed}");
                assert_eq!(kept.len() + removed.len(), all.len(), "{name} counts one twice, seed {seed}");
                for one in removed.iter().filter(|one| left.contains(&one.index)) {
                    assert_eq!(one.gate, *name, "seed {seed}");
                    assert_eq!(one.id, world.group.deployments[one.index].id, "seed {seed}");
                }
                left = kept;
            }
        }
    }

    #[test]
    fn every_gate_removes_something_in_some_random_world() {
        let mut at_work = BTreeSet::new();
        for seed in 0..2_000 {
            let world = World::random(seed);
            let (_, removed) = super::apply(&world.group, &world.facts()).into_parts();
            at_work.extend(removed.iter().map(|one| one.gate));
        }
        assert_eq!(at_work, GATES.iter().map(|(name, _)| *name).collect());
    }
}
