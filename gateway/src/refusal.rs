//! A refusal is an answer, not an error: what the client is told and why. `http::refusal` puts it on the wire.
use crate::prompt::BadBody;
use crate::providers::Failure;
use std::sync::Arc;

/// Why a request is not served.
#[derive(Debug)]
pub enum Refusal {
    /// The body cannot be understood.
    BadBody {
        /// What is wrong and where.
        message: String,
        /// The field, if one is to blame.
        param: Option<String>,
    },
    /// The body exceeds the limit, in bytes.
    TooLarge {
        /// The limit.
        limit: usize,
    },
    /// The body did not come in time.
    TooSlow,
    /// No key was given, or one that nobody knows.
    BadKey {
        /// Whether the request had none.
        missing: bool,
    },
    /// Nothing has this name.
    UnknownModel {
        /// The name asked for.
        name: String,
        /// Known names near it.
        near: Vec<String>,
    },
    /// Nothing is served at this path, or not by this method.
    NoSuchEndpoint {
        /// Method and path asked for.
        asked: String,
        /// The path exists with another method.
        wrong_method: bool,
    },
    /// All candidates are limited or cooling down: waiting helps.
    Busy(Busy),
    /// All candidates are out for a reason that lasts.
    NoCandidate {
        /// The model group.
        group: Arc<str>,
        /// What the last gate said.
        why: String,
    },
    /// The provider failed, and nothing else was left to try.
    Upstream(Failure),
}

/// Limits reached, or all cooling.
#[derive(Debug, Clone)]
pub struct Busy {
    /// The model group.
    pub group: Arc<str>,
    /// Milliseconds until the earliest return.
    pub wait_ms: u64,
    /// Deployments that cool down, with the milliseconds left.
    pub cooling: Vec<(Arc<str>, u64)>,
    /// Deployments whose limit is reached, with which.
    pub limited: Vec<(Arc<str>, String)>,
    /// Deployments with a limit that nobody can reserve, for the shared ledger is away and `on_outage` says `deny`.
    pub unreserved: Vec<Arc<str>>,
    /// Whether `enable_pre_call_checks` is on.
    pub pre_call_checks: bool,
}

impl Busy {
    /// `Retry-After` in whole seconds, rounded up, at least 1.
    #[must_use]
    pub fn retry_after_s(&self) -> u64 {
        self.wait_ms.div_ceil(1000).max(1)
    }
}

impl From<BadBody> for Refusal {
    fn from(bad: BadBody) -> Self {
        Self::BadBody { message: bad.message, param: bad.param }
    }
}

impl Refusal {
    /// For log lines and metrics.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::BadBody { .. } => "bad_body",
            Self::TooLarge { .. } => "too_large",
            Self::TooSlow => "too_slow",
            Self::BadKey { .. } => "bad_key",
            Self::UnknownModel { .. } => "unknown_model",
            Self::NoSuchEndpoint { .. } => "no_such_endpoint",
            Self::Busy(_) => "busy",
            Self::NoCandidate { .. } => "no_candidate",
            Self::Upstream(failure) => failure.kind.name(),
        }
    }
}
