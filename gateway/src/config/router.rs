//! `router_settings` and what `litellm_settings` has in common with it become the router's settings.
use super::assemble::Timeouts;
use super::fallbacks;
use super::keys;
use super::known;
use super::problem::Problems;
use super::read::{Field, Section};
use crate::catalog::{Outage, Settings, TpmHold};
use routing::Strategy;
use std::time::Duration;

const NUM_RETRIES: u32 = 2;
const MAX_FALLBACKS: u32 = 5;
const COOLDOWN: Duration = Duration::from_secs(5);
const TIMEOUT: Duration = Duration::from_secs(600);

/// LiteLLM's strategies that are not built here, as long as [`Strategy`] does not know them.
const NOT_BUILT: [&str; 4] = ["least-busy", "latency-based-routing", "lar1", "provider-budget-routing"];

/// LiteLLM's name for what its v2 replaced.
const USAGE_BASED_V1: &str = "usage-based-routing";

/// The one pre-call check that changes something here.
const ENFORCE_LIMITS: &str = "enforce_model_rate_limits";

const OTHER_CHECKS: [&str; 7] = [
    "prompt_caching",
    "router_budget_limiting",
    "responses_api_deployment_check",
    "deployment_affinity",
    "session_affinity",
    "forward_client_headers_by_model_group",
    "encrypted_content_affinity",
];

/// Reads the settings. Where both sections have a key, `router_settings` wins, as in LiteLLM.
pub(super) fn settings(
    router: &Section<'_>,
    litellm: &Section<'_>,
    onegate: &Section<'_>,
    names: &fallbacks::Known<'_>,
    problems: &mut Problems,
) -> Settings {
    known::check(router, &keys::ROUTER, problems);
    known::check(litellm, &keys::LITELLM, problems);
    let strategy = router.read("routing_strategy", strategy, problems).unwrap_or_default();
    let pre_call_checks = router.read("enable_pre_call_checks", Field::flag, problems).unwrap_or(false);
    let enforce = router.read("optional_pre_call_checks", enforces_limits, problems).unwrap_or(false);
    let (fallbacks, default_fallbacks) = fallbacks::read(router, litellm, names, problems);
    let breaker = onegate.section("breaker", problems);
    known::check(&breaker, &keys::BREAKER, problems);
    let max_fallbacks =
        either(router, litellm, "max_fallbacks", Field::few, problems).unwrap_or(MAX_FALLBACKS);
    Settings {
        strategy,
        limits_bind: strategy.limits_bind() || pre_call_checks || enforce,
        tpm_hold: TpmHold::default(),
        outage: Outage::default(),
        pre_call_checks,
        num_retries: either(router, litellm, "num_retries", Field::few, problems).unwrap_or(NUM_RETRIES),
        retry_after: router.read("retry_after", Field::seconds, problems).unwrap_or_default(),
        cooldown: router.read("cooldown_time", cooldown, problems).unwrap_or(COOLDOWN),
        backoff: breaker.read("backoff", backoff, problems).unwrap_or(1.0),
        cooldowns_disabled: router.read("disable_cooldowns", Field::flag, problems).unwrap_or(false),
        allowed_fails: either(router, litellm, "allowed_fails", Field::count, problems),
        fallbacks,
        default_fallbacks,
        max_fallbacks: usize::try_from(max_fallbacks).unwrap_or(usize::MAX),
    }
}

/// The timeouts of deployments without their own. LiteLLM lets `request_timeout` beat the router's `timeout`.
pub(super) fn timeouts(router: &Section<'_>, litellm: &Section<'_>, problems: &mut Problems) -> Timeouts {
    let request_timeout = litellm.read("request_timeout", Field::timeout, problems);
    let timeout = router.read("timeout", Field::timeout, problems);
    Timeouts {
        timeout: request_timeout.or(timeout).unwrap_or(TIMEOUT),
        stream_timeout: router.read("stream_timeout", Field::timeout, problems),
    }
}

fn either<'t, T>(
    router: &Section<'t>,
    litellm: &Section<'t>,
    key: &str,
    how: impl Fn(&Field<'t>, &mut Problems) -> Option<T>,
    problems: &mut Problems,
) -> Option<T> {
    let own = router.read(key, &how, problems);
    let other = litellm.read(key, &how, problems);
    own.or(other)
}

fn strategy(field: &Field<'_>, problems: &mut Problems) -> Option<Strategy> {
    let text = field.text(problems)?;
    if let Ok(strategy) = text.parse() {
        return Some(strategy);
    }
    let all = Strategy::ALL.map(Strategy::name);
    let allowed = format!("one of {}", all.join(", "));
    if text == USAGE_BASED_V1 {
        let v2 = Strategy::UsageBasedV2;
        problems
            .push(field.warning(format!("`{USAGE_BASED_V1}` is taken as `{}`", v2.name())).allowed(allowed));
        return Some(v2);
    }
    let what = if NOT_BUILT.contains(&text) {
        "this `routing_strategy` of LiteLLM's is not built yet"
    } else {
        "unknown `routing_strategy`"
    };
    let near = known::nearest(text, all.into_iter()).filter(|(_, distance)| known::is_near(text, *distance));
    problems.push(field.error(what).allowed(match near {
        Some((near, _)) if !NOT_BUILT.contains(&text) => format!("{allowed}; the nearest is {near}"),
        _ => allowed,
    }));
    None
}

/// LiteLLM takes a 0 here as not set.
fn cooldown(field: &Field<'_>, problems: &mut Problems) -> Option<Duration> {
    let cooldown = field.seconds(problems)?;
    if cooldown.is_zero() {
        let what = format!("a `cooldown_time` of 0 means the default of {} s", COOLDOWN.as_secs());
        problems
            .push(field.warning(what).allowed("more than 0; `disable_cooldowns: true` turns cooldowns off"));
        return None;
    }
    Some(cooldown)
}

fn backoff(field: &Field<'_>, problems: &mut Problems) -> Option<f64> {
    let backoff = field.number(problems)?;
    if !(1.0..=10.0).contains(&backoff) {
        let problem = field.error("`backoff` multiplies the cooldown at each failed try");
        problems.push(problem.allowed("1 (always the same) to 10"));
        return None;
    }
    Some(backoff)
}

fn enforces_limits(field: &Field<'_>, problems: &mut Problems) -> Option<bool> {
    let mut enforces = false;
    for item in field.list(problems)? {
        let Some(text) = item.text(problems) else { continue };
        if text == ENFORCE_LIMITS {
            enforces = true;
        } else if OTHER_CHECKS.contains(&text) {
            problems.push(item.warning(format!("the check `{text}` is known to LiteLLM, not acted on")));
        } else {
            let what = format!("unknown pre-call check {}", item.named());
            let names = std::iter::once(ENFORCE_LIMITS).chain(OTHER_CHECKS);
            let near = known::nearest(text, names).filter(|(_, distance)| known::is_near(text, *distance));
            let allowed = near.map_or(ENFORCE_LIMITS, |(near, _)| near);
            problems.push(item.error(what).allowed(allowed));
        }
    }
    Some(enforces)
}
