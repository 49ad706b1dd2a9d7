//! This replica's part of a limit while Redis is away: an equal part of it, or of what the fleet was last seen to have
//! left, whichever is less.

/// A counter as it was last seen, and how much of it was this replica's own doing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Seen {
    /// The fleet's count.
    pub(super) all: u64,
    /// This replica's part of it.
    pub(super) ours: u64,
}

/// How much this replica may have used in all of the minute. Of a limit that nobody was seen to use, the part is at
/// least 1, unless the limit admits nobody anyway; so all together admit at most the larger of the limit and the
/// number of replicas, as far as what was seen goes. Never above the equal part, for another replica may have seen
/// nothing and count on its own.
pub(super) fn share(limit: u64, replicas: u64, seen: Seen) -> u64 {
    let replicas = replicas.max(1);
    let equal = limit.min(1).max(limit / replicas);
    if seen.all == 0 {
        return equal;
    }
    equal.min(seen.ours + limit.saturating_sub(seen.all) / replicas)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unused_limit_is_split_and_each_part_is_at_least_one() {
        for (limit, replicas, want) in [(30, 3, 10), (31, 3, 10), (2, 3, 1), (5, 0, 5), (0, 3, 0)] {
            assert_eq!(share(limit, replicas, Seen::default()), want, "{limit} over {replicas}");
        }
    }

    #[test]
    fn even_use_leaves_the_parts_as_they_were() {
        assert_eq!(share(30, 3, Seen { all: 6, ours: 2 }), 10);
    }

    #[test]
    fn a_limit_that_was_seen_spent_admits_nobody_whoever_spent_it() {
        for ours in [0, 7, 10, 30] {
            assert!(share(30, 3, Seen { all: 30, ours }) <= ours);
            assert!(share(30, 3, Seen { all: 40, ours }) <= ours);
        }
    }

    #[test]
    fn one_that_used_alone_what_the_others_did_not_see_keeps_to_its_equal_part() {
        assert_eq!(share(11, 2, Seen { all: 3, ours: 3 }), 5);
    }

    #[test]
    fn all_parts_together_never_exceed_what_is_left() {
        for limit in 1..60 {
            for all in 1..=limit {
                let used = [all - all / 4, all / 4, 0];
                let parts: u64 = used.iter().map(|&ours| share(limit, 3, Seen { all, ours })).sum();
                assert!(parts <= limit, "limit {limit}, {all} used");
            }
        }
    }
}
