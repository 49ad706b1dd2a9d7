//! The beat by which a replica says that it lives, and learns that Redis takes writes, its time and its epoch.
use super::super::keys::Keys;
use super::super::scripts::Scripts;
use crate::clock::Clock;
use redis::{Cmd, RedisResult};
use std::sync::Arc;

/// Replicas that have not beaten for so long count as gone.
pub(in crate::redis) const SILENT_MAX_MS: u64 = 5_000;
/// The set of replicas outlives all of them by so much.
const REPLICAS_TTL_MS: u64 = 60_000;
/// The epoch outlives every counter (60 s) that was written after the last beat.
const EPOCH_TTL_MS: u64 = 120_000;

/// How Redis answered a beat of the heart: it takes writes.
#[derive(Debug)]
pub(in crate::redis) struct Beat {
    /// Replicas alive, this one included.
    pub(in crate::redis) alive: Vec<String>,
    /// From this replica's clock to the server's, in milliseconds.
    pub(in crate::redis) offset_ms: i64,
    /// How wrong the offset may be: the server read its clock at an unknown moment of the call.
    pub(in crate::redis) error_ms: u64,
    /// The part of the ledger and its epoch: another one than before means that this part lost its memory. A single
    /// server is one part without a name.
    pub(in crate::redis) epochs: Vec<(String, String)>,
}

/// Who beats, where, and by which clock.
pub(in crate::redis) struct Heart {
    pub(in crate::redis) keys: Keys,
    pub(in crate::redis) replica: String,
    pub(in crate::redis) clock: Arc<dyn Clock>,
}

/// Says to the part of this name that the replica lives.
pub(super) async fn beat(
    line: &mut impl redis::aio::ConnectionLike,
    scripts: &Scripts,
    heart: &Heart,
    part: &str,
) -> RedisResult<Beat> {
    let before_ms = heart.clock.unix_ms();
    let fill = |call: &mut Cmd| {
        call.arg(heart.keys.replicas(part)).arg(heart.keys.epoch(part));
        call.arg(&heart.replica).arg(SILENT_MAX_MS).arg(REPLICAS_TTL_MS).arg(EPOCH_TTL_MS);
    };
    let (alive, seconds, micros, epoch): (Vec<String>, u64, u64, String) =
        scripts.heartbeat.call(line, 2, fill).await?;
    let half_ms = heart.clock.unix_ms().saturating_sub(before_ms) / 2;
    let server_ms = seconds * 1_000 + micros / 1_000;
    let offset_ms =
        i64::try_from(server_ms).unwrap_or(i64::MAX) - i64::try_from(before_ms + half_ms).unwrap_or(i64::MAX);
    Ok(Beat { alive, offset_ms, error_ms: half_ms + 1, epochs: vec![(part.to_owned(), epoch)] })
}
