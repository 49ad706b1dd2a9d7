//! Decisions in words: who is asked, who is not and why.
use super::{Nothing, decide};
use crate::Facts;
use crate::world::{NOW_MS, World};
use std::collections::BTreeSet;

/// The decision as text: `ask ID SCORE [spent]` in the order of asking, `no ID GATE`, then `nothing: ...`.
fn check(request: &str, group: &str, want: &[&str]) {
    let world = World::of(request, group);
    let decision = decide(&world.group, &world.facts());
    let asked = decision.ranked.iter().map(|ranked| {
        let spent = if ranked.spent { " spent" } else { "" };
        format!("ask {} {}{spent}", ranked.id, ranked.score)
    });
    let removed = decision.removed.iter().map(|removed| format!("no {} {}", removed.id, removed.gate));
    let nothing = decision.nothing_left().map(|nothing| match nothing {
        Nothing::Passing { wait_ms } => format!("nothing: wait {wait_ms}"),
        Nothing::Lasting(reason) => format!("nothing: {reason}"),
        Nothing::Empty => "nothing: empty".to_owned(),
    });
    let told: Vec<String> = asked.chain(removed).chain(nothing).collect();
    assert_eq!(told, want, "{request} to {group}");
}

#[test]
fn the_strategy_orders_what_the_gates_left() {
    check(
        "failed=c",
        "a price=2+2\nb price=1+1\nc price=0+0\nd blocked\ne cooling=5000",
        &["ask b 2", "ask a 4", "no e cooldown", "no d blocked", "no c failed"],
    );
}

#[test]
fn where_limits_bind_the_spent_ones_go_last_and_keep_their_order() {
    let group = "a price=1+0 rpm=2 used-rpm=2\nb price=2+0 rpm=2 used-rpm=1 tpm=9 used-tpm=8\n\
                 c price=3+0 tpm=5 used-tpm=9\nd price=4+0";
    check("limits", group, &["ask b 2", "ask d 4", "ask a 1 spent", "ask c 3 spent"]);
    check("", group, &["ask a 1", "ask b 2", "ask c 3", "ask d 4"]);
}

#[test]
fn one_on_probation_goes_first_unless_its_limit_is_spent_or_another_tries_it() {
    check("", "a price=1+0\nb price=2+0 trips=1", &["ask b 2", "ask a 1"]);
    check("", "a price=1+0\nb price=2+0 trips=1 cooling=10", &["ask a 1", "no b cooldown"]);
    check("", "a price=1+0\nb price=2+0 trips=1 probing", &["ask a 1", "no b cooldown"]);
    check("limits", "a price=1+0\nb price=2+0 trips=1 rpm=1 used-rpm=1", &["ask a 1", "ask b 2 spent"]);
    check("only=b", "a\nb trips=1 probing price=1+1", &["ask b 0", "no a named"]);
}

#[test]
fn a_try_that_runs_is_waited_for_a_second() {
    check("", "a trips=1 probing", &["no a cooldown", "nothing: wait 1000"]);
    check("", "a trips=1 probing\nb cooling=400", &["no a cooldown", "no b cooldown", "nothing: wait 400"]);
}

#[test]
fn one_that_is_named_is_asked_alone_while_it_cools_and_without_a_strategy() {
    check(
        "only=b limits",
        "a\nb cooling=5000 order=2 price=1+1 rpm=1 used-rpm=1",
        &["ask b 0 spent", "no a named"],
    );
}

#[test]
fn one_that_is_named_and_blocked_is_refused_for_that() {
    check(
        "only=b",
        "a\nb blocked",
        &["no a named", "no b blocked", "nothing: blocked by model_info.blocked"],
    );
}

#[test]
fn an_empty_group_says_so() {
    check("", "", &["nothing: empty"]);
}

#[test]
fn if_all_cool_down_the_wait_is_the_shortest() {
    check("", "a cooling=900\nb cooling=300", &["no a cooldown", "no b cooldown", "nothing: wait 300"]);
}

#[test]
fn one_that_cools_and_is_blocked_too_is_not_waited_for() {
    check(
        "",
        "a cooling=900\nb cooling=300 blocked",
        &["no a cooldown", "no b cooldown", "nothing: wait 900"],
    );
    check(
        "",
        "a cooling=900 blocked\nb blocked",
        &["no a cooldown", "no b blocked", "nothing: blocked by model_info.blocked"],
    );
}

