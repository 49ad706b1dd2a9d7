//! Reads a failure out of what a provider sent: an error reply, a 200 that is only an error, an error in a stream.
use super::{Failure, FailureKind, retry_after, wording};
use crate::secret::Secret;
use http::HeaderMap;
use serde_json::Value;

/// Longer messages are cut: they are shown to clients and logged.
const MESSAGE_BYTES_MAX: usize = 4096;

/// What an error object says. All in the provider's words.
#[derive(Debug, Default)]
struct Said {
    message: Option<String>,
    /// What a provider behind the provider said; read for its meaning only.
    inner: Option<String>,
    error_type: Option<String>,
    code: Option<String>,
    inner_code: Option<String>,
    param: Option<String>,
    status: Option<u16>,
}

/// The failure that a reply with an error status is.
pub(crate) fn from_reply(
    status: u16,
    headers: &HeaderMap,
    body: &[u8],
    key: Option<&Secret>,
    now_ms: u64,
) -> Failure {
    let said = match serde_json::from_slice::<Value>(body) {
        Ok(value) => said_by_body(&value),
        Err(_) => Said { message: plain_text(body), ..Said::default() },
    };
    let wait = retry_after::wait(headers, now_ms);
    let fallback = format!("the provider answered {status} with no readable error");
    let failure = failure(said, FailureKind::of_status(status), Some(status), &fallback, key);
    Failure { retry_after: retry_after::cooldown(wait), retry_wait: wait, ..failure }
}

/// The failure in the body of a 200, if that is nothing but an error.
pub(crate) fn from_reply_text(text: &str, key: Option<&Secret>) -> Option<Failure> {
    let value = serde_json::from_str::<Value>(text).ok()?;
    is_error(&value).then(|| from_value(&value, key))
}

/// The failure in an event of a stream, already known to be an error.
pub(crate) fn from_error_event(data: &[u8], key: Option<&Secret>) -> Failure {
    match serde_json::from_slice::<Value>(data) {
        Ok(value) => from_value(&value, key),
        Err(_) => {
            let said = Said { message: plain_text(data), ..Said::default() };
            failure(said, FailureKind::Server, None, UNREADABLE, key)
        }
    }
}

const UNREADABLE: &str = "the provider sent an error without a readable text";

fn is_error(value: &Value) -> bool {
    let has_error = value.get("error").is_some_and(|error| !is_empty(error));
    let is_error = value.get("object").and_then(Value::as_str) == Some("error");
    (has_error || is_error) && value.get("choices").is_none_or(is_empty)
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(true) | Value::Number(_) => false,
    }
}

fn from_value(value: &Value, key: Option<&Secret>) -> Failure {
    let said = said_by_body(value);
    let names = [said.error_type.as_deref(), said.code.as_deref()];
    let (kind, status) = match said.status {
        Some(status) => (FailureKind::of_status(status), Some(status)),
        None => (names.into_iter().flatten().find_map(kind_of_name).unwrap_or(FailureKind::Server), None),
    };
    failure(said, kind, status, UNREADABLE, key)
}

fn failure(
    said: Said,
    status_kind: FailureKind,
    status: Option<u16>,
    fallback: &str,
    key: Option<&Secret>,
) -> Failure {
    let names =
        [&said.error_type, &said.code, &said.inner_code].map(|name| name.as_deref().unwrap_or_default());
    let text = format!(
        "{}\n{}",
        said.message.as_deref().unwrap_or_default(),
        said.inner.as_deref().unwrap_or_default()
    );
    let kind = wording::kind(status_kind, &names, &text);
    let clean = |text: String| {
        cut(match key {
            Some(key) => key.redact(&text),
            None => text,
        })
    };
    Failure {
        status,
        error_type: said.error_type.map(|text| clean(text).into()),
        code: said.code.map(|text| clean(text).into()),
        param: said.param.map(|text| clean(text).into()),
        ..Failure::new(kind, said.message.map_or_else(|| fallback.to_owned(), clean))
    }
}

/// The shapes that error bodies have: an object under `error`, a text there, or an object that is the error.
fn said_by_body(body: &Value) -> Said {
    match body {
        Value::Array(items) => items.first().map(said_by_body).unwrap_or_default(),
        Value::Object(fields) => match fields.get("error") {
            Some(error @ Value::Object(_)) => said_by_error(error),
            Some(Value::String(text)) => Said { message: readable(text), ..said_by_error(body) },
            Some(Value::Array(items)) if !items.is_empty() => said_by_body(&items[0]),
            _ => said_by_error(body),
        },
        Value::String(text) => Said { message: readable(text), ..Said::default() },
        Value::Null | Value::Bool(_) | Value::Number(_) => Said::default(),
    }
}

