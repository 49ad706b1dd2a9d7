//! What has failed in this request is not asked again while another is left; if all have failed, all may be
//! asked again. Source: LiteLLM's filter chain, step 15; acceptance rules ("while another deployment is left").
//!
//! It runs within the tier that `order` left: whether a next tier takes over is the rings' to decide.
use crate::{Candidates, Facts, Reason};

pub(super) const NAME: &str = "failed";

pub(super) fn gate(facts: &Facts<'_>, candidates: &mut Candidates<'_>) {
    if candidates.kept().iter().all(|candidate| facts.failed.contains(&candidate.deployment.id)) {
        return;
    }
    candidates.remove_if(NAME, |candidate| {
        facts.failed.contains(&candidate.deployment.id).then_some(Reason::AlreadyFailed)
    });
}

#[cfg(test)]
mod tests {
    use crate::world;

    fn check(request: &str, group: &str, want: &[&str]) {
        assert_eq!(world::through(super::gate, request, group), want);
    }

    #[test]
    fn one_that_has_failed_makes_way_for_one_that_has_not() {
        let want = ["keep b", "drop a by failed: failed in this request, another is left"];
        check("failed=a", "a\nb", &want);
    }

    #[test]
    fn if_all_have_failed_all_are_kept() {
        check("failed=a,b", "a\nb", &["keep a", "keep b"]);
    }
}
