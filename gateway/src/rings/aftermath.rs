//! What a call leaves behind for others: its settled lease, its count, and perhaps a cooldown.
use super::cooldown;
use super::lease::Lease;
use super::measured;
use crate::app::App;
use crate::catalog::Catalog;
use crate::providers::{Failure, FailureKind};
use ledger::{Cooldown, Outcome};
use std::sync::Arc;

/// What a failure leaves behind: its count, and perhaps a cooldown. Owns what it needs, since a stream may
/// fail long after its handler has returned.
pub struct Aftermath {
    /// The program.
    pub app: Arc<App>,
    /// The config that the request began with.
    pub catalog: Arc<Catalog>,
    /// The group's number in it.
    pub group: usize,
    /// The deployment's place in the group.
    pub place: usize,
    /// The caller waits less than the deployment is given.
    pub callers_timeout: bool,
}

impl Aftermath {
    /// Settles the lease of a call that failed before any content.
    pub async fn of(&self, failure: &Failure, lease: Lease) {
        self.of_broken(failure, 0, lease).await;
    }

    /// Settles the lease of a failed call at what it used, and takes the deployment out if the rules say so.
    pub async fn of_broken(&self, failure: &Failure, tokens: u64, mut lease: Lease) {
        let group = &self.catalog.groups[self.group];
        let deployment = &group.deployments[self.place];
        // A caller that waits less than the deployment is given says nothing of the deployment.
        let blameless = self.callers_timeout && failure.kind == FailureKind::Timeout;
        let counts = failure.kind.counts_against_deployment() && !blameless;
        let outcome = if counts { Outcome::Failure } else { Outcome::Neutral };
        if counts && failure.kind == FailureKind::Timeout {
            lease.tells(measured::TIMED_OUT);
        }
        if failure.sent {
            lease.settle(tokens, outcome);
        } else {
            lease.not_sent();
        }
        self.app.metrics.attempt(&deployment.member.id, failure.kind.name(), tokens);
        if !counts {
            return;
        }
        let view = self.app.ledger.view(&group.ledger).await;
        let Some(reading) = view.readings.get(self.place) else { return };
        let lone = group.deployments.len() == 1;
        if let Some(length) = cooldown::after(failure, reading, deployment, lone, &self.catalog.settings) {
            let length_ms = u64::try_from(length.as_millis()).unwrap_or(u64::MAX);
            let status = failure.status.unwrap_or(0);
            tracing::info!(deployment = %deployment.member.id, length_ms, status, "cooldown begins");
            let reason = failure.kind.name().to_owned();
            self.app.ledger.cool(Cooldown { member: deployment.member.clone(), length_ms, status, reason });
        }
    }

    /// Counts a stream that came to its end.
    pub fn success(&self, tokens: u64, lease: Lease) {
        lease.settle(tokens, Outcome::Success);
        let deployment = &self.catalog.groups[self.group].deployments[self.place];
        self.app.metrics.attempt(&deployment.member.id, "success", tokens);
    }
}