fn said_by_error(error: &Value) -> Said {
    let text = |names: &[&str]| names.iter().find_map(|name| error.get(name).and_then(scalar));
    let message = ["message", "Message", "detail", "error_message", "msg", "error", "errors", "title"]
        .iter()
        .find_map(|name| error.get(name).and_then(message_in));
    let status =
        ["code", "status", "status_code", "http_code"].iter().find_map(|name| status_in(error.get(name)?));
    Said {
        message,
        inner: error.pointer("/metadata/raw").and_then(scalar),
        error_type: text(&["type", "error_type"]),
        code: text(&["code"]),
        inner_code: error.pointer("/innererror/code").and_then(scalar),
        param: text(&["param"]),
        status,
    }
}

/// A message: a text, or the first text in what stands in its place (lists of validation problems).
fn message_in(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => readable(text),
        Value::Array(items) => items.iter().find_map(message_in),
        Value::Object(fields) => {
            ["message", "msg", "detail"].iter().find_map(|name| message_in(fields.get(*name)?))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}

fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) if !text.is_empty() => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Null | Value::Bool(_) | Value::String(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

fn status_in(value: &Value) -> Option<u16> {
    let number = match value {
        Value::Number(number) => number.as_u64()?,
        Value::String(text) => text.parse().ok()?,
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => return None,
    };
    u16::try_from(number).ok().filter(|status| (400..600).contains(status))
}

/// The kind that a `type` or `code` stands for where no status is given.
fn kind_of_name(name: &str) -> Option<FailureKind> {
    let name = name.to_ascii_lowercase();
    let table: [(&[&str], FailureKind); 8] = [
        (
            &["rate_limit", "insufficient_quota", "resource_exhausted", "too_many_requests"],
            FailureKind::RateLimit,
        ),
        (&["authentication", "invalid_api_key", "unauthenticated"], FailureKind::Auth),
        (&["permission", "billing"], FailureKind::Permission),
        (&["not_found"], FailureKind::NotFound),
        (&["timeout", "deadline_exceeded"], FailureKind::Timeout),
        (&["request_too_large"], FailureKind::TooLarge),
        (
            &["invalid_request", "invalid_argument", "badrequest", "bad_request", "validation"],
            FailureKind::BadRequest,
        ),
        (&["content_policy", "context_length", "content_filter"], FailureKind::BadRequest),
    ];
    table.into_iter().find(|(parts, _)| parts.iter().any(|part| name.contains(part))).map(|(_, kind)| kind)
}

/// A text that people may read: not empty, not markup.
fn readable(text: &str) -> Option<String> {
    let text = text.trim();
    let lower = text.to_ascii_lowercase();
    let markup = text.starts_with('<') || lower.contains("<html") || lower.contains("<!doctype");
    (!text.is_empty() && !markup).then(|| text.to_owned())
}

/// A body that is no JSON: taken only if it is a short line or two of text.
fn plain_text(body: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(body).ok().filter(|text| text.len() <= 500)?;
    let looks_like_text =
        !text.starts_with(['{', '[']) && !text.contains(|c: char| c.is_control() && !c.is_whitespace());
    readable(text).filter(|_| looks_like_text)
}

fn cut(mut text: String) -> String {
    if text.len() > MESSAGE_BYTES_MAX {
        let end = (0..=MESSAGE_BYTES_MAX).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        text.truncate(end);
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(status: u16, body: &str) -> Failure {
        from_reply(status, &HeaderMap::new(), body.as_bytes(), Some(&Secret::new("sk-1".into())), 0)
    }

    #[test]
    fn the_providers_message_is_found_in_many_shapes() {
        for body in [
            r#"{"error":{"message":"what happened","type":"t","param":null,"code":"c"}}"#,
            r#"{"error":"what happened"}"#,
            r#"{"error":"what happened","error_type":"validation"}"#,
            r#"{"message":"what happened"}"#,
            r#"{"Message":"what happened"}"#,
            r#"{"detail":"what happened"}"#,
            r#"{"detail":[{"loc":["body"],"msg":"what happened","type":"missing"}]}"#,
            r#"{"object":"error","message":"what happened","type":"BadRequestError","code":400}"#,
            r#"{"errors":[{"message":"what happened"}]}"#,
            r#"[{"error":{"code":400,"message":"what happened","status":"INVALID_ARGUMENT"}}]"#,
            r#"{"error":{"error":{"message":"what happened"}}}"#,
            r#"{"type":"error","error":{"type":"overloaded_error","message":"what happened"}}"#,
            "what happened\n",
        ] {
            assert_eq!(reply(400, body).message, "what happened", "{body}");
        }
    }

    #[test]
    fn markup_and_emptiness_never_become_the_message() {
        for body in [
            "",
            "null",
            "{}",
            "[]",
            "7",
            r#"{"error":null}"#,
            r#"{"error":{"message":""}}"#,
            r#"{"error":"<html><h1>Bad gateway</h1></html>"}"#,
            "<html><h1>Bad gateway at edge-7</h1></html>",
            "oops <!DOCTYPE html><p>nothing here</p>",
            r#"{"error": {"message": "cut"#,
        ] {
            assert_eq!(
                reply(502, body).message,
                "the provider answered 502 with no readable error",
                "{body}"
            );
        }
    }

    #[test]
    fn type_code_and_param_are_kept_and_numbers_become_text() {
        let failure = reply(400, r#"{"error":{"message":"m","type":"t","param":"p","code":17}}"#);
        assert_eq!(failure.error_type.as_deref(), Some("t"));
        assert_eq!((failure.code.as_deref(), failure.param.as_deref()), (Some("17"), Some("p")));
        assert_eq!((failure.kind, failure.status, failure.sent), (FailureKind::BadRequest, Some(400), true));
    }

    #[test]
    fn the_key_is_redacted_from_every_text() {
        let body = r#"{"error":{"message":"bad key sk-1.","type":"sk-1","param":"sk-1","code":"sk-1"}}"#;
        let shown = format!("{:?}", reply(400, body));
        assert!(!shown.contains("sk-1") && shown.contains("bad key [secret]."), "{shown}");
        let event = from_error_event(br#"{"error":{"message":"sk-1"}}"#, Some(&Secret::new("sk-1".into())));
        assert_eq!(event.message, "[secret]");
    }

    #[test]
    fn the_meaning_of_a_refusal_is_read_from_its_words_even_if_a_provider_stands_between() {
        let body = r#"{"error":{"message":"Provider returned error","code":400,"metadata":{"raw":"{\"message\":\"prompt is too long\"}"}}}"#;
        assert_eq!(reply(400, body).kind, FailureKind::ContextWindow);
        let azure =
            r#"{"error":{"message":"no","code":"x","innererror":{"code":"ResponsibleAIPolicyViolation"}}}"#;
        assert_eq!(reply(400, azure).kind, FailureKind::ContentPolicy);
    }

    #[test]
    fn a_200_is_a_failure_only_if_it_is_nothing_but_an_error() {
        let table = [
            (r#"{"error":{"message":"engine lost","code":502}}"#, Some((FailureKind::Server, Some(502)))),
            (r#"{"error":{"message":"no","code":"429"}}"#, Some((FailureKind::RateLimit, Some(429)))),
            (r#"{"error":{"message":"no","type":"rate_limit_error"}}"#, Some((FailureKind::RateLimit, None))),
            (
                r#"{"error":{"message":"no","type":"invalid_request_error"}}"#,
                Some((FailureKind::BadRequest, None)),
            ),
            (
                r#"{"error":{"message":"x","code":"context_length_exceeded"}}"#,
                Some((FailureKind::ContextWindow, None)),
            ),
            (r#"{"error":"lost"}"#, Some((FailureKind::Server, None))),
            (r#"{"object":"error","message":"lost","code":503}"#, Some((FailureKind::Server, Some(503)))),
            (r#"{"error":null,"choices":[{}]}"#, None),
            (r#"{"error":{"message":"half"},"choices":[{}]}"#, None),
            (r#"{"choices":[]}"#, None),
            (r#"{"error":{}}"#, None),
            ("[]", None),
        ];
        for (body, want) in table {
            let found = from_reply_text(body, None).map(|failure| (failure.kind, failure.status));
            assert_eq!(found, want, "{body}");
        }
    }

    #[test]
    fn a_limit_says_how_long_to_stay_away() {
        let mut headers = HeaderMap::new();
        headers.insert("retry-after", "7".parse().unwrap());
        let failure = from_reply(429, &headers, b"{}", None, 0);
        assert_eq!(failure.retry_after, Some(std::time::Duration::from_secs(7)));
        headers.insert("retry-after", "0.5".parse().unwrap());
        let failure = from_reply(429, &headers, b"{}", None, 0);
        assert_eq!(failure.retry_after, None);
        assert_eq!(failure.retry_wait, Some(std::time::Duration::from_millis(500)));
    }

    #[test]
    fn long_messages_are_cut_between_characters() {
        let message = reply(400, &format!(r#"{{"message":"{}"}}"#, "世".repeat(5000))).message;
        assert!(message.len() <= MESSAGE_BYTES_MAX + 3 && message.ends_with("世…"));
    }
}
