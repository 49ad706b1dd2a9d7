//! What a provider's failure is: its kind, and what follows from the kind for the client, the deployment and the
//! rings. Every text in it is free of the deployment's key.
mod reply;
mod retry_after;
mod wording;

pub(crate) use reply::{from_error_event, from_reply, from_reply_text};
use std::time::Duration;

/// The closed set of failures. The names are metric labels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FailureKind {
    /// 400 and other 4xx about the request.
    BadRequest,
    /// 401: the gateway's own key was refused.
    Auth,
    /// 402, 403: the gateway's own account may not, or is out of credit.
    Permission,
    /// 404, 410: the provider has no such model or path.
    NotFound,
    /// 408, 504, or no answer within our own limit.
    Timeout,
    /// 409, 425: passes by itself.
    Conflict,
    /// 429.
    RateLimit,
    /// The prompt does not fit the model's context window.
    ContextWindow,
    /// The provider's content policy refused the prompt or the answer.
    ContentPolicy,
    /// 413.
    TooLarge,
    /// 422.
    Unprocessable,
    /// 5xx.
    Server,
    /// No connection came about: no byte has reached the provider.
    Connect,
    /// The connection broke after the request was sent.
    Broken,
    /// The answer is not what the protocol says.
    Malformed,
}

impl FailureKind {
    /// The metric label.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::BadRequest => "bad_request",
            Self::Auth => "auth",
            Self::Permission => "permission",
            Self::NotFound => "not_found",
            Self::Timeout => "timeout",
            Self::Conflict => "conflict",
            Self::RateLimit => "rate_limit",
            Self::ContextWindow => "context_window",
            Self::ContentPolicy => "content_policy",
            Self::TooLarge => "too_large",
            Self::Unprocessable => "unprocessable",
            Self::Server => "server",
            Self::Connect => "connect",
            Self::Broken => "broken",
            Self::Malformed => "malformed",
        }
    }

    /// Whether it speaks against the deployment (and may cool it), or is the caller's own.
    #[must_use]
    pub const fn counts_against_deployment(self) -> bool {
        match self {
            Self::Auth
            | Self::Permission
            | Self::NotFound
            | Self::Timeout
            | Self::RateLimit
            | Self::Server
            | Self::Connect
            | Self::Broken
            | Self::Malformed => true,
            Self::BadRequest
            | Self::Conflict
            | Self::ContextWindow
            | Self::ContentPolicy
            | Self::TooLarge
            | Self::Unprocessable => false,
        }
    }

    /// Whether another deployment of the group may do better with the same request.
    #[must_use]
    pub const fn retryable_elsewhere(self) -> bool {
        match self {
            Self::Auth
            | Self::Permission
            | Self::NotFound
            | Self::Timeout
            | Self::Conflict
            | Self::RateLimit
            | Self::Server
            | Self::Connect
            | Self::Broken
            | Self::Malformed => true,
            Self::BadRequest
            | Self::ContextWindow
            | Self::ContentPolicy
            | Self::TooLarge
            | Self::Unprocessable => false,
        }
    }

    /// Whether the same deployment may do better later; a lasting refusal must not be asked twice and uses up no
    /// retry.
    #[must_use]
    pub const fn transient(self) -> bool {
        match self {
            Self::Timeout
            | Self::Conflict
            | Self::RateLimit
            | Self::Server
            | Self::Connect
            | Self::Broken
            | Self::Malformed => true,
            Self::BadRequest
            | Self::Auth
            | Self::Permission
            | Self::NotFound
            | Self::ContextWindow
            | Self::ContentPolicy
            | Self::TooLarge
            | Self::Unprocessable => false,
        }
    }

    /// Whether a model with a larger window may take the request: `context_window_fallbacks` apply.
    #[must_use]
    pub const fn wants_larger_window(self) -> bool {
        matches!(self, Self::ContextWindow | Self::TooLarge)
    }

    /// The kind that a provider's status stands for.
    pub(crate) const fn of_status(status: u16) -> Self {
        match status {
            401 => Self::Auth,
            402 | 403 => Self::Permission,
            404 | 410 => Self::NotFound,
            408 | 504 => Self::Timeout,
            409 | 425 => Self::Conflict,
            413 => Self::TooLarge,
            422 => Self::Unprocessable,
            429 => Self::RateLimit,
            400..=499 => Self::BadRequest,
            500..=599 => Self::Server,
            _ => Self::Malformed,
        }
    }
}

