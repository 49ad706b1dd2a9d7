//! Whether Redis is there. While it is not, nothing waits for it, and one task asks twice a second whether it
//! is back. A slow moment is no outage: before the breaker opens, a check on a connection of its own must fail.
use super::connect::{self, Beat, SILENT_MAX_MS, missed, within};
use super::reason::reason;
use super::tally::Counts;
use super::{Shared, flush, in_flight};
use crate::ledger::OnOutage;
use redis::{ErrorKind, RedisError, RedisResult};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep_until};

const PERIOD: Duration = Duration::from_millis(500);
/// So many misses in a row on a server that answers otherwise mean that the line itself is dead.
const MISSES_MAX: u32 = 3;
/// Whoever lives has beaten again within so long, many times over.
const SILENT_MAX: Duration = Duration::from_millis(SILENT_MAX_MS);

/// What this replica believes of Redis.
#[derive(Debug)]
pub(super) struct Breaker {
    away: watch::Sender<bool>,
    in_doubt: AtomicBool,
    doubts: Notify,
    misses: [AtomicU32; 2],
    replicas: AtomicU64,
    epoch: Mutex<Epoch>,
    /// Why it is away, in words.
    why: Mutex<Option<String>>,
    pub(super) counts: Counts,
}

/// The memory that the server was last seen to have.
#[derive(Debug, Default)]
struct Epoch {
    name: Option<String>,
    /// When it was first seen, if it replaced another one.
    began: Option<Instant>,
}

/// The line that a call took. Each is judged by itself: one may be dead while the other is well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Line {
    Reserve,
    Rest,
}

impl Breaker {
    /// Open: nothing is there before the first connection.
    pub(super) fn new() -> Self {
        Self {
            away: watch::Sender::new(true),
            in_doubt: AtomicBool::new(false),
            doubts: Notify::new(),
            misses: [AtomicU32::new(0), AtomicU32::new(0)],
            replicas: AtomicU64::new(1),
            epoch: Mutex::default(),
            why: Mutex::new(None),
            counts: Counts::default(),
        }
    }

    pub(super) fn is_away(&self) -> bool {
        *self.away.borrow()
    }

    /// A call failed and the verdict on Redis is not out yet.
    pub(super) fn in_doubt(&self) -> bool {
        self.in_doubt.load(Ordering::Relaxed)
    }

    /// Replicas alive when Redis last told, this one included.
    pub(super) fn replicas(&self) -> u64 {
        self.replicas.load(Ordering::Relaxed).max(1)
    }

    /// Returns when Redis is away.
    pub(super) async fn until_away(&self) {
        // An error would mean that the breaker is gone, and it is borrowed.
        let _ = self.away.subscribe().wait_for(|&away| away).await;
    }

    /// Returns when Redis is there.
    pub(super) async fn until_there(&self) {
        let _ = self.away.subscribe().wait_for(|&away| !away).await;
    }

    /// Why Redis is away; `None` while it is there, and until the first try has failed.
    pub(super) fn why(&self) -> Option<String> {
        self.why.lock().unwrap_or_else(PoisonError::into_inner).clone().filter(|_| self.is_away())
    }

    fn set_why(&self, error: &RedisError) {
        *self.why.lock().unwrap_or_else(PoisonError::into_inner) = Some(reason(error));
    }

    /// A call was answered.
    pub(super) fn answered(&self, line: Line) {
        let misses = self.misses(line);
        if misses.load(Ordering::Relaxed) != 0 {
            misses.store(0, Ordering::Relaxed);
        }
    }

    /// A call failed in this way: has Redis checked, if that says anything of Redis.
    pub(super) fn doubt(&self, line: Line, error: &RedisError) {
        if error.is_timeout() {
            self.counts.missed.up();
        }
        match error.kind() {
            ErrorKind::Io => {
                self.misses(line).fetch_add(1, Ordering::Relaxed);
            }
            _ if error.is_unrecoverable_error() => {}
            _ if error.code().is_some_and(refuses_everything) => {}
            // One key of a wrong type, say: no reason to give up on the server.
            _ => {
                tracing::debug!(%error, "the shared ledger could not serve one call");
                return;
            }
        }
        self.in_doubt.store(true, Ordering::Relaxed);
        self.doubts.notify_one();
    }

    /// A call's deadline passed.
    pub(super) fn missed(&self, line: Line) {
        self.doubt(line, &missed());
    }

    /// The line's last call was not answered.
    pub(super) fn has_missed(&self, line: Line) -> bool {
        self.misses(line).load(Ordering::Relaxed) > 0
    }

    fn misses(&self, line: Line) -> &AtomicU32 {
        let [reserve, rest] = &self.misses;
        match line {
            Line::Reserve => reserve,
            Line::Rest => rest,
        }
    }

    fn forgive(&self) {
        self.answered(Line::Reserve);
        self.answered(Line::Rest);
    }

    fn has_dead_line(&self) -> bool {
        self.misses.iter().any(|misses| misses.load(Ordering::Relaxed) >= MISSES_MAX)
    }

