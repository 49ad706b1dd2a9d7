//! A request that names a deployment by its id goes there alone. Source: LiteLLM resolves an id to that one
//! deployment, which then meets no other filter than `blocked`; acceptance rules, "Names and tags".
use crate::{Candidates, Facts, Reason};

pub(super) const NAME: &str = "named";

pub(super) fn gate(facts: &Facts<'_>, candidates: &mut Candidates<'_>) {
    if let Some(only) = facts.only {
        candidates.remove_if(NAME, |candidate| (candidate.index != only).then_some(Reason::NotNamed));
    }
}

#[cfg(test)]
mod tests {
    use crate::world;

    fn check(request: &str, group: &str, want: &[&str]) {
        assert_eq!(world::through(super::gate, request, group), want);
    }

    #[test]
    fn all_but_the_named_one_are_removed() {
        let others = ["keep b", "drop a by named: the request names another deployment"];
        check("only=b", "a\nb", &others);
    }

    #[test]
    fn without_an_id_all_are_kept() {
        check("", "a\nb", &["keep a", "keep b"]);
    }
}
