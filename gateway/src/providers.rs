//! Calls to providers: codecs without I/O, the one transport that sends, and what became of the call.
pub mod failure;
mod mock;
pub mod openai;
#[cfg(test)]
mod scripted;
pub mod sse;
pub mod stream;
pub mod transport;

use crate::catalog::{Deployment, Target, Upstream};
use crate::prompt::Prompt;
use bytes::Bytes;
use http::{HeaderValue, Response, header};
use hyper::body::Incoming;
use openai::AskUsage;
use std::time::Duration;
use stream::Source;
use transport::Limit;

pub use failure::{Failure, FailureKind};
pub use stream::{Item, Stream};
pub use transport::Transport;

/// Tokens as the provider reported them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// Tokens of the prompt.
    pub input: u64,
    /// Tokens of the answer.
    pub output: u64,
}

/// How long a call may take.
#[derive(Debug, Clone, Copy)]
pub struct CallLimits {
    /// Bounds a whole plain call (`timeout`).
    pub total: Duration,
    /// Bounds a stream's wait for its first content, and the silence between two events (`stream_timeout`).
    pub silence: Duration,
}

/// What the provider answered.
#[derive(Debug)]
pub enum Reply {
    /// A whole answer.
    Plain(Plain),
    /// A stream whose first content is there.
    Stream(Box<Stream>),
}

/// A whole answer, as it came.
#[derive(Debug)]
pub struct Plain {
    /// The provider's `content-type`.
    pub content_type: HeaderValue,
    /// The body.
    pub body: Bytes,
    /// What it reports; `None` if nothing.
    pub usage: Option<Usage>,
}

/// Calls a deployment once. `model` is the provider's name of the model; `now_ms` (Unix epoch) is for dates in
/// `Retry-After`. Dropping the future, or the stream it gives, ends the call at the provider.
///
/// # Errors
/// Whatever kept the provider from answering; for a stream, until its first content.
pub async fn call(
    transport: &Transport,
    prompt: &Prompt,
    deployment: &Deployment,
    model: &str,
    limits: CallLimits,
    now_ms: u64,
) -> Result<Reply, Failure> {
    let upstream = match &deployment.target {
        Target::Mock { text, .. } => return mock::answer(prompt, text, model, now_ms).await,
        Target::Upstream(upstream) => upstream,
    };
    let limit = if prompt.stream {
        Limit::new(limits.silence, "stream_timeout")
    } else {
        Limit::new(limits.total, "timeout")
    };
    let call = Call { transport, prompt, upstream, model, limit, silence: limits.silence, now_ms };
    match call.make(AskUsage::Always).await {
        // It was our question, not the client's, that the provider did not understand.
        Err(failure) if prompt.stream && refuses_the_question(&failure, prompt) => {
            call.make(AskUsage::AsTheClientDid).await
        }
        outcome => outcome,
    }
}

struct Call<'a> {
    transport: &'a Transport,
    prompt: &'a Prompt,
    upstream: &'a Upstream,
    model: &'a str,
    limit: Limit,
    silence: Duration,
    now_ms: u64,
}

impl Call<'_> {
    async fn make(&self, ask: AskUsage) -> Result<Reply, Failure> {
        let body = openai::encode_asking(self.prompt, self.upstream, self.model, ask);
        let response = self
            .transport
            .send(openai::request(self.upstream, self.prompt.endpoint, body)?, self.limit)
            .await?;
        if !response.status().is_success() {
            return Err(self.refused(response).await);
        }
        if response.headers().get(header::CONTENT_ENCODING).is_some_and(|encoding| encoding != "identity") {
            return Err(malformed("the provider compressed its answer though asked not to"));
        }
        let content_type = response.headers().get(header::CONTENT_TYPE).cloned();
        let is_json =
            content_type.as_ref().is_some_and(|content_type| content_type.as_bytes().starts_with(JSON));
        let key = self.upstream.key.as_ref();
        if self.prompt.stream && !is_json {
            let source = Source::Wire(response.into_body());
            let opening =
                Stream::open(source, self.limit, self.silence, self.prompt.wants_usage, key.cloned());
            return opening.await.map(|stream| Reply::Stream(Box::new(stream)));
        }
        let body = self.transport.read(response.into_body(), self.limit).await?;
        let usage = openai::decode(&body, key)?;
        if self.prompt.stream {
            return Err(malformed("the provider did not stream its answer"));
        }
        let content_type = content_type.unwrap_or(HeaderValue::from_static("application/json"));
        Ok(Reply::Plain(Plain { content_type, body, usage }))
    }

    /// The failure that a reply with an error status is. The status counts even if the body cannot be read.
    async fn refused(&self, response: Response<Incoming>) -> Failure {
        let (head, body) = response.into_parts();
        let soon = self.limit.sooner(REFUSAL_READ_TIMEOUT);
        let body = self.transport.read(body, soon).await.unwrap_or_default();
        failure::from_reply(
            head.status.as_u16(),
            &head.headers,
            &body,
            self.upstream.key.as_ref(),
            self.now_ms,
        )
    }
}

/// How long the text of a refusal is awaited: the caller may still be served by another deployment.
const REFUSAL_READ_TIMEOUT: Duration = Duration::from_secs(2);

const JSON: &[u8] = b"application/json";

fn refuses_the_question(failure: &Failure, prompt: &Prompt) -> bool {
    let about = |text: &str| text.contains("stream_options") || text.contains("include_usage");
    matches!(failure.kind, FailureKind::BadRequest | FailureKind::Unprocessable)
        && prompt.field("stream_options").is_none()
        && (about(&failure.message) || failure.param.as_deref().is_some_and(about))
}

fn malformed(text: &str) -> Failure {
    Failure::new(FailureKind::Malformed, text)
}

#[cfg(test)]
mod tests;