    /// Takes over what a beat was told; true if the epoch replaces another one.
    fn learn(&self, replicas: u64, epoch: String, now: Instant) -> bool {
        let mut known = self.epoch.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = known.name.as_ref().is_some_and(|name| *name != epoch);
        if is_new {
            known.began = Some(now);
        }
        known.name = Some(epoch);
        // A server that lost its memory has forgotten the others too, until they have beaten again. Who took
        // itself to be alone meanwhile would take the whole limit for its share.
        let forgot = known.began.is_some_and(|began| now.saturating_duration_since(began) < SILENT_MAX);
        let replicas = if forgot { replicas.max(self.replicas()) } else { replicas };
        self.replicas.store(replicas, Ordering::Relaxed);
        is_new
    }
}

/// Answers of a server that is up and yet of no use: a replica, one that is starting, full, or locked.
pub(super) fn refuses_everything(code: &str) -> bool {
    matches!(
        code,
        "READONLY"
            | "LOADING"
            | "MASTERDOWN"
            | "CLUSTERDOWN"
            | "MISCONF"
            | "OOM"
            | "NOAUTH"
            | "NOPERM"
            | "BUSY"
    )
}

/// Keeps the breaker. Ends when its ledger is dropped.
pub(super) async fn guard(shared: Arc<Shared>) {
    let mut told = false;
    loop {
        // From now, not from the last plan: doubts wake this early, and must not push the next beat away.
        let next = shared.clock.instant() + PERIOD;
        if shared.breaker.is_away() {
            match come_back(&shared).await {
                Ok(()) => {
                    told = false;
                    let (redis, replicas) = (&shared.address, shared.breaker.replicas());
                    tracing::info!(%redis, replicas, "redis answers: limits are shared");
                }
                Err(error) => {
                    shared.breaker.set_why(&error);
                    if !told {
                        told = true;
                        warn_away(&shared);
                    }
                    sleep_until(next).await;
                }
            }
            continue;
        }
        let verdict = tokio::select! {
            () = shared.breaker.doubts.notified() => examine(&shared).await,
            () = sleep_until(next) => beat(&shared).await,
        };
        if let Err(error) = verdict {
            told = true;
            go_away(&shared, &error);
        }
    }
}

/// One beat of the heart. A failure raises a doubt like that of any call.
async fn beat(shared: &Shared) -> RedisResult<()> {
    shared.views.forget_idle(shared.clock.instant());
    if let Some(mut lines) = shared.lines() {
        let beat = connect::beat(&mut lines.rest, &shared.scripts, &shared.heart);
        match within(shared.deadline, beat).await {
            Ok(beat) => {
                let told = within(shared.deadline, in_flight::exchange(shared, &lines, &beat.alive)).await;
                note(shared, beat);
                match told {
                    Ok(()) => shared.breaker.answered(Line::Rest),
                    Err(error) => shared.breaker.doubt(Line::Rest, &error),
                }
            }
            // Whatever refuses a beat refuses everything, so its kind does not matter.
            Err(_) => shared.breaker.missed(Line::Rest),
        }
    }
    Ok(())
}

/// Settles a doubt. An error is the verdict that Redis is away.
async fn examine(shared: &Shared) -> RedisResult<()> {
    let beat = match check(shared).await {
        // Whatever broke a call's connection may have broken the check's too; it refuses at once if it is gone.
        Err(error) if error.is_unrecoverable_error() => check(shared).await?,
        verdict => verdict?,
    };
    note(shared, beat);
    if shared.breaker.has_dead_line() {
        // A miss alone never makes the client library reconnect.
        let lines = connect::lines(&shared.client, &shared.scripts, shared.deadline).await?;
        shared.set_lines(Some(lines));
        shared.breaker.forgive();
    }
    shared.breaker.in_doubt.store(false, Ordering::Relaxed);
    Ok(())
}

fn go_away(shared: &Shared, error: &RedisError) {
    shared.breaker.counts.outages.up();
    shared.breaker.set_why(error);
    shared.breaker.away.send_replace(true);
    shared.set_lines(None);
    warn_away(shared);
}

fn warn_away(shared: &Shared) {
    let (redis, replicas) = (&shared.address, shared.breaker.replicas());
    let why = shared.breaker.why().unwrap_or_default();
    let meanwhile = match shared.on_outage {
        OnOutage::Local => "this replica enforces its share of the limits alone",
        OnOutage::Deny => "what has a limit is refused",
        OnOutage::Allow => "nothing is limited",
    };
    tracing::warn!(%redis, why, replicas, "redis is away: until it is back, {meanwhile}");
}

/// Connects anew and writes what piled up, so that the counters are whole before anyone relies on them.
async fn come_back(shared: &Shared) -> RedisResult<()> {
    let beat = check(shared).await?;
    let lines = connect::lines(&shared.client, &shared.scripts, shared.deadline).await?;
    note(shared, beat);
    shared.set_lines(Some(lines.clone()));
    flush::flush(shared, &lines).await;
    shared.breaker.in_doubt.store(false, Ordering::Relaxed);
    shared.breaker.forgive();
    shared.breaker.away.send_replace(false);
    Ok(())
}

async fn check(shared: &Shared) -> RedisResult<Beat> {
    connect::check(&shared.client, &shared.scripts, &shared.heart, shared.deadline).await
}

fn note(shared: &Shared, beat: Beat) {
    let replicas = u64::try_from(beat.alive.len()).unwrap_or(u64::MAX);
    shared.correct_clock(beat.offset_ms, beat.error_ms);
    if shared.breaker.learn(replicas, beat.epoch, shared.clock.instant()) {
        shared.local().write_again(shared.now_ms());
    }
}
