//! The one file that sends. It knows HTTP and time limits, and nothing of what the bytes mean.
mod connection;

use super::failure::{Failure, FailureKind};
use bytes::{Bytes, BytesMut};
use connection::{Connector, LogOf};
use http::{Request, Response, Uri};
use http_body::Body;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::client::legacy::{Client, Error};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use ledger::{Clock, SystemClock};
use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// The largest answer that is read whole.
pub const ANSWER_BYTES_MAX: usize = 64 << 20;

/// Until when something must have happened, and which setting says so.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limit {
    deadline: Instant,
    after: Duration,
    setting: &'static str,
}

impl Limit {
    /// `after` from now, as `setting` of the config says.
    pub(crate) fn new(after: Duration, setting: &'static str) -> Self {
        let now = SystemClock.instant();
        let far = Duration::from_secs(365 * 24 * 3600);
        Self { deadline: now.checked_add(after).unwrap_or(now + far), after, setting }
    }

    /// When it ends.
    pub(crate) fn deadline(&self) -> Instant {
        self.deadline
    }

    /// This limit, or `after` from now if that is sooner.
    pub(crate) fn sooner(self, after: Duration) -> Self {
        let other = Self::new(after, self.setting);
        if other.deadline < self.deadline { other } else { self }
    }

    /// The failure of a provider that did not send `what` in time.
    pub(crate) fn exceeded(&self, what: &str) -> Failure {
        Failure::new(
            FailureKind::Timeout,
            format!("timeout: the provider sent no {what} within {:?} ({})", self.after, self.setting),
        )
    }

    /// Bounds a future.
    async fn hold<T>(
        &self,
        what: &str,
        future: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        tokio::time::timeout_at(self.deadline, future).await.unwrap_or_else(|_| Err(self.exceeded(what)))
    }
}

/// The HTTP client for all providers, with its pool of connections.
#[derive(Debug, Clone)]
pub struct Transport {
    pooled: Client<Connector, Full<Bytes>>,
    /// Each request has a connection of its own.
    unpooled: Client<Connector, Full<Bytes>>,
    failing: Arc<Failing>,
}

/// The addresses whose last answer was a failure. They come from the config, so they are few.
#[derive(Debug, Default)]
struct Failing {
    /// Read first: in good times no request takes the lock.
    count: AtomicUsize,
    addresses: Mutex<HashSet<String>>,
}

impl Failing {
    fn note(&self, address: &Uri, failed: bool) {
        if !failed && self.count.load(Ordering::Relaxed) == 0 {
            return;
        }
        let mut addresses = self.addresses.lock().unwrap_or_else(PoisonError::into_inner);
        if failed {
            addresses.insert(address.to_string());
        } else {
            addresses.remove(&address.to_string());
        }
        self.count.store(addresses.len(), Ordering::Relaxed);
    }

    fn has(&self, address: &Uri) -> bool {
        self.addresses.lock().unwrap_or_else(PoisonError::into_inner).contains(&address.to_string())
    }
}

impl Default for Transport {
    fn default() -> Self {
        Self::new()
    }
}

impl Transport {
    /// Loads the system's root certificates. Without any, `http` works and `https` calls fail with that reason.
    #[must_use]
    pub fn new() -> Self {
        let connector = Connector::new(CONNECT_TIMEOUT);
        let mut builder = Client::builder(TokioExecutor::new());
        builder.pool_timer(TokioTimer::new()).pool_idle_timeout(IDLE_TIMEOUT);
        let pooled = builder.build(connector.clone());
        let unpooled = builder.pool_max_idle_per_host(0).build(connector);
        Self { pooled, unpooled, failing: Arc::default() }
    }

    /// Sends, and awaits the head of the answer. Dropping the future, or the body it gives, ends the call and its
    /// connection.
    ///
    /// A provider may close an idle connection at the moment it is used again. Such a request, and only such, is
    /// sent once more: nothing was received in answer to it. A provider that closes on purpose looks the same, so
    /// one whose last answer was a failure gets no second request from here; the rings decide.
    pub(crate) async fn send(
        &self,
        request: Request<Full<Bytes>>,
        limit: Limit,
    ) -> Result<Response<Incoming>, Failure> {
        limit.hold("answer", self.send_unlimited(request)).await
    }

    async fn send_unlimited(&self, request: Request<Full<Bytes>>) -> Result<Response<Incoming>, Failure> {
        let address = request.uri().clone();
        let mut outcome = self.pooled.request(request.clone()).await;
        if outcome.as_ref().is_err_and(was_closed_while_idle) && !self.failing.has(&address) {
            outcome = self.unpooled.request(request).await;
        }
        let failed = match &outcome {
            Ok(response) if response.status().is_success() => false,
            Ok(response) => FailureKind::of_status(response.status().as_u16()).counts_against_deployment(),
            Err(_) => true,
        };
        self.failing.note(&address, failed);
        outcome.map_err(|error| failure(&error))
    }

    /// Reads a body whole.
    pub(crate) async fn read(&self, body: Incoming, limit: Limit) -> Result<Bytes, Failure> {
        limit.hold("complete answer", collect(body, ANSWER_BYTES_MAX)).await
    }
}

async fn collect<B>(mut body: B, bytes_max: usize) -> Result<Bytes, Failure>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: std::error::Error + 'static,
{
    let too_large = || {
        Failure::new(
            FailureKind::Malformed,
            format!("the provider's answer is larger than {bytes_max} bytes"),
        )
    };
    let announced = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    if announced > bytes_max {
        return Err(too_large());
    }
    let (mut first, mut rest) = (Bytes::new(), BytesMut::new());
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(|error| broken(&error))?.into_data() else { continue };
        if first.len() + rest.len() + data.len() > bytes_max {
            return Err(too_large());
        }
        // Most answers are one frame: no copy.
        if rest.is_empty() && first.is_empty() {
            first = data;
            continue;
        }
        if rest.is_empty() {
            rest.reserve(announced.max(first.len() + data.len()));
            rest.extend_from_slice(&first);
            first = Bytes::new();
        }
        rest.extend_from_slice(&data);
    }
    Ok(if rest.is_empty() { first } else { rest.freeze() })
}

fn was_closed_while_idle(error: &Error) -> bool {
    let mut extensions = http::Extensions::new();
    if let Some(connected) = error.connect_info() {
        connected.get_extras(&mut extensions);
    }
    extensions.get::<LogOf>().is_some_and(LogOf::was_closed_while_idle)
}

fn failure(error: &Error) -> Failure {
    if error.is_connect() {
        return Failure::unsent(format!("could not connect to the provider: {}", root_cause(error)));
    }
    broken(error)
}

/// The connection ended before the answer did.
pub(crate) fn broken(error: &(dyn std::error::Error + 'static)) -> Failure {
    Failure::new(FailureKind::Broken, format!("the connection to the provider broke: {}", root_cause(error)))
}

fn root_cause(error: &(dyn std::error::Error + 'static)) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests;
