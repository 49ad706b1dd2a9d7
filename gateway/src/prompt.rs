//! A request for a model as the client wrote it: what the gateway acts on is read and checked, the rest stays bytes.
mod fields;

use bytes::Bytes;
pub(crate) use fields::Fields;
use std::time::Duration;

/// Deeper bodies are refused: parsers down the line commonly stop here too.
const DEPTH_MAX: usize = 128;

/// Fields that the gateway acts on. Given twice it would be open which one counts, here and at the provider.
const ACTED_ON: [&str; 8] =
    ["model", "messages", "input", "stream", "stream_options", "timeout", "num_retries", "disable_fallbacks"];

/// What is asked of a model. Providers serve it at the same path as we do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Endpoint {
    /// `POST /v1/chat/completions`.
    Chat,
    /// `POST /v1/embeddings`.
    Embeddings,
}

impl Endpoint {
    /// Below the provider's `api_base`.
    #[must_use]
    pub const fn path(self) -> &'static str {
        match self {
            Self::Chat => "/chat/completions",
            Self::Embeddings => "/embeddings",
        }
    }
}

/// A request's body.
#[derive(Debug, Clone)]
pub struct Prompt {
    /// What is asked of the model.
    pub endpoint: Endpoint,
    /// The whole body as it came.
    pub body: Bytes,
    /// The model asked for.
    pub model: String,
    /// Whether the answer is to be streamed.
    pub stream: bool,
    /// `stream_options.include_usage` is true: the client wants the usage chunk.
    pub wants_usage: bool,
    /// `timeout` of the request, given in seconds.
    pub timeout: Option<Duration>,
    /// `num_retries` of the request.
    pub num_retries: Option<u32>,
    /// `disable_fallbacks` of the request.
    pub disable_fallbacks: bool,
    fields: Fields,
}

/// Why a body is refused (400).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct BadBody {
    /// For the client; names the field and what is wanted.
    pub message: String,
    /// The field at fault, if it is one.
    pub param: Option<String>,
}

impl BadBody {
    fn whole(message: impl Into<String>) -> Self {
        Self { message: message.into(), param: None }
    }

    fn field(name: &str, problem: &str) -> Self {
        Self { message: format!("`{name}` {problem}"), param: Some(name.to_owned()) }
    }
}

impl Prompt {
    /// Reads and checks a body.
    ///
    /// # Errors
    /// The first fault found, with its field named.
    pub fn parse(endpoint: Endpoint, body: Bytes) -> Result<Self, BadBody> {
        let text = std::str::from_utf8(&body).map_err(|error| {
            BadBody::whole(format!("the body is not valid UTF-8 at byte {}", error.valid_up_to()))
        })?;
        let fields = read_object(text)?;
        if fields::depth(text.as_bytes()) > DEPTH_MAX {
            return Err(BadBody::whole(format!("the body is nested deeper than {DEPTH_MAX} levels")));
        }
        for name in ACTED_ON {
            if fields.iter().filter(|field| field.is(text.as_bytes(), name)).nth(1).is_some() {
                return Err(BadBody::field(name, "is given twice"));
            }
        }
        let model = match value(text, &fields, "model").map(serde_json::from_str::<String>) {
            None => return Err(BadBody::field("model", "is missing")),
            Some(Ok(model)) if !model.trim().is_empty() => model,
            Some(_) => return Err(BadBody::field("model", "must be a non-empty string")),
        };
        let stream = match endpoint {
            Endpoint::Chat => {
                match value(text, &fields, "messages") {
                    None => return Err(BadBody::field("messages", "is missing")),
                    Some(messages) if messages.starts_with('[') => {}
                    Some(_) => return Err(BadBody::field("messages", "must be an array of messages")),
                }
                flag(text, &fields, "stream")?
            }
            Endpoint::Embeddings => match value(text, &fields, "input") {
                None => return Err(BadBody::field("input", "is missing")),
                Some(input) if input.starts_with(['"', '[']) => false,
                Some(_) => return Err(BadBody::field("input", "must be a string or an array")),
            },
        };
        let num_retries = value(text, &fields, "num_retries")
            .map(|raw| {
                raw.parse::<u32>().map_err(|_| BadBody::field("num_retries", "must be a whole number"))
            })
            .transpose()?;
        let disable_fallbacks = flag(text, &fields, "disable_fallbacks")?;
        let timeout = value(text, &fields, "timeout").map(seconds).transpose()?;
        let wants_usage = value(text, &fields, "stream_options").is_some_and(asks_for_usage);
        Ok(Self {
            endpoint,
            model,
            stream,
            wants_usage,
            timeout,
            num_retries,
            disable_fallbacks,
            fields,
            body,
        })
    }

