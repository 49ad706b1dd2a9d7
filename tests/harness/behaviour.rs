//! One scripted behaviour of a provider: what it answers, as a plain value, and the bytes it makes of it.
use serde_json::{Value, json};
use std::time::Duration;

/// How a scripted provider answers. The default is a 200 in the shape that was asked for.
#[derive(Debug, Clone)]
pub struct Behaviour {
    pub(crate) times: usize,
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Option<String>,
    pub(crate) delay: Duration,
    pub(crate) hang: bool,
    pub(crate) stall_after: Option<usize>,
    pub(crate) cut_after: Option<usize>,
    text: Option<String>,
    tokens: (u64, u64),
    chunks: usize,
    events: Option<Vec<String>>,
}

impl Default for Behaviour {
    fn default() -> Self {
        Self {
            times: 1,
            status: 200,
            headers: Vec::new(),
            body: None,
            delay: Duration::ZERO,
            hang: false,
            stall_after: None,
            cut_after: None,
            text: None,
            tokens: (10, 5),
            chunks: 4,
            events: None,
        }
    }
}

impl Behaviour {
    /// Answers with this text.
    #[must_use]
    pub fn text(text: &str) -> Self {
        Self { text: Some(text.to_owned()), ..Self::default() }
    }

    /// Fails with this status and an OpenAI-shaped error.
    #[must_use]
    pub fn failure(status: u16) -> Self {
        let error = json!({"message": format!("scripted {status}"), "type": "scripted_error", "param": null, "code": null});
        Self::raw(status, &json!({ "error": error }).to_string())
    }

    /// Answers with exactly this body. `$AUTHORIZATION` in it becomes the header that came with the request.
    #[must_use]
    pub fn raw(status: u16, body: &str) -> Self {
        Self { status, body: Some(body.to_owned()), ..Self::default() }
    }

    /// Streams exactly these events. `$AUTHORIZATION` in them becomes the header that came with the request.
    #[must_use]
    pub fn events(events: &[&str]) -> Self {
        Self { events: Some(events.iter().map(|event| (*event).to_owned()).collect()), ..Self::default() }
    }

    /// Accepts the request and never answers.
    #[must_use]
    pub fn hang() -> Self {
        Self { hang: true, ..Self::default() }
    }

    /// For this many requests, then the next behaviour has its turn. The last one stays.
    #[must_use]
    pub fn times(mut self, times: usize) -> Self {
        self.times = times;
        self
    }

    /// With a header of its own.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Begins to answer after this time.
    #[must_use]
    pub fn delay(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// Reports this usage: prompt and completion tokens.
    #[must_use]
    pub fn tokens(mut self, prompt: u64, completion: u64) -> Self {
        self.tokens = (prompt, completion);
        self
    }

    /// Streams this many events with content: `w0 `, `w1 `, …
    #[must_use]
    pub fn chunks(mut self, chunks: usize) -> Self {
        self.chunks = chunks;
        self
    }

    /// Falls silent after this many events of a stream.
    #[must_use]
    pub fn stall_after(mut self, events: usize) -> Self {
        self.stall_after = Some(events);
        self
    }

    /// Breaks the connection after this many events of a stream.
    #[must_use]
    pub fn cut_after(mut self, events: usize) -> Self {
        self.cut_after = Some(events);
        self
    }

    fn usage(&self) -> Value {
        let (prompt, completion) = self.tokens;
        json!({"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion})
    }

    pub(crate) fn plain_body(&self, upstream: &str, request: &Value, authorization: &str) -> String {
        if let Some(body) = &self.body {
            return body.replace("$AUTHORIZATION", authorization);
        }
        let text = self.text.clone().unwrap_or_else(|| format!("ok from {upstream}"));
        let message = json!({"role": "assistant", "content": text});
        json!({
            "id": "chatcmpl-scripted", "object": "chat.completion", "created": 1, "model": request["model"],
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": self.usage(),
        })
        .to_string()
    }

    pub(crate) fn stream_events(&self, request: &Value, authorization: &str) -> Vec<String> {
        if let Some(events) = &self.events {
            return events.iter().map(|event| event.replace("$AUTHORIZATION", authorization)).collect();
        }
        let chunk = |choices: Value| json!({"id": "chatcmpl-scripted", "object": "chat.completion.chunk", "created": 1, "model": request["model"], "choices": choices});
        let mut chunks: Vec<Value> = (0..self.chunks)
            .map(|n| {
                let text = format!("w{n} ");
                let delta = if n == 0 {
                    json!({"role": "assistant", "content": text})
                } else {
                    json!({"content": text})
                };
                chunk(json!([{"index": 0, "delta": delta, "finish_reason": null}]))
            })
            .collect();
        chunks.push(chunk(json!([{"index": 0, "delta": {}, "finish_reason": "stop"}])));
        if request["stream_options"]["include_usage"] == true {
            let mut last = chunk(json!([]));
            last["usage"] = self.usage();
            chunks.push(last);
        }
        let mut events: Vec<String> = chunks.iter().map(|chunk| format!("data: {chunk}\n\n")).collect();
        events.push("data: [DONE]\n\n".to_owned());
        events
    }
}
