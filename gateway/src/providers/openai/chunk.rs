//! What one event of a chat stream means for us, read in one pass over its data and without copying it.
use super::usage;
use crate::prompt::Fields;
use crate::providers::Usage;
use crate::providers::sse::Event;
use bytes::Bytes;
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;

/// What an event is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// A comment or keep-alive: no data.
    Silent,
    /// `[DONE]`.
    Done,
    /// An error object, or an event named `error`.
    Error,
    /// The data is no JSON.
    Garbled,
    /// A part of the answer.
    Chunk(Chunk),
}

/// A part of the answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Chunk {
    /// It holds something of the answer: text, reasoning, a tool call, or what we do not know.
    pub(crate) content: bool,
    /// Its choices hold nothing at all, not even a role or an end, and it reports usage.
    pub(crate) usage_only: bool,
    /// Its `choices` are there and empty.
    pub(crate) choices_empty: bool,
    /// What it reports.
    pub(crate) usage: Option<Usage>,
    /// Bytes of text in it, for an estimate.
    pub(crate) text_bytes: u64,
    /// Bit by choice: it appears here.
    pub(crate) choices: u64,
    /// Bit by choice: it ends here.
    pub(crate) finished: u64,
    /// A choice ends because a content filter cut it.
    pub(crate) filtered: bool,
}

/// What an event means.
pub(crate) fn read(event: &Event) -> Meaning {
    let Some(data) = event.data() else { return Meaning::Silent };
    let data = data.trim_ascii();
    if event.name() == Some(b"error") {
        return Meaning::Error;
    }
    match data {
        b"" | b"null" => return Meaning::Silent,
        b"[DONE]" => return Meaning::Done,
        _ => {}
    }
    let parsed = data.starts_with(b"{").then(|| serde_json::from_slice::<Raw<'_>>(data));
    match parsed {
        Some(Ok(raw)) if raw.is_error() => Meaning::Error,
        Some(Ok(raw)) => Meaning::Chunk(raw.chunk()),
        // JSON of another shape is passed on as content: better than to lose what we do not know.
        _ if serde_json::from_slice::<IgnoredAny>(data).is_ok() => {
            Meaning::Chunk(Chunk { content: true, ..Chunk::default() })
        }
        _ => Meaning::Garbled,
    }
}

/// The usage chunk of the protocol, with `choices` empty, made of a chunk that reports usage in another place.
pub(crate) fn usage_event(event: &Event) -> Option<Bytes> {
    let data = event.data()?;
    let text = std::str::from_utf8(&data).ok()?;
    let fields = Fields::read(text).ok()?;
    let usage = fields.value(text, "usage")?;
    let mut out = String::from("data: {");
    for name in ["id", "object", "created", "model", "system_fingerprint", "service_tier"] {
        if let Some(value) = fields.value(text, name) {
            out.extend(["\"", name, "\":", value, ","]);
        }
    }
    out.extend(["\"choices\":[],\"usage\":", usage, "}"]);
    // Data may have come in several lines; inside of JSON a line end is only white space.
    let mut out = out.replace(['\r', '\n'], " ");
    out.push_str("\n\n");
    Some(out.into())
}

/// Whether a plain answer's choices all ended in a content filter with nothing said.
pub(crate) fn is_filtered_empty(choices: &str) -> bool {
    if memchr::memmem::find(choices.as_bytes(), b"\"content_filter\"").is_none() {
        return false;
    }
    let Ok(choices) = serde_json::from_str::<Vec<Choice<'_>>>(choices) else { return false };
    !choices.is_empty() && choices.iter().all(|choice| choice.is_filtered() && !choice.has_content())
}

#[derive(Deserialize)]
struct Raw<'a> {
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
    #[serde(borrow, default)]
    object: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    choices: Option<Vec<Choice<'a>>>,
    #[serde(borrow, default)]
    usage: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(default)]
    index: u64,
    #[serde(default)]
    delta: Option<Part>,
    #[serde(default)]
    message: Option<Part>,
    #[serde(borrow, default)]
    text: Option<&'a RawValue>,
    #[serde(borrow, default)]
    finish_reason: Option<Cow<'a, str>>,
}

/// The delta or message of a choice.
#[derive(Default)]
struct Part {
    role: bool,
    content: bool,
    text_bytes: u64,
}

impl Raw<'_> {
    fn is_error(&self) -> bool {
        let given = self.error.is_some_and(|error| !is_empty(error.get()) && error.get() != "false");
        given || self.object.as_deref() == Some("error")
    }

    fn chunk(&self) -> Chunk {
        let reported = self.usage.and_then(|raw| usage::read(raw.get()));
        let Some(choices) = self.choices.as_ref().filter(|choices| !choices.is_empty()) else {
            // Nothing but usage, or a preamble of empty choices; without either it is something unknown.
            let content = self.choices.is_none() && self.usage.is_none();
            let usage_only = self.usage.is_some();
            let choices_empty = self.choices.is_some();
            return Chunk { content, usage_only, choices_empty, usage: reported, ..Chunk::default() };
        };
        let mut chunk = Chunk { usage: reported, ..Chunk::default() };
        let mut idle = true;
        for choice in choices {
            let bit = 1u64 << choice.index.min(63);
            chunk.choices |= bit;
            chunk.content |= choice.has_content();
            chunk.text_bytes += choice.text_bytes();
            if choice.finish_reason.is_some() {
                chunk.finished |= bit;
            }
            chunk.filtered |= choice.is_filtered();
            idle &= choice.is_idle();
        }
        chunk.usage_only = idle && reported.is_some();
        chunk
    }
}