    /// The raw JSON of a top-level field, as the client wrote it; `None` if it is absent.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&str> {
        let field = self.fields.find(&self.body, name)?;
        std::str::from_utf8(&self.body[field.value.clone()]).ok()
    }

    /// A rough count of input tokens: a quarter of the body's bytes, at least 1.
    #[must_use]
    pub fn input_tokens_estimate(&self) -> u64 {
        u64::try_from(self.body.len() / 4).unwrap_or(u64::MAX).max(1)
    }

    /// The top-level fields as spans of the body.
    pub(crate) fn fields(&self) -> &Fields {
        &self.fields
    }
}

fn read_object(text: &str) -> Result<Fields, BadBody> {
    let not_json = |error: &serde_json::Error| BadBody::whole(format!("the body is not JSON: {error}"));
    if text.trim_start_matches([' ', '\t', '\r', '\n']).starts_with('{') {
        return Fields::read(text).map_err(|error| not_json(&error));
    }
    match serde_json::from_str::<serde::de::IgnoredAny>(text) {
        Ok(_) => Err(BadBody::whole("the body must be a JSON object")),
        Err(error) => Err(not_json(&error)),
    }
}

/// The raw value of a field; an explicit `null` counts as absent.
fn value<'a>(text: &'a str, fields: &Fields, name: &str) -> Option<&'a str> {
    fields.value(text, name).filter(|raw| *raw != "null")
}

fn flag(text: &str, fields: &Fields, name: &str) -> Result<bool, BadBody> {
    match value(text, fields, name) {
        None | Some("false") => Ok(false),
        Some("true") => Ok(true),
        Some(_) => Err(BadBody::field(name, "must be true or false")),
    }
}

fn seconds(raw: &str) -> Result<Duration, BadBody> {
    let positive = raw.parse::<f64>().ok().filter(|seconds| *seconds > 0.0);
    positive
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .filter(|timeout| !timeout.is_zero())
        .ok_or_else(|| BadBody::field("timeout", "must be a number of seconds above 0"))
}

