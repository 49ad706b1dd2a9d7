//! Which failures take a deployment out, and for how long.
use super::*;
use crate::config::{Environment, load_text};

/// The cooldown in seconds that a failure of `kind` begins after `fails` of `calls`; 0: none.
fn check(config: (&str, &str), lone: bool, failure: (FailureKind, Option<u64>), counts: (u64, u64)) -> u64 {
    let (router_settings, model_info) = config;
    let text = format!(
        "router_settings: {{{router_settings}}}\nmodel_list:\n  - {{model_name: chat, litellm_params: {{model: m, \
         mock_response: x}}, model_info: {{id: a{model_info}}}}}\n"
    );
    let catalog = load_text("test", &text, &Environment::default()).unwrap().catalog;
    let retry_after = failure.1.map(Duration::from_secs);
    let failure = Failure { retry_after, ..Failure::new(failure.0, "scripted") };
    let (fails, calls) = counts;
    let reading = Reading { calls, fails, ..Reading::default() };
    let deployment = &catalog.groups[0].deployments[0];
    match verdict(&failure, None, deployment, lone, &catalog.settings) {
        Verdict::Out(length) => length.as_secs(),
        Verdict::OutIfMany(length) if are_many(&reading, deployment, lone, &catalog.settings) => {
            length.as_secs()
        }
        Verdict::Spared | Verdict::OutIfMany(_) => 0,
    }
}

const DEFAULTS: (&str, &str) = ("cooldown_time: 30", "");
const SERVER: (FailureKind, Option<u64>) = (FailureKind::Server, None);

#[test]
fn a_429_and_a_dead_key_cool_at_once_and_the_callers_faults_never() {
    use FailureKind::{Auth, BadRequest, ContentPolicy, ContextWindow, NotFound, RateLimit, TooLarge};
    for kind in [RateLimit, Auth, NotFound] {
        assert_eq!(check(DEFAULTS, false, (kind, None), (1, 1)), 30, "{kind:?}");
    }
    for kind in [BadRequest, TooLarge, ContentPolicy, ContextWindow] {
        assert_eq!(check(DEFAULTS, false, (kind, None), (9, 9)), 0, "{kind:?}");
    }
}

#[test]
fn server_errors_cool_when_more_than_half_of_at_least_five_calls_failed() {
    for (counts, cools) in [((1, 1), 0), ((4, 4), 0), ((5, 5), 30), ((3, 5), 30), ((3, 6), 0), ((4, 7), 30)] {
        assert_eq!(check(DEFAULTS, false, SERVER, counts), cools, "{counts:?}");
    }
}

#[test]
fn a_lone_deployment_cools_only_if_all_of_a_thousand_calls_failed() {
    for (counts, cools) in [((9, 9), 0), ((999, 999), 0), ((1000, 1000), 30), ((1000, 1001), 0)] {
        assert_eq!(check(DEFAULTS, true, SERVER, counts), cools, "{counts:?}");
    }
    assert_eq!(check(DEFAULTS, true, (FailureKind::RateLimit, Some(9)), (1, 1)), 0);
}

#[test]
fn allowed_fails_replace_the_share_also_for_a_lone_deployment() {
    let settings = ("cooldown_time: 30, allowed_fails: 1", "");
    for lone in [true, false] {
        assert_eq!(check(settings, lone, SERVER, (1, 100)), 0);
        assert_eq!(check(settings, lone, SERVER, (2, 100)), 30);
    }
    let own = ("cooldown_time: 30, allowed_fails: 1", ", allowed_fails: 3");
    assert_eq!(check(own, false, SERVER, (3, 3)), 0);
}

#[test]
fn the_length_is_the_deployments_else_what_the_provider_asks_else_the_routers() {
    let limited = |asked| (FailureKind::RateLimit, asked);
    assert_eq!(check(DEFAULTS, false, limited(Some(7)), (1, 1)), 7);
    assert_eq!(check(DEFAULTS, false, limited(None), (1, 1)), 30);
    assert_eq!(check(("", ", cooldown_time: 60"), false, limited(Some(7)), (1, 1)), 60);
    assert_eq!(check(("", ", cooldown_time: 0"), false, limited(Some(7)), (1, 1)), 0);
    assert_eq!(check(("disable_cooldowns: true", ""), false, limited(Some(7)), (1, 1)), 0);
}

#[test]
fn a_failed_try_is_out_again_at_once_and_longer_each_time_up_to_an_hour() {
    let length = |config: &str, trips: u64| {
        let text = format!(
            "{config}\nrouter_settings: {{cooldown_time: 10, allowed_fails: 100}}\nmodel_list:\n  - {{model_name: \
             chat, litellm_params: {{model: m, mock_response: x}}}}\n"
        );
        let catalog = load_text("test", &text, &Environment::default()).unwrap().catalog;
        let probe = Probe { token: "t".into(), trips };
        let failure = Failure::new(FailureKind::Server, "scripted");
        verdict(&failure, Some(&probe), &catalog.groups[0].deployments[0], true, &catalog.settings)
    };
    let out = |seconds| Verdict::Out(Duration::from_secs(seconds));
    assert_eq!(length("", 7), out(10));
    let doubled = "onegate_settings: {breaker: {backoff: 2.0}}";
    for (trips, seconds) in [(1, 20), (2, 40), (6, 640), (9, 3_600), (5_000, 3_600)] {
        assert_eq!(length(doubled, trips), out(seconds), "{trips} trips");
    }
}

#[test]
fn only_a_429_that_names_its_time_ends_without_probation() {
    let limit = |retry_after| Failure { retry_after, ..Failure::new(FailureKind::RateLimit, "scripted") };
    assert!(!ends_in_probation(&limit(Some(Duration::from_secs(3)))));
    assert!(ends_in_probation(&limit(None)));
    assert!(ends_in_probation(&Failure::new(FailureKind::Server, "scripted")));
}
