//! What an attempt asks of the ledger: a want for each of the ranking, with the tokens to hold there.
#[cfg(test)]
mod simulation;

use crate::catalog::{Group, Settings, TpmHold};
use crate::prompt::Prompt;
use ledger::{Recent, Sizes, View, Want};
use routing::Decision;

/// The expected output takes this part of a limit at most, so that a few large guesses do not close a deployment.
const EXPECTED_PART: u64 = 4;

/// One want for each of the ranking, in its order.
pub(super) fn of(
    decision: &Decision,
    group: &Group,
    view: &View,
    prompt: &Prompt,
    settings: &Settings,
) -> Vec<Want> {
    let estimated = prompt.input_tokens_estimate();
    let output_max = match settings.tpm_hold {
        TpmHold::Input => None,
        TpmHold::Expected => output_max(prompt),
    };
    let bound = |limit: Option<u64>| limit.filter(|_| settings.limits_bind);
    let want = |index: usize| {
        let deployment = &group.deployments[index];
        let (rpm_limit, tpm_limit) = (bound(deployment.facts.rpm), bound(deployment.facts.tpm));
        let (tpm_hold, must_fit) =
            hold(settings.tpm_hold, estimated, output_max, recent(view, index), tpm_limit);
        Want { member: deployment.member.clone(), rpm_limit, tpm_limit, tpm_hold, must_fit }
    };
    decision.ranked.iter().map(|ranked| want(ranked.index)).collect()
}

/// The tokens to hold, and whether all of them must fit.
fn hold(
    how: TpmHold,
    estimated: u64,
    output_max: Option<u64>,
    sizes: &Recent<Sizes>,
    tpm_limit: Option<u64>,
) -> (u64, bool) {
    let input = input(estimated, sizes);
    match (how, tpm_limit) {
        (TpmHold::Expected, Some(limit)) => {
            (input.saturating_add(expected_output(output_max, sizes, limit)), true)
        }
        (TpmHold::Input | TpmHold::Expected, _) => (input, false),
    }
}

/// The input's tokens, estimated by its bytes and corrected by what this deployment reported of others.
pub(super) fn input(estimated: u64, sizes: &Recent<Sizes>) -> u64 {
    sizes.corrected(estimated).max(1)
}

/// The sizes of the deployment at this place; none where the view does not know it.
pub(super) fn recent(view: &View, index: usize) -> &Recent<Sizes> {
    view.readings.get(index).map_or(&Recent::NONE, |reading| &reading.sizes)
}

/// What the output will be at most, by what was asked for and by what others were; 0 while neither is known.
fn expected_output(asked: Option<u64>, sizes: &Recent<Sizes>, limit: u64) -> u64 {
    let expected = match (asked, sizes.output_p90()) {
        (Some(asked), Some(p90)) => asked.min(p90),
        (asked, p90) => asked.or(p90).unwrap_or(0),
    };
    expected.min(limit / EXPECTED_PART)
}

/// The most output that the client asked for, over all its choices.
fn output_max(prompt: &Prompt) -> Option<u64> {
    let number = |name: &str| prompt.field(name).and_then(|raw| raw.parse::<u64>().ok());
    let one = number("max_completion_tokens").or_else(|| number("max_tokens"))?;
    Some(one.saturating_mul(number("n").unwrap_or(1).max(1)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prompt::Endpoint;
    use bytes::Bytes;

    fn sizes(texts: &[&str]) -> Recent<Sizes> {
        Recent::of(&texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<_>>())
    }

    fn asked(fields: &str) -> Option<u64> {
        let body = format!(r#"{{"model":"m","messages":[]{fields}}}"#);
        output_max(&Prompt::parse(Endpoint::Chat, Bytes::from(body)).unwrap())
    }

    #[test]
    fn the_most_that_is_asked_for_is_over_all_choices() {
        assert_eq!(asked(""), None);
        assert_eq!(asked(r#","max_tokens":50"#), Some(50));
        assert_eq!(asked(r#","max_tokens":50,"max_completion_tokens":70,"n":3"#), Some(210));
        assert_eq!(asked(r#","max_tokens":null,"n":0"#), None);
        assert_eq!(asked(r#","max_tokens":"many""#), None);
    }

    #[test]
    fn the_expected_output_is_the_lesser_of_what_is_asked_and_what_is_usual() {
        let usual = sizes(&["1/1/300"]);
        assert_eq!(expected_output(Some(100), &usual, 10_000), 100);
        assert_eq!(expected_output(Some(4_000), &usual, 10_000), 300);
        assert_eq!(expected_output(None, &usual, 10_000), 300);
        assert_eq!(expected_output(Some(100), &Recent::NONE, 10_000), 100);
        assert_eq!(expected_output(None, &Recent::NONE, 10_000), 0);
    }

    #[test]
    fn the_expected_output_takes_a_quarter_of_the_limit_at_most() {
        assert_eq!(expected_output(Some(4_000), &Recent::NONE, 1_000), 250);
        assert_eq!(expected_output(None, &sizes(&["1/1/300"]), 100), 25);
    }

    #[test]
    fn an_input_is_never_nothing() {
        assert_eq!(input(3, &sizes(&["100/1/1"])), 1);
        assert_eq!(input(100, &sizes(&["100/50/1"])), 50);
        assert_eq!(input(100, &Recent::NONE), 100);
    }
}