fn asks_for_usage(stream_options: &str) -> bool {
    Fields::read(stream_options)
        .is_ok_and(|fields| fields.value(stream_options, "include_usage") == Some("true"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(body: &str) -> Result<Prompt, BadBody> {
        Prompt::parse(Endpoint::Chat, Bytes::copy_from_slice(body.as_bytes()))
    }

    fn with(field: &str) -> Result<Prompt, BadBody> {
        parse(&format!(r#"{{"model":"m","messages":[],{field}}}"#))
    }

    #[test]
    fn what_the_gateway_acts_on_is_read_and_the_rest_stays_as_it_came() {
        let chat = with(
            r#""stream":true,"stream_options":{"include_usage":true},"timeout":1.5,"num_retries":3,"disable_fallbacks":true,"seed":9007199254740993"#,
        )
        .unwrap();
        assert_eq!((chat.model.as_str(), chat.stream, chat.wants_usage), ("m", true, true));
        assert_eq!((chat.timeout, chat.num_retries), (Some(Duration::from_millis(1500)), Some(3)));
        assert!(chat.disable_fallbacks);
        assert_eq!(chat.field("seed"), Some("9007199254740993"));
        assert_eq!(chat.field("absent"), None);
    }

    #[test]
    fn null_counts_as_absent() {
        let chat = with(
            r#""stream":null,"stream_options":null,"timeout":null,"num_retries":null,"disable_fallbacks":null"#,
        )
        .unwrap();
        assert!(!chat.stream && !chat.wants_usage && !chat.disable_fallbacks);
        assert_eq!((chat.timeout, chat.num_retries), (None, None));
        assert_eq!(parse(r#"{"model":null,"messages":[]}"#).unwrap_err().message, "`model` is missing");
    }

    #[test]
    fn usage_is_wanted_only_if_asked_for_with_true() {
        for (options, want) in [
            (r#"{"include_usage":true}"#, true),
            (r#"{"include_usage":false}"#, false),
            ("{}", false),
            ("7", false),
        ] {
            assert_eq!(
                with(&format!(r#""stream_options":{options}"#)).unwrap().wants_usage,
                want,
                "{options}"
            );
        }
    }

    #[test]
    fn a_bad_body_is_refused_with_its_field_named() {
        let table = [
            (r#"{"messages":[]}"#, Some("model"), "missing"),
            (r#"{"model":"","messages":[]}"#, Some("model"), "non-empty"),
            (r#"{"model":["m"],"messages":[]}"#, Some("model"), "non-empty"),
            (r#"{"model":"m"}"#, Some("messages"), "missing"),
            (r#"{"model":"m","messages":"hi"}"#, Some("messages"), "array"),
            (r#"{"model":"m","messages":[],"stream":"yes"}"#, Some("stream"), "true or false"),
            (r#"{"model":"m","messages":[],"stream":1}"#, Some("stream"), "true or false"),
            (r#"{"model":"m","messages":[],"timeout":0}"#, Some("timeout"), "seconds"),
            (r#"{"model":"m","messages":[],"timeout":-1}"#, Some("timeout"), "seconds"),
            (r#"{"model":"m","messages":[],"timeout":1e300}"#, Some("timeout"), "seconds"),
            (r#"{"model":"m","messages":[],"timeout":"5"}"#, Some("timeout"), "seconds"),
            (r#"{"model":"m","messages":[],"num_retries":-1}"#, Some("num_retries"), "whole number"),
            (r#"{"model":"m","messages":[],"num_retries":1.5}"#, Some("num_retries"), "whole number"),
            (
                r#"{"model":"m","messages":[],"disable_fallbacks":"no"}"#,
                Some("disable_fallbacks"),
                "true or false",
            ),
            (r#"{"model":"m","messages":[],"model":"n"}"#, Some("model"), "twice"),
            (r#"{"model":"m","messages":[],"mod\u0065l":"n"}"#, Some("model"), "twice"),
            (r#"{"model": "chat", "messages": ["#, None, "line 1 column 31"),
            (r#"{"model":"m","messages":[]} {"#, None, "not JSON"),
            (r#"["model"]"#, None, "must be a JSON object"),
            ("", None, "not JSON"),
            ("hello", None, "not JSON"),
        ];
        for (body, param, words) in table {
            let bad = parse(body).unwrap_err();
            assert_eq!(bad.param.as_deref(), param, "{body}");
            assert!(bad.message.contains(words), "{body}: {bad}");
        }
    }

    #[test]
    fn embeddings_want_an_input_and_know_no_stream() {
        let parse =
            |body: &'static str| Prompt::parse(Endpoint::Embeddings, Bytes::from_static(body.as_bytes()));
        for body in [r#"{"model":"m","input":"hi","stream":true}"#, r#"{"model":"m","input":["a",[1]]}"#] {
            assert!(!parse(body).unwrap().stream);
        }
        for body in [r#"{"model":"m","messages":[]}"#, r#"{"model":"m","input":{}}"#] {
            assert_eq!(parse(body).unwrap_err().param.as_deref(), Some("input"));
        }
    }

    #[test]
    fn bytes_that_are_not_utf_8_are_refused_with_their_place() {
        let bad = Prompt::parse(Endpoint::Chat, Bytes::from_static(b"{\"model\":\"\xff\"}")).unwrap_err();
        assert_eq!(bad.message, "the body is not valid UTF-8 at byte 10");
    }

    #[test]
    fn nesting_is_bounded() {
        let nested = |levels: usize| format!(r#""x":{}{}"#, "[".repeat(levels), "]".repeat(levels));
        assert!(with(&nested(DEPTH_MAX - 1)).is_ok());
        assert!(with(&nested(DEPTH_MAX)).unwrap_err().message.contains("nested deeper"));
        assert!(with(&nested(1_000_000)).is_err());
    }

    #[test]
    fn fields_that_are_not_acted_on_may_repeat() {
        assert!(with(r#""x":1,"x":2"#).is_ok());
    }

    #[test]
    fn the_input_estimate_is_a_quarter_of_the_body() {
        assert_eq!(parse(r#"{"model":"m","messages":[ ]}"#).unwrap().input_tokens_estimate(), 7);
    }
}
