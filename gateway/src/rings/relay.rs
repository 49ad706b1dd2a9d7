//! A running stream on its way to the client. Its lease travels with it, so that the reservation is settled when
//! the bytes end, whatever way they end.
use super::aftermath::Aftermath;
use super::attempt::tokens_of;
use super::lease::Lease;
use super::measured::Answered;
use crate::providers::{Item, Stream};
use bytes::Bytes;
use futures_util::stream::{self, Stream as Events};
use serde_json::json;
use std::convert::Infallible;
use std::time::Duration;
use tokio::time::Instant;

/// The provider's stream, past its first content.
pub struct Relay {
    stream: Box<Stream>,
    lease: Option<Lease>,
    aftermath: Aftermath,
    began: Began,
}

/// How a stream began.
#[derive(Debug, Clone, Copy)]
pub struct Began {
    /// When it was asked for.
    pub started: Instant,
    /// From then until its first content.
    pub first_content: Duration,
    /// Its input's tokens as they were estimated.
    pub estimated: u64,
    /// The same, corrected by what the deployment reported of others.
    pub input: u64,
}

impl Relay {
    /// Takes charge of an open stream and its reservation.
    #[must_use]
    pub fn new(stream: Box<Stream>, lease: Lease, aftermath: Aftermath, began: Began) -> Self {
        Self { stream, lease: Some(lease), aftermath, began }
    }

    /// The events for the client. A stream that breaks ends with one error event and no `[DONE]`.
    pub fn into_events(self) -> impl Events<Item = Result<Bytes, Infallible>> + Send {
        stream::unfold(Some(self), |relay| async move {
            let (bytes, rest) = relay?.step().await?;
            Some((Ok(bytes), rest))
        })
    }

    async fn step(mut self) -> Option<(Bytes, Option<Self>)> {
        match self.stream.next().await {
            Some(Item::Event(bytes)) => {
                let tokens = self.tokens();
                // Clients close on [DONE], so a complete answer is settled with its last event.
                if self.stream.is_complete() {
                    self.succeed();
                } else if let Some(lease) = &mut self.lease {
                    lease.sent(tokens); // if the client leaves now, this much was used
                }
                Some((bytes, Some(self)))
            }
            Some(Item::Broken(failure)) => {
                if let Some(lease) = self.lease.take() {
                    self.aftermath.of_broken(&failure, self.tokens(), lease).await;
                }
                let error = json!({"error": {
                    "message": failure.wire_message(), "type": failure.wire_type(),
                    "param": null, "code": failure.wire_code(),
                }});
                Some((Bytes::from(format!("data: {error}\n\n")), None))
            }
            None => {
                self.succeed();
                None
            }
        }
    }

    fn succeed(&mut self) {
        if let Some(mut lease) = self.lease.take() {
            let answered = Answered {
                took: self.began.started.elapsed(),
                first_content: Some(self.began.first_content),
                estimated: self.began.estimated,
                usage: self.stream.usage(),
                text_bytes: self.stream.text_bytes(),
            };
            lease.tells(answered.sample());
            self.aftermath.success(self.tokens(), lease);
        }
    }

    /// As reported so far, else the input's estimate and the text seen.
    fn tokens(&self) -> u64 {
        tokens_of(self.stream.usage(), self.began.input, self.stream.text_bytes())
    }
}
