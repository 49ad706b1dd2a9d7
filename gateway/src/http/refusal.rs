//! The only table from a refusal to the wire.
use crate::refusal::{Busy, Refusal};
use axum::Json;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use serde::Serialize;
use std::fmt::Write;

/// OpenAI's error shape.
#[derive(Debug, Serialize)]
struct Body {
    error: Detail,
}

#[derive(Debug, Serialize)]
struct Detail {
    message: String,
    #[serde(rename = "type")]
    kind: String,
    param: Option<String>,
    code: Option<String>,
}

impl Refusal {
    /// The status that the client gets.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        match self {
            Self::BadBody { .. } => StatusCode::BAD_REQUEST,
            Self::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Self::TooSlow => StatusCode::REQUEST_TIMEOUT,
            Self::BadKey { .. } => StatusCode::UNAUTHORIZED,
            Self::UnknownModel { .. } | Self::NoSuchEndpoint { wrong_method: false, .. } => {
                StatusCode::NOT_FOUND
            }
            Self::NoSuchEndpoint { wrong_method: true, .. } => StatusCode::METHOD_NOT_ALLOWED,
            Self::Busy(_) => StatusCode::TOO_MANY_REQUESTS,
            Self::NoCandidate { .. } => StatusCode::SERVICE_UNAVAILABLE,
            Self::Upstream(failure) => {
                StatusCode::from_u16(failure.wire_status()).unwrap_or(StatusCode::BAD_GATEWAY)
            }
        }
    }

    fn detail(self) -> Detail {
        let invalid = "invalid_request_error";
        match self {
            Self::BadBody { message, param } => Detail { message, kind: invalid.into(), param, code: None },
            Self::TooLarge { limit } => {
                let message = format!("the request body is larger than {} MiB", limit >> 20);
                Detail::coded(message, invalid, "request_too_large")
            }
            Self::TooSlow => {
                Detail::coded("the request body did not come in time".into(), invalid, "request_timeout")
            }
            Self::BadKey { missing: true } => {
                let message = "no API key: send it as `Authorization: Bearer <key>`";
                Detail::coded(message.into(), "authentication_error", "invalid_api_key")
            }
            Self::BadKey { missing: false } => Detail::coded(
                "the API key is not known here".into(),
                "authentication_error",
                "invalid_api_key",
            ),
            Self::UnknownModel { name, near } => {
                let message = unknown_model(&name, &near);
                Detail { param: Some("model".into()), ..Detail::coded(message, invalid, "model_not_found") }
            }
            Self::NoSuchEndpoint { asked, wrong_method } => {
                let what = if wrong_method { "that method" } else { "that path" };
                Detail::coded(format!("{asked}: nothing is served with {what}"), invalid, "not_found")
            }
            Self::Busy(busy) => {
                Detail::coded(busy_text(&busy), "rate_limit_error", "no_deployments_available")
            }
            Self::NoCandidate { group, why } => {
                let message = format!("no deployment of `{group}` may serve this request: {why}");
                Detail::coded(message, "service_unavailable", "no_candidate")
            }
            Self::Upstream(failure) => {
                let code = failure.wire_code().map(str::to_owned);
                let kind = failure.wire_type().to_owned();
                Detail { message: failure.wire_message(), kind, param: failure.param.map(String::from), code }
            }
        }
    }
}

impl Detail {
    fn coded(message: String, kind: &str, code: &str) -> Self {
        Self { message, kind: kind.into(), param: None, code: Some(code.into()) }
    }
}

fn unknown_model(name: &str, near: &[String]) -> String {
    // The name is the caller's: a long one must not fill the answer.
    let shown: String = name.chars().take(200).collect();
    let mut text = format!("the model `{shown}` is not served here");
    if !near.is_empty() {
        let _ = write!(text, "; near names: `{}`", near.join("`, `"));
    }
    text
}

fn busy_text(busy: &Busy) -> String {
    let mut text = format!(
        "No deployments available for selected model `{}`, try again in {} s.",
        busy.group,
        busy.retry_after_s()
    );
    if !busy.cooling.is_empty() {
        let list: Vec<_> =
            busy.cooling.iter().map(|(id, left_ms)| format!("{id} ({} s)", left_ms.div_ceil(1000))).collect();
        let _ = write!(text, " Cooling down: {}.", list.join(", "));
    }
    if !busy.limited.is_empty() {
        let list: Vec<_> = busy.limited.iter().map(|(id, limit)| format!("{id} ({limit})")).collect();
        let _ = write!(text, " Limit reached: {}.", list.join(", "));
    }
    if !busy.unreserved.is_empty() {
        let list = busy.unreserved.join(", ");
        let _ = write!(text, " The shared ledger is away, so what has a limit is refused: {list}.");
    }
    let _ = write!(text, " Pre-call checks: {}.", if busy.pre_call_checks { "on" } else { "off" });
    text
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let status = self.status();
        let retry_after = match &self {
            Self::Busy(busy) => Some(busy.retry_after_s()),
            Self::Upstream(failure) => {
                failure.retry_after.map(|wait| wait.as_secs() + u64::from(wait.subsec_nanos() > 0))
            }
            Self::BadBody { .. }
            | Self::TooLarge { .. }
            | Self::TooSlow
            | Self::BadKey { .. }
            | Self::UnknownModel { .. }
            | Self::NoSuchEndpoint { .. }
            | Self::NoCandidate { .. } => None,
        };
        let mut response = (status, Json(Body { error: self.detail() })).into_response();
        if let Some(seconds) = retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}