impl Choice<'_> {
    fn parts(&self) -> impl Iterator<Item = &Part> {
        [&self.delta, &self.message].into_iter().flatten()
    }

    fn text(&self) -> Option<&str> {
        self.text.map(RawValue::get).filter(|raw| !is_empty(raw))
    }

    fn has_content(&self) -> bool {
        self.text().is_some() || self.parts().any(|part| part.content)
    }

    fn text_bytes(&self) -> u64 {
        self.text().map_or(0, string_bytes) + self.parts().map(|part| part.text_bytes).sum::<u64>()
    }

    fn is_filtered(&self) -> bool {
        self.finish_reason.as_deref() == Some("content_filter")
    }

    fn is_idle(&self) -> bool {
        !self.has_content() && self.finish_reason.is_none() && !self.parts().any(|part| part.role)
    }
}

impl<'de> Deserialize<'de> for Part {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(PartVisitor)
    }
}

struct PartVisitor;

impl<'de> Visitor<'de> for PartVisitor {
    type Value = Part;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Part, M::Error> {
        let mut part = Part::default();
        while let Some(name) = map.next_key::<&'de RawValue>()? {
            let value = map.next_value::<&'de RawValue>()?.get();
            match name.get() {
                "\"role\"" => part.role = true,
                _ if is_empty(value) => {}
                "\"tool_calls\"" | "\"function_call\"" => {
                    part.content = true;
                    part.text_bytes += arguments_bytes(value);
                }
                _ => {
                    part.content = true;
                    part.text_bytes += string_bytes(value);
                }
            }
        }
        Ok(part)
    }
}

fn is_empty(raw: &str) -> bool {
    let inside = |open, close| raw.strip_prefix(open).and_then(|raw| raw.strip_suffix(close));
    match raw {
        "null" | "\"\"" => true,
        _ => {
            inside('[', ']').or_else(|| inside('{', '}')).is_some_and(|inside| inside.trim_ascii().is_empty())
        }
    }
}

/// The bytes between the quotes of a string; anything else is no text.
fn string_bytes(raw: &str) -> u64 {
    let inside = raw.strip_prefix('"').and_then(|raw| raw.strip_suffix('"'));
    inside.map_or(0, |text| u64::try_from(text.len()).unwrap_or(u64::MAX))
}

