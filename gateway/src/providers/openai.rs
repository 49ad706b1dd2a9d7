//! OpenAI's chat protocol as a pure codec. A request is the client's own text with a few cuts: what the gateway does
//! not act on reaches the provider byte for byte.
pub(crate) mod chunk;
mod usage;

use crate::catalog::Upstream;
use crate::prompt::{Endpoint, Fields, Prompt};
use crate::providers::Usage;
use crate::providers::failure::{self, Failure, FailureKind};
use crate::secret::Secret;
use bytes::Bytes;
use http::{HeaderValue, Method, Request, header};
use http_body_util::Full;

/// Fields that only the gateway understands; they are not sent. `metadata` is OpenAI's own and passes.
const GATEWAY_ONLY: &[&str] = &[
    "num_retries",
    "timeout",
    "request_timeout",
    "stream_timeout",
    "fallbacks",
    "context_window_fallbacks",
    "content_policy_fallbacks",
    "max_fallbacks",
    "disable_fallbacks",
    "include_fallback_errors",
    "enable_tag_filtering",
    "tags",
];
const GATEWAY_ONLY_PREFIX: &str = "mock_testing_";

const USER_AGENT: &str = concat!("onegate/", env!("CARGO_PKG_VERSION"));

/// Whether a stream is asked to report its usage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AskUsage {
    /// The rule: tokens are counted by what the provider reports.
    Always,
    /// For a provider that refuses the question: only if the client asked.
    AsTheClientDid,
}

/// The body for the provider: the client's, with `model` replaced, usage asked for in streams, the deployment's
/// defaults added where the client gave nothing, and the gateway's own fields left out.
#[must_use]
pub fn encode(prompt: &Prompt, upstream: &Upstream, model: &str) -> Bytes {
    encode_asking(prompt, upstream, model, AskUsage::Always)
}

/// As [`encode`], with a choice about usage.
pub(crate) fn encode_asking(prompt: &Prompt, upstream: &Upstream, model: &str, ask: AskUsage) -> Bytes {
    let body = &prompt.body[..];
    let defaults = || upstream.defaults.iter().filter(|(name, _)| prompt.fields().find(body, name).is_none());
    let model = serde_json::Value::from(model).to_string();
    let options = (prompt.stream && ask == AskUsage::Always).then(|| {
        let given = prompt.field("stream_options");
        let default = || defaults().find(|(name, _)| name == "stream_options").map(|(_, value)| value.get());
        asking_for_usage(given.or_else(default))
    });
    let added: usize = defaults().map(|(name, value)| name.len() + value.get().len() + 4).sum();
    let mut out = Vec::with_capacity(body.len() + model.len() + added + 64);

    let (mut end, mut first) = (0, true);
    for field in prompt.fields().iter() {
        if is_gateway_only(field.plain_name(body)) {
            end = field.value.end;
            continue;
        }
        // What stands before a name is the brace or a comma, with white space; the first name kept takes the brace's.
        let start = if first { 0 } else { end };
        if first && start != end {
            out.push(b'{');
        } else {
            out.extend_from_slice(&body[start..field.name.start]);
        }
        first = false;
        out.extend_from_slice(&body[field.name.start..field.value.start]);
        match &options {
            _ if field.is(body, "model") => out.extend_from_slice(model.as_bytes()),
            Some(options) if field.is(body, "stream_options") => out.extend_from_slice(options.as_bytes()),
            _ => out.extend_from_slice(&body[field.value.clone()]),
        }
        end = field.value.end;
    }
    for (name, value) in defaults().filter(|(name, _)| options.is_none() || name != "stream_options") {
        add(&mut out, name, value.get());
    }
    if let Some(options) = &options
        && prompt.field("stream_options").is_none()
    {
        add(&mut out, "stream_options", options);
    }
    out.extend_from_slice(&body[end..]);
    out.into()
}

fn is_gateway_only(name: &[u8]) -> bool {
    GATEWAY_ONLY.iter().any(|known| known.as_bytes() == name)
        || name.starts_with(GATEWAY_ONLY_PREFIX.as_bytes())
}

fn add(out: &mut Vec<u8>, name: &str, value: &str) {
    out.push(b',');
    out.extend_from_slice(serde_json::Value::from(name).to_string().as_bytes());
    out.push(b':');
    out.extend_from_slice(value.as_bytes());
}

/// `stream_options` with `include_usage: true` and its other members kept. What is no object is the client's fault
/// and stays for the provider to refuse.
fn asking_for_usage(given: Option<&str>) -> String {
    let given = given.filter(|given| *given != "null").unwrap_or("{}");
    let Ok(fields) = Fields::read(given) else { return given.to_owned() };
    if let Some(field) = fields.find(given.as_bytes(), "include_usage") {
        return [&given[..field.value.start], "true", &given[field.value.end..]].concat();
    }
    let comma = if fields.iter().next().is_some() { "," } else { "" };
    let inside = given.trim_start().trim_start_matches('{');
    format!("{{\"include_usage\":true{comma}{inside}")
}

/// The whole HTTP request. Nothing of the client's headers is in it.
pub(crate) fn request(
    upstream: &Upstream,
    endpoint: Endpoint,
    body: Bytes,
) -> Result<Request<Full<Bytes>>, Failure> {
    let mut request = Request::builder()
        .method(Method::POST)
        .uri(format!("{}{}", upstream.base, endpoint.path()))
        .header(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))
        .header(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"))
        .header(header::USER_AGENT, HeaderValue::from_static(USER_AGENT));
    if let Some(key) = &upstream.key {
        let mut bearer = HeaderValue::from_str(&format!("Bearer {}", key.reveal())).map_err(|_| {
            Failure::unsent("the deployment's api_key has characters that a header cannot hold")
        })?;
        bearer.set_sensitive(true);
        request = request.header(header::AUTHORIZATION, bearer);
    }
    request
        .body(Full::new(body))
        .map_err(|_| Failure::unsent("the deployment's api_base is not a valid address"))
}

/// The usage that a 200's body reports.
///
/// # Errors
/// The body is only an error, is not a JSON object, or is an answer that a content filter withheld.
pub(crate) fn decode(body: &[u8], key: Option<&Secret>) -> Result<Option<Usage>, Failure> {
    let malformed = || Failure::new(FailureKind::Malformed, "the provider's answer is not a JSON object");
    let text = std::str::from_utf8(body).map_err(|_| malformed())?;
    let fields = Fields::read(text).map_err(|_| malformed())?;
    let may_be_error = ["error", "object"].iter().any(|name| fields.value(text, name).is_some())
        && fields.value(text, "choices").is_none_or(|choices| choices.len() <= 4);
    if may_be_error && let Some(failure) = failure::from_reply_text(text, key) {
        return Err(failure);
    }
    if fields.value(text, "choices").is_some_and(chunk::is_filtered_empty) {
        return Err(Failure::new(
            FailureKind::ContentPolicy,
            "the provider's content filter withheld the answer",
        ));
    }
    Ok(fields.value(text, "usage").and_then(usage::read))
}

#[cfg(test)]
mod tests;
