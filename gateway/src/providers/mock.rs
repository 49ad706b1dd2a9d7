//! `mock_response`: an answer in OpenAI's shape without any call.
use super::failure::{Failure, FailureKind};
use super::stream::{Source, Stream};
use super::transport::Limit;
use super::{Plain, Reply, Usage};
use crate::prompt::{Endpoint, Prompt};
use bytes::Bytes;
use http::HeaderValue;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::time::Duration;

/// The configured text as the answer to a chat. LiteLLM's names of exceptions, given as the text, are that failure.
pub(super) async fn answer(prompt: &Prompt, text: &str, model: &str, now_ms: u64) -> Result<Reply, Failure> {
    if let Some(failure) = failure_named(text) {
        return Err(failure);
    }
    if prompt.endpoint != Endpoint::Chat {
        return Err(Failure::new(FailureKind::BadRequest, "mock_response answers chats only"));
    }
    let usage = Usage { input: prompt.input_tokens_estimate(), output: tokens_of(text) };
    let base = Base { id: format!("chatcmpl-{}", uuid::Uuid::now_v7()), created: now_ms / 1000, model };
    if !prompt.stream {
        let choice = json!({
            "index": 0,
            "message": {"role": "assistant", "content": text},
            "finish_reason": "stop",
        });
        let body = base.object("chat.completion", &json!([choice]), Some(usage));
        return Ok(Reply::Plain(Plain {
            content_type: HeaderValue::from_static("application/json"),
            body: body.to_string().into(),
            usage: Some(usage),
        }));
    }
    // The scripted events never wait, so the limits are of no matter.
    let never = Duration::from_secs(3600);
    let source = Source::Memory(events(&base, text, usage));
    let limit = Limit::new(never, "stream_timeout");
    let stream = Stream::open(source, limit, never, prompt.wants_usage, None).await?;
    Ok(Reply::Stream(Box::new(stream)))
}

struct Base<'a> {
    id: String,
    created: u64,
    model: &'a str,
}

impl Base<'_> {
    fn object(&self, kind: &str, choices: &Value, usage: Option<Usage>) -> Value {
        let mut object = json!({
            "id": self.id,
            "object": kind,
            "created": self.created,
            "model": self.model,
            "choices": choices,
        });
        if let Some(Usage { input, output }) = usage {
            object["usage"] =
                json!({"prompt_tokens": input, "completion_tokens": output, "total_tokens": input + output});
        }
        object
    }
}

fn events(base: &Base<'_>, text: &str, usage: Usage) -> VecDeque<Bytes> {
    let event = |choices: &Value, usage| {
        let chunk = base.object("chat.completion.chunk", choices, usage);
        Bytes::from(format!("data: {chunk}\n\n"))
    };
    let delta = |delta: &Value, finish: Option<&str>| {
        event(&json!([{"index": 0, "delta": delta, "finish_reason": finish}]), None)
    };
    let mut events = VecDeque::from([delta(&json!({"role": "assistant", "content": ""}), None)]);
    events.extend(text.split_inclusive(' ').map(|word| delta(&json!({"content": word}), None)));
    events.push_back(delta(&json!({}), Some("stop")));
    events.push_back(event(&json!([]), Some(usage)));
    events.push_back(Bytes::from_static(b"data: [DONE]\n\n"));
    events
}

fn tokens_of(text: &str) -> u64 {
    u64::try_from(text.len().div_ceil(4)).unwrap_or(u64::MAX)
}

fn failure_named(text: &str) -> Option<Failure> {
    let (status, kind) = match text {
        "litellm.RateLimitError" => (429, FailureKind::RateLimit),
        "litellm.InternalServerError" => (500, FailureKind::Server),
        "litellm.ContextWindowExceededError" => (400, FailureKind::ContextWindow),
        "litellm.ContentPolicyViolationError" => (400, FailureKind::ContentPolicy),
        _ => return None,
    };
    Some(Failure { status: Some(status), ..Failure::new(kind, format!("mock_response asks for {text}")) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::providers::stream::Item;

    fn chat(stream: bool, usage: bool) -> Prompt {
        let body = json!({"model": "m", "messages": [], "stream": stream, "stream_options": {"include_usage": usage}});
        Prompt::parse(Endpoint::Chat, body.to_string().into()).unwrap()
    }

    async fn streamed(usage: bool) -> Vec<Value> {
        let Ok(Reply::Stream(mut stream)) = answer(&chat(true, usage), "hello big world", "m", 5000).await
        else {
            panic!("no stream")
        };
        let mut chunks = Vec::new();
        while let Some(item) = stream.next().await {
            let Item::Event(raw) = item else { panic!("{item:?}") };
            let data = std::str::from_utf8(&raw).unwrap().trim().strip_prefix("data: ").unwrap().to_owned();
            chunks.push(serde_json::from_str(&data).unwrap_or(Value::String(data)));
        }
        assert_eq!(
            stream.usage(),
            Some(Usage { input: chat(true, usage).input_tokens_estimate(), output: 4 })
        );
        chunks
    }

    #[tokio::test]
    async fn a_plain_answer_has_openais_shape() {
        let Ok(Reply::Plain(plain)) = answer(&chat(false, false), "hello", "m", 5000).await else {
            panic!("no plain answer")
        };
        let body: Value = serde_json::from_slice(&plain.body).unwrap();
        assert_eq!(body["choices"][0]["message"]["content"], "hello");
        assert_eq!((&body["created"], &body["usage"]["completion_tokens"]), (&json!(5), &json!(2)));
        assert!(body["id"].as_str().unwrap().starts_with("chatcmpl-"));
        assert_eq!(plain.usage.unwrap().output, 2);
    }

    #[tokio::test]
    async fn a_stream_says_the_text_and_ends() {
        let chunks = streamed(false).await;
        let text: String =
            chunks.iter().filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str()).collect();
        assert_eq!(text, "hello big world");
        assert_eq!(chunks[chunks.len() - 1], "[DONE]");
        assert_eq!(chunks[chunks.len() - 2]["choices"][0]["finish_reason"], "stop");
        let with_usage = streamed(true).await;
        assert_eq!(with_usage[with_usage.len() - 2]["usage"]["completion_tokens"], 4);
    }

    #[tokio::test]
    async fn names_of_exceptions_are_failures() {
        let table = [
            ("litellm.RateLimitError", 429),
            ("litellm.InternalServerError", 500),
            ("litellm.ContextWindowExceededError", 400),
        ];
        for (text, status) in table {
            let failure = answer(&chat(true, false), text, "m", 0).await.err().unwrap();
            assert_eq!(failure.wire_status(), status, "{text}");
        }
    }
}