#[test]
fn a_standby_tier_that_returns_first_is_waited_for() {
    check(
        "",
        "a order=1 cooling=900\nb order=2 cooling=300",
        &["no a cooldown", "no b cooldown", "nothing: wait 300"],
    );
}

#[test]
fn one_without_order_is_waited_for_once_all_with_an_order_are_excluded() {
    check("excluded=b", "a cooling=300\nb order=1", &["no a cooldown", "no b excluded", "nothing: wait 300"]);
}

#[test]
fn one_that_is_excluded_is_not_waited_for_and_one_that_failed_is() {
    check("excluded=a", "a cooling=300", &["no a cooldown", "nothing: excluded from this walk"]);
    check("failed=a", "a cooling=300", &["no a cooldown", "nothing: wait 300"]);
}

#[test]
fn who_cools_is_told_with_the_time_left() {
    let world = World::of("", "a cooling=900\nb\nc cooling=300");
    let decision = decide(&world.group, &world.facts());
    let cooling: Vec<(&str, u64)> = decision.cooling().map(|(id, left_ms)| (&**id, left_ms)).collect();
    assert_eq!(cooling, [("a", 900), ("c", 300)]);
    assert_eq!(decision.nothing_left(), None);
}

#[test]
fn ranked_and_removed_are_together_the_whole_group() {
    for seed in 0..2_000 {
        let world = World::random(seed);
        let decision = decide(&world.group, &world.facts());
        let ranked = decision.ranked.iter().map(|ranked| ranked.index);
        let indices: BTreeSet<usize> =
            ranked.chain(decision.removed.iter().map(|removed| removed.index)).collect();
        assert_eq!(indices, (0..world.group.deployments.len()).collect(), "seed {seed}");
        assert_eq!(decision.ranked.len() + decision.removed.len(), indices.len(), "seed {seed}");
        assert_eq!(decision.ranked.is_empty(), decision.nothing_left().is_some(), "seed {seed}");
        assert!(decision.ranked.iter().is_sorted_by_key(|ranked| ranked.spent), "seed {seed}");
    }
}

#[test]
fn equal_facts_give_equal_decisions_and_other_dice_change_only_the_order() {
    let mut reordered = 0;
    for seed in 0..2_000 {
        let world = World::random(seed);
        let decision = decide(&world.group, &world.facts());
        assert_eq!(decision, decide(&world.group.clone(), &world.clone().facts()), "seed {seed}");

        let mut other = decide(&world.group, &Facts { dice: !world.dice, ..world.facts() });
        reordered += u32::from(other.ranked != decision.ranked);
        let mut sorted = decision;
        sorted.ranked.sort_by_key(|ranked| ranked.index);
        other.ranked.sort_by_key(|ranked| ranked.index);
        assert_eq!(sorted, other, "seed {seed}");
    }
    assert!(reordered > 50, "the dice hardly matter: {reordered}");
}

#[test]
fn the_wait_that_is_told_is_the_first_time_at_which_somebody_is_left() {
    let mut waited = 0;
    for seed in 0..5_000 {
        let world = World::random(seed);
        let somebody_at = |later_ms: u64| {
            let facts = Facts { now_ms: NOW_MS + later_ms, ..world.facts() };
            !decide(&world.group, &facts).ranked.is_empty()
        };
        // Random cooldowns end within 3 ms, and a try is known of within a second.
        let first = (0..=10).chain(990..=1_010).find(|&later_ms| somebody_at(later_ms));
        match decide(&world.group, &world.facts()).nothing_left() {
            None => assert_eq!(first, Some(0), "seed {seed}"),
            Some(Nothing::Passing { wait_ms }) => {
                waited += 1;
                assert_eq!(first, Some(wait_ms), "seed {seed}");
            }
            Some(Nothing::Lasting(reason)) => {
                assert!(!reason.passes(), "seed {seed}");
                assert_eq!(first, None, "seed {seed}");
            }
            Some(Nothing::Empty) => assert!(world.group.deployments.is_empty(), "seed {seed}"),
        }
    }
    assert!(waited > 20, "hardly ever waited: {waited}");
}
