//! A deployment that cools down gets nothing until its time has come; one that the request names by its id is
//! served all the same. Source: design section 4, acceptance rules ("served even while it cools down").
use crate::{Candidates, Facts, Reason};

pub(super) const NAME: &str = "cooldown";

pub(super) fn gate(facts: &Facts<'_>, candidates: &mut Candidates<'_>) {
    if facts.only.is_some() {
        return;
    }
    candidates.remove_if(NAME, |candidate| {
        let cooling = candidate.reading.cooldown.as_ref()?;
        let left_ms = cooling.until_ms.saturating_sub(facts.now_ms);
        (left_ms > 0).then_some(Reason::Cooling { left_ms, status: cooling.status })
    });
}

#[cfg(test)]
mod tests {
    use crate::world;

    fn check(request: &str, group: &str, want: &[&str]) {
        assert_eq!(world::through(super::gate, request, group), want);
    }

    #[test]
    fn a_cooling_one_is_out_to_the_last_millisecond_and_back_at_its_end() {
        let dropped = "drop a by cooldown: cools down for 0.0 s more after status 429";
        check("", "a cooling=1\nb cooling=0\nc", &["keep b", "keep c", dropped]);
    }

    #[test]
    fn all_may_be_out_at_once() {
        check("", "a cooling=2500", &["drop a by cooldown: cools down for 2.5 s more after status 429"]);
    }

    #[test]
    fn one_that_is_named_is_kept() {
        check("only=a", "a cooling=5000", &["keep a"]);
    }
}
