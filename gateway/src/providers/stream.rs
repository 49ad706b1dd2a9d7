//! A provider's stream on its way to the client: opened once its first content is there, then passed on event by
//! event, and ended by a closing line or by exactly one failure.
use super::Usage;
use super::failure::{self, Failure, FailureKind};
use super::openai::chunk::{self, Chunk, Meaning};
use super::sse::{Event, Scanner};
use super::transport::{Limit, broken};
use crate::secret::Secret;
use bytes::Bytes;
use http_body::Body;
use hyper::body::Incoming;
use ledger::{Clock, SystemClock};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep_until};

const DONE: Bytes = Bytes::from_static(b"data: [DONE]\n\n");

/// How long the end of the body is awaited after `[DONE]`, so that the connection can be used again.
const DRAIN: Duration = Duration::from_millis(100);

/// The most bytes held back while the first content is awaited.
const HELD_BYTES_MAX: usize = 4 << 20;

/// What a stream gives.
#[derive(Debug, PartialEq, Eq)]
pub enum Item {
    /// A complete event for the client.
    Event(Bytes),
    /// The answer broke off; nothing follows. Comes at most once.
    Broken(Failure),
}

/// An answer that is coming in. Dropping it ends the call at the provider.
#[derive(Debug)]
pub struct Stream {
    source: Source,
    scanner: Scanner,
    ready: VecDeque<Item>,
    held_bytes: usize,
    state: State,
    silence: Duration,
    deadline: Instant,
    alarm: Pin<Box<Sleep>>,
    seen: Seen,
    wants_usage: bool,
    /// The last event that reported usage, for a client that wants the usage chunk: passed on as it is, or to be
    /// made into one.
    usage_event: Option<(Event, AsIs)>,
    key: Option<Secret>,
}

type AsIs = bool;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Nothing of the answer has come.
    Opening,
    Flowing,
    /// The answer is complete, the end of the body has not come.
    Draining,
    Over,
}

/// What the events so far add up to.
#[derive(Debug, Default)]
struct Seen {
    usage: Option<Usage>,
    text_bytes: u64,
    choices: u64,
    finished: u64,
}

impl Seen {
    /// Every choice that began has its finish_reason.
    fn is_whole(&self) -> bool {
        self.finished != 0 && self.choices & !self.finished == 0
    }
}

/// Where the bytes come from.
#[derive(Debug)]
pub(crate) enum Source {
    /// A provider.
    Wire(Incoming),
    /// This process.
    Memory(VecDeque<Bytes>),
}

impl Source {
    fn poll_data(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, Failure>>> {
        match self {
            Self::Memory(pieces) => Poll::Ready(pieces.pop_front().map(Ok)),
            Self::Wire(body) => loop {
                match ready!(Pin::new(&mut *body).poll_frame(context)) {
                    None => return Poll::Ready(None),
                    Some(Err(error)) => return Poll::Ready(Some(Err(broken(&error)))),
                    Some(Ok(frame)) => {
                        if let Ok(data) = frame.into_data() {
                            return Poll::Ready(Some(Ok(data)));
                        }
                    }
                }
            },
        }
    }
}

impl Stream {
    /// Awaits the first content, or a legitimate end without any. Until then every failure is an error here: an
    /// error event, an end without an answer, no content before the limit. `silence` bounds what follows.
    pub(crate) async fn open(
        source: Source,
        limit: Limit,
        silence: Duration,
        wants_usage: bool,
        key: Option<Secret>,
    ) -> Result<Self, Failure> {
        let mut stream = Self {
            source,
            scanner: Scanner::default(),
            ready: VecDeque::new(),
            held_bytes: 0,
            state: State::Opening,
            silence,
            deadline: limit.deadline(),
            alarm: Box::pin(sleep_until(limit.deadline())),
            seen: Seen::default(),
            wants_usage,
            usage_event: None,
            key,
        };
        poll_fn(|context| {
            while stream.state == State::Opening {
                match stream.poll_step(context) {
                    Poll::Pending if stream.poll_silence(context) => {
                        return Poll::Ready(Err(limit.exceeded("content")));
                    }
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(step) => step?,
                }
                if stream.held_bytes > HELD_BYTES_MAX {
                    return Poll::Ready(Err(malformed("the provider sends events without content")));
                }
            }
            Poll::Ready(Ok(()))
        })
        .await?;
        Ok(stream)
    }

    /// The next item; `None` when the answer is complete, or after it broke.
    pub async fn next(&mut self) -> Option<Item> {
        poll_fn(|context| self.poll_next(context)).await
    }

    /// As `next`, for use in a body.
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Item>> {
        loop {
            if let Some(item) = self.ready.pop_front() {
                return Poll::Ready(Some(item));
            }
            match self.state {
                State::Over => return Poll::Ready(None),
                State::Draining => {
                    ready!(self.poll_drained(context));
                    self.end();
                }
                State::Opening | State::Flowing => {
                    let step = match self.poll_step(context) {
                        Poll::Pending if self.poll_silence(context) => Err(self.silent()),
                        Poll::Pending => return Poll::Pending,
                        Poll::Ready(step) => step,
                    };
                    if let Err(failure) = step {
                        self.ready.push_back(Item::Broken(failure));
                        self.end();
                    }
                }
            }
        }
    }

    /// The answer is complete and all of it was handed out; only the end of the body may be missing.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        matches!(self.state, State::Draining | State::Over) && self.ready.is_empty()
    }

    /// The usage that the provider reported last.
    #[must_use]
    pub fn usage(&self) -> Option<Usage> {
        self.seen.usage
    }

