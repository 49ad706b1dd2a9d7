//! What an operator has paused gets nothing, not even by its id. Source: LiteLLM's `model_info.blocked`.
use crate::{Candidates, Facts, Reason};

pub(super) const NAME: &str = "blocked";

pub(super) fn gate(_: &Facts<'_>, candidates: &mut Candidates<'_>) {
    candidates.remove_if(NAME, |candidate| candidate.deployment.blocked.then_some(Reason::Blocked));
}

#[cfg(test)]
mod tests {
    use crate::world;

    fn check(request: &str, group: &str, want: &[&str]) {
        assert_eq!(world::through(super::gate, request, group), want);
    }

    #[test]
    fn a_blocked_one_is_removed() {
        check("", "a blocked\nb", &["keep b", "drop a by blocked: blocked by model_info.blocked"]);
    }

    #[test]
    fn one_that_is_named_is_removed_too() {
        check("only=a", "a blocked", &["drop a by blocked: blocked by model_info.blocked"]);
    }
}
