//! One tier serves: the smallest `order` among those left. While one with an order is left, those without get
//! nothing. Source: LiteLLM's filter chain, step 13; acceptance rules.
//!
//! "Left" means past the gates before this one and not excluded, so a tier that cools down or is blocked makes
//! way at once, and one that the rings have excluded after its deployments failed makes way for the next.
//! A mere failure in this request still holds the tier: the rings decide when a tier has had its tries.
//! A deployment that is named by its id is beyond tiers.
use crate::{Candidates, Facts, Reason};

pub(super) const NAME: &str = "order";

pub(super) fn gate(facts: &Facts<'_>, candidates: &mut Candidates<'_>) {
    if facts.only.is_some() {
        return;
    }
    let left =
        candidates.kept().iter().filter(|candidate| !facts.excluded.contains(&candidate.deployment.id));
    let smallest = left.filter_map(|candidate| candidate.deployment.order).min();
    if let Some(serving) = smallest {
        candidates.remove_if(NAME, |candidate| {
            let order = candidate.deployment.order;
            (order != Some(serving)).then_some(Reason::Order { order, serving })
        });
    }
}

#[cfg(test)]
mod tests {
    use crate::world;

    fn check(request: &str, group: &str, want: &[&str]) {
        assert_eq!(world::through(super::gate, request, group), want);
    }

    #[test]
    fn the_smallest_order_serves_alone() {
        check(
            "",
            "a order=3\nb order=-1\nc\nd order=-1",
            &[
                "keep b",
                "keep d",
                "drop a by order: order 3, order -1 serves",
                "drop c by order: no order, order -1 serves",
            ],
        );
    }

    #[test]
    fn without_any_order_all_serve() {
        check("", "a\nb", &["keep a", "keep b"]);
    }

    #[test]
    fn an_excluded_tier_makes_way_for_the_next_and_at_last_for_those_without_an_order() {
        let group = "a order=1\nb order=2\nc";
        let others =
            ["drop a by order: order 1, order 2 serves", "drop c by order: no order, order 2 serves"];
        check("excluded=a", group, &["keep b", others[0], others[1]]);
        check("excluded=a,b", group, &["keep a", "keep b", "keep c"]);
    }

    #[test]
    fn one_that_has_failed_still_holds_its_tier() {
        check("failed=a", "a order=1\nb order=2", &["keep a", "drop b by order: order 2, order 1 serves"]);
    }

    #[test]
    fn one_that_is_named_serves_whatever_its_tier() {
        check("only=a", "a order=1", &["keep a"]);
    }
}
