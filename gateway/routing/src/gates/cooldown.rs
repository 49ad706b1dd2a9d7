//! A deployment that cools down gets nothing until its time has come, nor does one on probation while another
//! request tries it; one that the request names by its id is served all the same. Source: design sections 4 and 5,
//! acceptance rules ("served even while it cools down").
use crate::{Candidate, Candidates, Facts, Reason};

/// Whoever is passed by for a try that runs asks again after so long: `Retry-After: 1`.
const PROBING_WAIT_MS: u64 = 1_000;

pub(super) const NAME: &str = "cooldown";

pub(super) fn gate(facts: &Facts<'_>, candidates: &mut Candidates<'_>) {
    if facts.only.is_some() {
        return;
    }
    candidates.remove_if(NAME, |candidate| {
        let left = |cooling: &ledger::Cooling| cooling.until_ms.saturating_sub(facts.now_ms);
        let cooling = candidate.reading.cooldown.as_ref().filter(|cooling| left(cooling) > 0);
        match cooling {
            Some(cooling) => Some(Reason::Cooling { left_ms: left(cooling), status: cooling.status }),
            None => probing(facts, candidate),
        }
    });
}

/// How a try goes is known a moment later, whatever the view says.
fn probing(facts: &Facts<'_>, candidate: &Candidate<'_>) -> Option<Reason> {
    let known_by_ms = facts.view.read_at_ms.saturating_add(PROBING_WAIT_MS);
    let wait_ms = known_by_ms.saturating_sub(facts.now_ms);
    let probing = candidate.reading.trips > 0 && candidate.reading.probing && wait_ms > 0;
    probing.then_some(Reason::Probing { wait_ms })
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
