//! Whether a failure takes its deployment out, and for how long. Pure; rules from LiteLLM with the changes that
//! ARCHITECTURE.md lists (counts over the fleet, one failing call more or less of a lone deployment is spared).
use crate::catalog::{Deployment, Settings};
use crate::providers::{Failure, FailureKind};
use ledger::Reading;
use std::time::Duration;

/// Calls in the minute from which a share of failures says something.
const CALLS_MIN: u64 = 5;
/// Calls in the minute after which even a lone deployment is taken out, if every one of them failed.
const LONE_CALLS_MIN: u64 = 1000;

/// The length of the cooldown that this failure begins, if it begins one. `reading` includes the failure.
#[must_use]
pub fn after(
    failure: &Failure,
    reading: &Reading,
    deployment: &Deployment,
    lone: bool,
    settings: &Settings,
) -> Option<Duration> {
    let length = deployment.cooldown.or(failure.retry_after).unwrap_or(settings.cooldown);
    if settings.cooldowns_disabled || length.is_zero() || !failure.kind.counts_against_deployment() {
        return None;
    }
    let allowed = deployment.allowed_fails.or(settings.allowed_fails);
    let cools = match allowed {
        Some(allowed) => reading.fails > allowed,
        None if lone => reading.calls >= LONE_CALLS_MIN && reading.fails >= reading.calls,
        None => at_once(failure.kind) || mostly_failed(reading),
    };
    cools.then_some(length)
}

/// One such failure is enough: the next call would fail the same way.
fn at_once(kind: FailureKind) -> bool {
    kind == FailureKind::RateLimit || !kind.transient()
}

fn mostly_failed(reading: &Reading) -> bool {
    reading.calls >= CALLS_MIN && reading.fails * 2 > reading.calls
}

#[cfg(test)]
mod tests;
