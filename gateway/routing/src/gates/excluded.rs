//! What this walk has ruled out is not asked, even if nothing else is left. Source: LiteLLM's filter chain,
//! step 14 (weighted failover).
use crate::{Candidates, Facts, Reason};

pub(super) const NAME: &str = "excluded";

pub(super) fn gate(facts: &Facts<'_>, candidates: &mut Candidates<'_>) {
    candidates.remove_if(NAME, |candidate| {
        facts.excluded.contains(&candidate.deployment.id).then_some(Reason::Excluded)
    });
}

#[cfg(test)]
mod tests {
    use crate::world;

    fn check(request: &str, group: &str, want: &[&str]) {
        assert_eq!(world::through(super::gate, request, group), want);
    }

    #[test]
    fn an_excluded_one_is_removed() {
        check("excluded=b,x", "a\nb", &["keep a", "drop b by excluded: excluded from this walk"]);
    }

    #[test]
    fn the_last_one_is_removed_too() {
        check("excluded=a", "a", &["drop a by excluded: excluded from this walk"]);
    }
}
