//! The connections: two multiplexed ones, and one of its own for each check of health. Sets what the client
//! library leaves off: Nagle off, few retries, short time-outs.
use super::scripts::Scripts;
use crate::clock::Clock;
use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use redis::io::tcp::TcpSettings;
use redis::{AsyncConnectionConfig, Client, Cmd, IntoConnectionInfo, RedisError, RedisResult};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// A dead peer (no FIN, no RST) is given up after so long.
const PEER_SILENT_MAX: Duration = Duration::from_secs(3);
/// Calls that may queue before the socket; the library's 50 would make reservations wait for each other.
const QUEUE_MAX: usize = 1024;
const RETRY_MIN: Duration = Duration::from_millis(20);
const RETRY_MAX: Duration = Duration::from_millis(500);

/// The two lines to Redis. A big read must never stand in front of a reservation, so they are apart.
#[derive(Clone)]
pub(super) struct Lines {
    /// Reservations only.
    pub(super) reserve: ConnectionManager,
    /// Views, flushes, heartbeat.
    pub(super) rest: ConnectionManager,
}

/// How Redis answered a beat of the heart: it takes writes.
#[derive(Debug)]
pub(super) struct Beat {
    /// Replicas alive, this one included.
    pub(super) alive: Vec<String>,
    /// From this replica's clock to the server's, in milliseconds.
    pub(super) offset_ms: i64,
    /// How wrong the offset may be: the server read its clock at an unknown moment of the call.
    pub(super) error_ms: u64,
    /// Another one than before: the server has lost its memory.
    pub(super) epoch: String,
}

/// Who beats, where, and by which clock.
pub(super) struct Heart {
    pub(super) replicas_key: String,
    pub(super) epoch_key: String,
    pub(super) replica: String,
    pub(super) clock: Arc<dyn Clock>,
}

/// Replicas that have not beaten for so long count as gone.
pub(super) const SILENT_MAX_MS: u64 = 5_000;
/// The set of replicas outlives all of them by so much.
const REPLICAS_TTL_MS: u64 = 60_000;
/// The epoch outlives every counter (60 s) that was written after the last beat.
const EPOCH_TTL_MS: u64 = 120_000;

/// Opens nothing yet; fails only where the address can never work.
pub(super) fn client(url: &str) -> RedisResult<Client> {
    let tcp = TcpSettings::default().set_nodelay(true);
    #[cfg(target_os = "linux")]
    let tcp = tcp.set_user_timeout(PEER_SILENT_MAX);
    Client::open(url.into_connection_info()?.set_tcp_settings(tcp))
}

/// Opens both lines and gives the server the scripts.
pub(super) async fn lines(client: &Client, scripts: &Scripts, deadline: Duration) -> RedisResult<Lines> {
    let config = ConnectionManagerConfig::new()
        .set_number_of_retries(1)
        .set_min_delay(RETRY_MIN)
        .set_max_delay(RETRY_MAX)
        .set_connection_timeout(Some(deadline * 2))
        .set_response_timeout(Some(deadline))
        .set_pipeline_buffer_size(QUEUE_MAX);
    let reserve = ConnectionManager::new_with_config(client.clone(), config.clone()).await?;
    let mut rest = ConnectionManager::new_with_config(client.clone(), config).await?;
    within(deadline, scripts.load(&mut rest)).await?;
    Ok(Lines { reserve, rest })
}

/// Asks over a connection of its own whether Redis answers and takes writes. The name is resolved anew, and
/// nothing that is stuck on another connection can stand before the question.
pub(super) async fn check(
    client: &Client,
    scripts: &Scripts,
    heart: &Heart,
    deadline: Duration,
) -> RedisResult<Beat> {
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(deadline * 2))
        .set_response_timeout(Some(deadline));
    let mut line = client.get_multiplexed_async_connection_with_config(&config).await?;
    within(deadline, redis::cmd("PING").exec_async(&mut line)).await?;
    within(deadline, beat(&mut line, scripts, heart)).await
}

/// Says that this replica lives.
pub(super) async fn beat(
    line: &mut impl redis::aio::ConnectionLike,
    scripts: &Scripts,
    heart: &Heart,
) -> RedisResult<Beat> {
    let before_ms = heart.clock.unix_ms();
    let fill = |call: &mut Cmd| {
        call.arg(&heart.replicas_key).arg(&heart.epoch_key);
        call.arg(&heart.replica).arg(SILENT_MAX_MS).arg(REPLICAS_TTL_MS).arg(EPOCH_TTL_MS);
    };
    let (alive, seconds, micros, epoch): (Vec<String>, u64, u64, String) =
        scripts.heartbeat.call(line, 2, fill).await?;
    let half_ms = heart.clock.unix_ms().saturating_sub(before_ms) / 2;
    let server_ms = seconds * 1_000 + micros / 1_000;
    let offset_ms =
        i64::try_from(server_ms).unwrap_or(i64::MAX) - i64::try_from(before_ms + half_ms).unwrap_or(i64::MAX);
    Ok(Beat { alive, offset_ms, error_ms: half_ms + 1, epoch })
}

/// The deadline of a call; its miss is an error like a broken connection.
pub(super) async fn within<T>(
    deadline: Duration,
    call: impl Future<Output = RedisResult<T>>,
) -> RedisResult<T> {
    timeout(deadline, call).await.unwrap_or_else(|_| Err(missed()))
}

/// The error of a call whose deadline passed. Whether it ran is unknown.
pub(super) fn missed() -> RedisError {
    RedisError::from(std::io::Error::from(std::io::ErrorKind::TimedOut))
}
