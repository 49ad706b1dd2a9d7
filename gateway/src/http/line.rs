//! One log line a request: who was picked and why.
use crate::catalog::Catalog;
use crate::handle::Handled;
use crate::refusal::Refusal;
use http::StatusCode;
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

/// What the line will say, gathered on the way.
#[derive(Debug)]
pub(super) struct Line {
    request_id: String,
    group: Option<Arc<str>>,
    picked: Option<Arc<str>>,
    why: String,
}

impl Line {
    /// A request came in.
    #[must_use]
    pub(super) fn begin(request_id: &str) -> Self {
        Self { request_id: request_id.to_owned(), group: None, picked: None, why: String::new() }
    }

    /// It names this model.
    pub(super) fn asked(&mut self, catalog: &Catalog, model: &str) {
        self.group = catalog.names.resolve(model).map(|found| catalog.groups[found.group].name.clone());
    }

    /// It was answered.
    pub(super) fn served(&mut self, handled: &Handled) {
        self.picked = Some(handled.served.deployment.member.id.clone());
        let decision = &handled.decision;
        let (strategy, left) = (decision.strategy.name(), decision.ranked.len());
        let _ = write!(self.why, "{strategy} of {left}");
        for removed in &decision.removed {
            let _ = write!(self.why, "; not {}: {}", removed.id, removed.reason);
        }
        if handled.retries > 0 {
            let _ = write!(self.why, "; retries {}", handled.retries);
        }
        if handled.fallbacks > 0 {
            let _ = write!(self.why, "; fallbacks {}", handled.fallbacks);
        }
    }

    /// It was refused.
    pub(super) fn refused(&mut self, refusal: &Refusal) {
        let _ = write!(self.why, "{}", refusal.name());
    }

    /// The group for metrics; a name that nothing has counts as `other`.
    #[must_use]
    pub(super) fn group_label(&self) -> &str {
        self.group.as_deref().unwrap_or("other")
    }

    /// Writes the line.
    pub(super) fn end(self, status: StatusCode, took: Duration) {
        let ms = took.as_secs_f64() * 1000.0;
        let picked = self.picked.as_deref().unwrap_or("-");
        tracing::info!(
            target: "request",
            "{} {} -> {picked} in {ms:.1} ms ({}) id={}",
            status.as_u16(),
            self.group_label(),
            self.why,
            self.request_id,
        );
    }
}