/// One failed call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// What it is.
    pub kind: FailureKind,
    /// The provider's status; `None` where it gave none.
    pub status: Option<u16>,
    /// The provider's own words where it had readable ones, else ours. For the log; clients get `wire_message`.
    pub message: String,
    /// The provider's `error.type`.
    pub error_type: Option<Box<str>>,
    /// The provider's `error.code`, as text.
    pub code: Option<Box<str>>,
    /// The provider's `error.param`.
    pub param: Option<Box<str>>,
    /// How long the provider asked us to stay away, where that is a sane cooldown: 1 s to 1 hour.
    pub retry_after: Option<Duration>,
    /// The same, any positive length: for the wait before a retry.
    pub retry_wait: Option<Duration>,
    /// False only if no byte of the request can have reached the provider.
    pub sent: bool,
}

impl Failure {
    /// A failure in our own words.
    pub(crate) fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            status: None,
            message: message.into(),
            error_type: None,
            code: None,
            param: None,
            retry_after: None,
            retry_wait: None,
            sent: true,
        }
    }

    /// A failure before the request was sent.
    pub(crate) fn unsent(message: impl Into<String>) -> Self {
        Self { sent: false, ..Self::new(FailureKind::Connect, message) }
    }

    /// The status that the client sees.
    #[must_use]
    pub fn wire_status(&self) -> u16 {
        let provider_status = |class: u16, otherwise| match self.status {
            Some(status) if status / 100 == class => status,
            _ => otherwise,
        };
        match self.kind {
            FailureKind::BadRequest => provider_status(4, 400),
            FailureKind::NotFound => provider_status(4, 404),
            FailureKind::Conflict => provider_status(4, 409),
            FailureKind::Timeout => self.status.filter(|status| matches!(status, 408 | 504)).unwrap_or(504),
            FailureKind::RateLimit => 429,
            FailureKind::ContextWindow | FailureKind::ContentPolicy => 400,
            FailureKind::TooLarge => 413,
            FailureKind::Unprocessable => 422,
            FailureKind::Server => provider_status(5, 502),
            FailureKind::Auth
            | FailureKind::Permission
            | FailureKind::Connect
            | FailureKind::Broken
            | FailureKind::Malformed => 502,
        }
    }

    /// `error.message` for the client. A refusal of the gateway's own key is told in our words: the provider's
    /// often hold a part of the key or the account's name.
    #[must_use]
    pub fn wire_message(&self) -> String {
        match (self.kind, self.status) {
            (FailureKind::Auth | FailureKind::Permission, Some(status)) => {
                format!("the provider refused the gateway's credentials (status {status})")
            }
            (FailureKind::Auth | FailureKind::Permission, None) => {
                "the provider refused the gateway's credentials".to_owned()
            }
            _ => self.message.clone(),
        }
    }

    /// `error.type` for the client.
    #[must_use]
    pub fn wire_type(&self) -> &str {
        let own = match self.kind {
            FailureKind::Auth | FailureKind::Permission => return "upstream_error",
            FailureKind::BadRequest
            | FailureKind::NotFound
            | FailureKind::Conflict
            | FailureKind::ContextWindow
            | FailureKind::ContentPolicy
            | FailureKind::TooLarge
            | FailureKind::Unprocessable => "invalid_request_error",
            FailureKind::RateLimit => "rate_limit_error",
            FailureKind::Timeout => "timeout_error",
            FailureKind::Server | FailureKind::Connect | FailureKind::Broken | FailureKind::Malformed => {
                "upstream_error"
            }
        };
        self.error_type.as_deref().unwrap_or(own)
    }

    /// `error.code` for the client.
    #[must_use]
    pub fn wire_code(&self) -> Option<&str> {
        match self.kind {
            FailureKind::Auth | FailureKind::Permission => Some("upstream_auth"),
            FailureKind::ContextWindow => Some("context_length_exceeded"),
            FailureKind::ContentPolicy => Some(self.code.as_deref().unwrap_or("content_policy_violation")),
            FailureKind::Connect => Some("upstream_unreachable"),
            FailureKind::Timeout => Some(self.code.as_deref().unwrap_or("upstream_timeout")),
            FailureKind::Broken => Some(self.code.as_deref().unwrap_or("upstream_broken")),
            FailureKind::Malformed => Some(self.code.as_deref().unwrap_or("upstream_malformed")),
            FailureKind::BadRequest
            | FailureKind::NotFound
            | FailureKind::Conflict
            | FailureKind::RateLimit
            | FailureKind::TooLarge
            | FailureKind::Unprocessable
            | FailureKind::Server => self.code.as_deref(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_status_has_its_kind_and_what_follows_from_it() {
        // status, name, what the client sees, counts, elsewhere, transient
        let table = [
            (400, "bad_request", 400, false, false, false),
            (401, "auth", 502, true, true, false),
            (402, "permission", 502, true, true, false),
            (403, "permission", 502, true, true, false),
            (404, "not_found", 404, true, true, false),
            (405, "bad_request", 405, false, false, false),
            (408, "timeout", 408, true, true, true),
            (409, "conflict", 409, false, true, true),
            (410, "not_found", 410, true, true, false),
            (413, "too_large", 413, false, false, false),
            (422, "unprocessable", 422, false, false, false),
            (429, "rate_limit", 429, true, true, true),
            (500, "server", 500, true, true, true),
            (502, "server", 502, true, true, true),
            (503, "server", 503, true, true, true),
            (504, "timeout", 504, true, true, true),
            (529, "server", 529, true, true, true),
            (302, "malformed", 502, true, true, true),
            (204, "malformed", 502, true, true, true),
            (999, "malformed", 502, true, true, true),
        ];
        for (status, name, wire, counts, elsewhere, transient) in table {
            let kind = FailureKind::of_status(status);
            let failure = Failure { status: Some(status), ..Failure::new(kind, "x") };
            assert_eq!(kind.name(), name, "{status}");
            assert_eq!(failure.wire_status(), wire, "{status}");
            assert_eq!(kind.counts_against_deployment(), counts, "{status}");
            assert_eq!(kind.retryable_elsewhere(), elsewhere, "{status}");
            assert_eq!(kind.transient(), transient, "{status}");
        }
    }

    #[test]
    fn failures_without_a_status_have_one_for_the_client() {
        let table = [
            (FailureKind::Timeout, 504),
            (FailureKind::Connect, 502),
            (FailureKind::Broken, 502),
            (FailureKind::Malformed, 502),
            (FailureKind::Server, 502),
            (FailureKind::ContextWindow, 400),
            (FailureKind::ContentPolicy, 400),
        ];
        for (kind, want) in table {
            assert_eq!(Failure::new(kind, "x").wire_status(), want, "{kind:?}");
        }
    }

    #[test]
    fn a_refused_key_of_ours_is_told_without_the_providers_words() {
        let failure = Failure {
            status: Some(401),
            error_type: Some("invalid_request_error".into()),
            code: Some("invalid_api_key".into()),
            ..Failure::new(FailureKind::Auth, "Incorrect API key provided: sk-ab***yz")
        };
        assert_eq!(failure.wire_message(), "the provider refused the gateway's credentials (status 401)");
        assert_eq!((failure.wire_type(), failure.wire_code()), ("upstream_error", Some("upstream_auth")));
    }

    #[test]
    fn only_a_call_that_never_connected_was_not_sent() {
        assert!(!Failure::unsent("x").sent);
        assert!(Failure::new(FailureKind::Timeout, "x").sent);
    }
}