    /// Bytes of answer text so far, for an estimate where no usage was reported.
    #[must_use]
    pub fn text_bytes(&self) -> u64 {
        self.seen.text_bytes
    }

    /// Takes in one event, or more bytes, or the end.
    fn poll_step(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        match self.scanner.next_event() {
            Err(_) => return Poll::Ready(Err(malformed("the provider sent an event that is too large"))),
            Ok(Some(event)) => return Poll::Ready(self.take(event)),
            Ok(None) => {}
        }
        Poll::Ready(match ready!(self.source.poll_data(context)) {
            Some(Ok(bytes)) => {
                self.scanner.feed(bytes);
                Ok(())
            }
            Some(Err(failure)) => self.cut(failure),
            None => {
                let how = if self.state == State::Opening { "without an answer" } else { "in the middle" };
                self.cut(Failure::new(FailureKind::Broken, format!("the provider's stream ended {how}")))
            }
        })
    }

    fn take(&mut self, event: Event) -> Result<(), Failure> {
        let meaning = chunk::read(&event);
        if meaning != Meaning::Silent && self.state == State::Flowing {
            self.deadline = SystemClock.instant() + self.silence;
        }
        match meaning {
            // A keep-alive is of use to a client that waits, not to one that has been given nothing yet.
            Meaning::Silent if self.state == State::Opening => {}
            Meaning::Silent => self.pass(event.raw),
            // One garbled event is lost; what follows may still be an answer.
            Meaning::Garbled => {}
            Meaning::Error => {
                return Err(failure::from_error_event(&event.data().unwrap_or_default(), self.key.as_ref()));
            }
            Meaning::Done => {
                self.complete(event.raw)?;
                self.state = State::Draining;
                self.deadline = SystemClock.instant() + DRAIN;
            }
            Meaning::Chunk(chunk) => self.take_chunk(event, &chunk)?,
        }
        Ok(())
    }

    fn take_chunk(&mut self, event: Event, chunk: &Chunk) -> Result<(), Failure> {
        self.seen.usage = chunk.usage.or(self.seen.usage);
        self.seen.text_bytes += chunk.text_bytes;
        self.seen.choices |= chunk.choices;
        self.seen.finished |= chunk.finished;
        if self.wants_usage && chunk.usage.is_some() {
            self.usage_event = Some((event.clone(), chunk.usage_only && chunk.choices_empty));
        }
        // The client gets one usage chunk at the end, or none if it did not ask.
        if chunk.usage_only {
            return Ok(());
        }
        if self.state == State::Opening {
            if chunk.filtered && !chunk.content {
                return Err(Failure::new(
                    FailureKind::ContentPolicy,
                    "the provider's content filter withheld the answer",
                ));
            }
            if chunk.content || chunk.finished != 0 {
                self.state = State::Flowing;
                self.deadline = SystemClock.instant() + self.silence;
            }
        }
        self.pass(event.raw);
        Ok(())
    }

    /// The body has ended without `[DONE]`: an answer all the same if it is whole.
    fn cut(&mut self, failure: Failure) -> Result<(), Failure> {
        if let Some(rest) = self.scanner.finish()
            && matches!(chunk::read(&rest), Meaning::Done | Meaning::Error | Meaning::Chunk(_))
        {
            self.take(rest)?;
        }
        match self.state {
            State::Draining | State::Over => {}
            State::Opening | State::Flowing if self.seen.is_whole() => self.complete(DONE)?,
            State::Opening | State::Flowing => return Err(failure),
        }
        self.end();
        Ok(())
    }

    /// Closes the answer for the client.
    fn complete(&mut self, closing: Bytes) -> Result<(), Failure> {
        if self.state == State::Opening {
            return Err(malformed("the provider's stream ended without an answer"));
        }
        let usage_event = match self.usage_event.take() {
            Some((event, true)) => Some(event.raw),
            Some((event, false)) => chunk::usage_event(&event),
            None => None,
        };
        self.ready.extend(usage_event.into_iter().chain([closing]).map(Item::Event));
        Ok(())
    }

    fn pass(&mut self, raw: Bytes) {
        self.held_bytes += if self.state == State::Opening { raw.len() } else { 0 };
        self.ready.push_back(Item::Event(raw));
    }

    fn end(&mut self) {
        self.state = State::Over;
        self.source = Source::Memory(VecDeque::new());
    }

    fn poll_drained(&mut self, context: &mut Context<'_>) -> Poll<()> {
        loop {
            match self.source.poll_data(context) {
                Poll::Ready(Some(Ok(_))) if SystemClock.instant() < self.deadline => {}
                Poll::Ready(_) => return Poll::Ready(()),
                Poll::Pending if self.poll_silence(context) => return Poll::Ready(()),
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    /// Whether the deadline has passed; if not, the task is woken when it does. The alarm is moved only when it
    /// rings, so that an event costs no timer.
    fn poll_silence(&mut self, context: &mut Context<'_>) -> bool {
        loop {
            if self.alarm.deadline() > self.deadline {
                self.alarm.as_mut().reset(self.deadline);
            }
            match self.alarm.as_mut().poll(context) {
                Poll::Pending => return false,
                Poll::Ready(()) if SystemClock.instant() >= self.deadline => return true,
                Poll::Ready(()) => self.alarm.as_mut().reset(self.deadline),
            }
        }
    }

    fn silent(&self) -> Failure {
        let text = format!("timeout: the provider sent no event for {:?} (stream_timeout)", self.silence);
        Failure::new(FailureKind::Timeout, text)
    }
}

fn malformed(text: &str) -> Failure {
    Failure::new(FailureKind::Malformed, text)
}

#[cfg(test)]
mod tests;