/// The bytes of the names and arguments of tool calls.
fn arguments_bytes(raw: &str) -> u64 {
    #[derive(Deserialize)]
    struct Call<'a> {
        #[serde(borrow, default)]
        function: Option<Function<'a>>,
    }
    #[derive(Deserialize)]
    struct Function<'a> {
        #[serde(borrow, default)]
        name: Option<&'a RawValue>,
        #[serde(borrow, default)]
        arguments: Option<&'a RawValue>,
    }
    let bytes = |function: &Function<'_>| {
        [function.name, function.arguments]
            .into_iter()
            .flatten()
            .map(|raw| string_bytes(raw.get()))
            .sum::<u64>()
    };
    match serde_json::from_str::<Vec<Call<'_>>>(raw) {
        Ok(calls) => calls.iter().filter_map(|call| call.function.as_ref()).map(bytes).sum(),
        Err(_) => serde_json::from_str::<Function<'_>>(raw).map_or(0, |function| bytes(&function)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(data: &str) -> Event {
        Event { raw: Bytes::from(format!("data: {data}\n\n")) }
    }

    fn chunk(data: &str) -> Chunk {
        match read(&event(data)) {
            Meaning::Chunk(chunk) => chunk,
            other => panic!("{data}: {other:?}"),
        }
    }

    #[test]
    fn what_is_no_chunk_is_told_apart() {
        let table = [
            ("[DONE]", Meaning::Done),
            (" [DONE] ", Meaning::Done),
            ("", Meaning::Silent),
            (r#"{"error":{"message":"x"}}"#, Meaning::Error),
            (r#"{"error":"x"}"#, Meaning::Error),
            (
                r#"{"error":{"message":"x"},"choices":[{"delta":{"content":""},"finish_reason":"error"}]}"#,
                Meaning::Error,
            ),
            (r#"{"object":"error","message":"x"}"#, Meaning::Error),
            (r#"{"choices":[{"#, Meaning::Garbled),
            ("hello", Meaning::Garbled),
        ];
        for (data, want) in table {
            assert_eq!(read(&event(data)), want, "{data}");
        }
        assert_eq!(read(&Event { raw: Bytes::from_static(b": ping\n\n") }), Meaning::Silent);
        assert_eq!(
            read(&Event { raw: Bytes::from_static(b"event: error\ndata: {\"m\":1}\n\n") }),
            Meaning::Error
        );
    }

    #[test]
    fn content_is_whatever_a_delta_holds_besides_a_role_and_emptiness() {
        let table = [
            (r#"{"content":"w0"}"#, true, 2),
            (r#"{"role":"assistant","content":"世界"}"#, true, 6),
            (r#"{"role":"assistant"}"#, false, 0),
            (r#"{"role":"assistant","content":"","refusal":null,"tool_calls":[ ]}"#, false, 0),
            ("{}", false, 0),
            (r#"{"reasoning_content":"hm"}"#, true, 2),
            (r#"{"refusal":"no"}"#, true, 2),
            (r#"{"tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":"{}"}}]}"#, true, 3),
            (r#"{"tool_calls":[{"index":0,"id":"c"}]}"#, true, 0),
            (r#"{"function_call":{"name":"f","arguments":"{"}}"#, true, 2),
            (r#"{"vendor":{"k":1}}"#, true, 0),
        ];
        for (delta, content, text_bytes) in table {
            let chunk =
                chunk(&format!(r#"{{"choices":[{{"index":0,"delta":{delta},"finish_reason":null}}]}}"#));
            assert_eq!((chunk.content, chunk.text_bytes), (content, text_bytes), "{delta}");
            assert_eq!((chunk.choices, chunk.finished, chunk.usage_only), (1, 0, false), "{delta}");
        }
        assert_eq!(chunk(r#"{"choices":[{"index":0,"text":"hi"}]}"#).text_bytes, 2);
        assert!(!chunk(r#"{"choices":[{"index":0,"text":""}]}"#).content);
    }

    #[test]
    fn the_unknown_counts_as_content() {
        for data in [
            r#"{"type":"content_block_delta"}"#,
            r#"{"choices":7}"#,
            r#"["x"]"#,
            r#"{"choices":[{"delta":"x"}]}"#,
        ] {
            assert!(chunk(data).content, "{data}");
        }
        assert!(!chunk(r#"{"choices":[],"prompt_filter_results":[]}"#).content);
    }

    #[test]
    fn usage_is_seen_in_every_place() {
        let usage = r#""usage":{"prompt_tokens":7,"completion_tokens":5}"#;
        // the chunk without its usage, whether it is there for the usage alone, whether its choices are empty
        let table = [
            (r#""choices":[]"#, true, true),
            (r#""id":"x""#, true, false),
            (r#""choices":null"#, true, false),
            (r#""choices":[{"delta":{}}]"#, true, false),
            (r#""choices":[{"delta":{"content":""}}]"#, true, false),
            (r#""choices":[{"delta":{"role":"assistant"}}]"#, false, false),
            (r#""choices":[{"delta":{},"finish_reason":"stop"}]"#, false, false),
            (r#""choices":[{"delta":{"content":"x"}}]"#, false, false),
        ];
        for (rest, usage_only, choices_empty) in table {
            let chunk = chunk(&format!("{{{rest},{usage}}}"));
            assert_eq!(chunk.usage, Some(Usage { input: 7, output: 5 }), "{rest}");
            assert_eq!((chunk.usage_only, chunk.choices_empty), (usage_only, choices_empty), "{rest}");
        }
        let null = chunk(r#"{"choices":[{"delta":{"content":"x"}}],"usage":null}"#);
        assert_eq!((null.usage, null.usage_only), (None, false));
    }

    #[test]
    fn the_usage_chunk_is_made_of_a_chunk_that_reports_usage_beside_choices() {
        let raw = "data: {\"id\":\"x\",\"model\":\"m\",\"choices\":[{\"delta\":{}}],\ndata: \"usage\":{\"prompt_tokens\": 7,\ndata: \"v\":1}}\n\n";
        let made = usage_event(&Event { raw: Bytes::from(raw) }).unwrap();
        let want = "data: {\"id\":\"x\",\"model\":\"m\",\"choices\":[],\"usage\":{\"prompt_tokens\": 7, \"v\":1}}\n\n";
        assert_eq!(std::str::from_utf8(&made).unwrap(), want);
        assert_eq!(usage_event(&event(r#"{"choices":[]}"#)), None);
    }

    #[test]
    fn each_choice_ends_by_itself() {
        let data = r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"},{"index":2,"delta":{"content":"x"}}]}"#;
        let chunk = chunk(data);
        assert_eq!((chunk.choices, chunk.finished, chunk.filtered), (0b101, 0b1, false));
    }

    #[test]
    fn a_filtered_answer_without_content_is_recognised() {
        let table = [
            (r#"[{"finish_reason":"content_filter","message":{"role":"assistant","content":null}}]"#, true),
            (
                r#"[{"finish_reason":"content_filter","message":{"role":"assistant","content":"half"}}]"#,
                false,
            ),
            (
                r#"[{"finish_reason":"stop","message":{"role":"assistant","content":"\"content_filter\""}}]"#,
                false,
            ),
            (r#"[{"finish_reason":"stop","message":{"content":""}}]"#, false),
            ("[]", false),
        ];
        for (choices, want) in table {
            assert_eq!(is_filtered_empty(choices), want, "{choices}");
        }
    }
}
