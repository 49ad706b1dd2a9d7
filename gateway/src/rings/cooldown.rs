//! Whether a failure takes its deployment out, and for how long. Pure. The rules are LiteLLM's, save that failures are
//! counted over the fleet, that a lone deployment is spared until all of a thousand calls have failed, and that what
//! fails its probation is out again at once.
use crate::catalog::{Deployment, Settings};
use crate::providers::{Failure, FailureKind};
use ledger::{Probe, Reading};
use std::time::Duration;

/// Calls in the minute from which a share of failures says something.
const CALLS_MIN: u64 = 5;
/// Calls in the minute after which even a lone deployment is taken out, if every one of them failed.
const LONE_CALLS_MIN: u64 = 1000;
/// No back-off goes beyond this.
const BACKOFF_MAX: Duration = Duration::from_secs(3_600);

/// What a failure means for its deployment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing.
    Spared,
    /// Out for so long.
    Out(Duration),
    /// Out for so long, if the minute's counts (the failure included) say so.
    OutIfMany(Duration),
}

/// The verdict that needs no counts. `probe` is the right to try a deployment on probation, if the call had it.
#[must_use]
pub fn verdict(
    failure: &Failure,
    probe: Option<&Probe>,
    deployment: &Deployment,
    lone: bool,
    settings: &Settings,
) -> Verdict {
    let length = deployment.cooldown.or(failure.retry_after).unwrap_or(settings.cooldown);
    if settings.cooldowns_disabled || length.is_zero() || !failure.kind.counts_against_deployment() {
        return Verdict::Spared;
    }
    if let Some(probe) = probe {
        return Verdict::Out(backed_off(length, probe.trips, settings.backoff));
    }
    let counted = lone || deployment.allowed_fails.or(settings.allowed_fails).is_some();
    if counted || !at_once(failure.kind) { Verdict::OutIfMany(length) } else { Verdict::Out(length) }
}

/// Whether the minute's counts are reason enough.
#[must_use]
pub fn are_many(reading: &Reading, deployment: &Deployment, lone: bool, settings: &Settings) -> bool {
    match deployment.allowed_fails.or(settings.allowed_fails) {
        Some(allowed) => reading.fails > allowed,
        None if lone => reading.calls >= LONE_CALLS_MIN && reading.fails >= reading.calls,
        None => reading.calls >= CALLS_MIN && reading.fails * 2 > reading.calls,
    }
}

/// Whether the deployment has to prove itself after this cooldown. Not where a 429 named the time: that is all there
/// is to wait for.
#[must_use]
pub fn ends_in_probation(failure: &Failure) -> bool {
    !(failure.kind == FailureKind::RateLimit && failure.retry_after.is_some())
}

/// One such failure is enough: the next call would fail the same way.
fn at_once(kind: FailureKind) -> bool {
    kind == FailureKind::RateLimit || !kind.transient()
}

/// Longer with each try that failed.
fn backed_off(length: Duration, trips: u64, backoff: f64) -> Duration {
    let trips = i32::try_from(trips).unwrap_or(i32::MAX);
    let longer =
        Duration::try_from_secs_f64(length.as_secs_f64() * backoff.powi(trips)).unwrap_or(BACKOFF_MAX);
    longer.min(BACKOFF_MAX).max(length)
}

#[cfg(test)]
mod tests;
