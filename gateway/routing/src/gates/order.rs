//! One tier serves: the one that a tier hop asks for, else the smallest `order` among those left. While one
//! with an order is left, those without get nothing. Source: LiteLLM's filter chain, step 13; acceptance rules.
//!
//! "Left" means past the gates before this one, so a tier that cools down or is blocked makes way at once. One
//! that is only excluded or has failed in this request still counts: the gate alone never leads a request out of
//! its tier. The rings do that, by asking for the next higher order in `Facts::tier` (the tier hop).
//! A deployment that is named by its id is beyond tiers.
use crate::{Candidates, Facts, Reason};

pub(super) const NAME: &str = "order";

pub(super) fn gate(facts: &Facts<'_>, candidates: &mut Candidates<'_>) {
    if facts.only.is_some() {
        return;
    }
    let smallest_left = candidates.kept().iter().filter_map(|candidate| candidate.deployment.order).min();
    if let Some(serving) = facts.tier.or(smallest_left) {
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
    fn a_tier_hop_leads_to_its_tier_and_nowhere_else() {
        let others =
            ["drop a by order: order 1, order 2 serves", "drop c by order: no order, order 2 serves"];
        check("tier=2", "a order=1\nb order=2\nc", &["keep b", others[0], others[1]]);
        check("tier=2", "a order=1\nc", &others);
    }

    #[test]
    fn one_that_was_excluded_or_has_failed_still_holds_its_tier() {
        let want = ["keep a", "drop b by order: order 2, order 1 serves"];
        check("excluded=a", "a order=1\nb order=2", &want);
        check("failed=a", "a order=1\nb order=2", &want);
    }

    #[test]
    fn one_that_is_named_serves_whatever_its_tier() {
        check("only=a tier=2", "a order=1", &["keep a"]);
    }
}
