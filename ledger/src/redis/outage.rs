//! Whether Redis is there. While it is not, nothing waits for it, and one task asks twice a second whether it
//! is back. A slow moment is no outage: before the breaker opens, a check on a connection of its own must fail.
use super::connect::{Beat, SILENT_MAX_MS, missed, within};
use super::reason::reason;
use super::tally::Counts;
use super::{Shared, flush, in_flight};
use crate::ledger::OnOutage;
use redis::{ErrorKind, RedisError, RedisResult};
use std::collections::HashMap;
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
    /// The memory of each part of the ledger.
    epochs: Mutex<HashMap<String, Epoch>>,
    /// Why it is away, in words.
    why: Mutex<Option<String>>,
    pub(super) counts: Counts,
}

/// The memory that a part was last seen to have.
#[derive(Debug)]
struct Epoch {
    name: String,
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
            epochs: Mutex::default(),
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
            // A cluster has changed as well as broken connections.
            _ if error.is_unrecoverable_error() || error.is_cluster_error() => {}
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

    /// Takes over what a beat was told; answers with the parts whose epoch replaces another one.
    fn learn(&self, replicas: u64, epochs: Vec<(String, String)>, now: Instant) -> Vec<String> {
        let mut known = self.epochs.lock().unwrap_or_else(PoisonError::into_inner);
        let mut lost = Vec::new();
        for (part, name) in epochs {
            match known.get_mut(&part) {
                Some(epoch) if epoch.name == name => {}
                Some(epoch) => {
                    *epoch = Epoch { name, began: Some(now) };
                    lost.push(part);
                }
                None => {
                    known.insert(part, Epoch { name, began: None });
                }
            }
        }
        // A server that lost its memory has forgotten the others too, until they have beaten again. Who took
        // itself to be alone meanwhile would take the whole limit for its share.
        let is_recent = |began: Instant| now.saturating_duration_since(began) < SILENT_MAX;
        let forgot = known.values().any(|epoch| epoch.began.is_some_and(is_recent));
        let replicas = if forgot { replicas.max(self.replicas()) } else { replicas };
        self.replicas.store(replicas, Ordering::Relaxed);
        lost
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
    if let Some(lines) = shared.lines() {
        match shared.home.beat(&lines, shared.terms()).await {
            Ok(beat) => {
                let told = within(shared.deadline, in_flight::exchange(shared, &lines, &beat.alive)).await;
                note(shared, beat);
                match told {
                    Ok(()) => shared.breaker.answered(Line::Rest),
                    Err(error) => shared.breaker.doubt(Line::Rest, &error),
                }
                receive_returned(shared).await;
            }
            // Whatever refuses a beat refuses everything, so its kind does not matter.
            Err(_) => shared.breaker.missed(Line::Rest),
        }
    }
    Ok(())
}

/// Settles a doubt. An error is the verdict that Redis is away.
async fn examine(shared: &Shared) -> RedisResult<()> {
    let checked = match shared.home.check(shared.terms()).await {
        // Whatever broke a call's connection may have broken the check's too; it refuses at once if it is gone.
        Err(error) if error.is_unrecoverable_error() => shared.home.check(shared.terms()).await?,
        verdict => verdict?,
    };
    // A miss alone never makes the client library reconnect, and it knows no other address than its first.
    if shared.breaker.has_dead_line() || shared.home.has_moved(shared.lines().as_ref(), &checked) {
        let lines = shared.home.lines(&checked, shared.terms()).await?;
        shared.set_lines(Some(lines));
        shared.breaker.forgive();
    }
    note(shared, checked.beat);
    shared.breaker.in_doubt.store(false, Ordering::Relaxed);
    receive_returned(shared).await;
    Ok(())
}

/// A part of Redis that came back while the rest was there gets what piled up, then takes reservations.
async fn receive_returned(shared: &Shared) {
    if shared.home.waits_for_flush()
        && let Some(lines) = shared.lines()
    {
        flush::flush(shared, &lines).await;
        shared.home.open();
    }
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
    let checked = shared.home.check(shared.terms()).await?;
    let lines = shared.home.lines(&checked, shared.terms()).await?;
    note(shared, checked.beat);
    shared.set_lines(Some(lines.clone()));
    flush::flush(shared, &lines).await;
    shared.home.open();
    shared.breaker.in_doubt.store(false, Ordering::Relaxed);
    shared.breaker.forgive();
    shared.breaker.away.send_replace(false);
    Ok(())
}

fn note(shared: &Shared, beat: Beat) {
    let replicas = u64::try_from(beat.alive.len()).unwrap_or(u64::MAX);
    shared.correct_clock(beat.offset_ms, beat.error_ms);
    for part in shared.breaker.learn(replicas, beat.epochs, shared.clock.instant()) {
        let is_lost = |id: &str| shared.home.keeps(&part, id, &shared.keys);
        shared.local().write_again(shared.now_ms(), is_lost);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::{Clock, SystemClock};

    fn epochs(epochs: &[(&str, &str)]) -> Vec<(String, String)> {
        epochs.iter().map(|&(part, name)| (part.to_owned(), name.to_owned())).collect()
    }

    #[test]
    fn a_part_that_lost_its_memory_is_named_and_lowers_the_number_of_replicas_only_after_a_while() {
        let (breaker, now) = (Breaker::new(), SystemClock.instant());
        assert!(breaker.learn(3, epochs(&[("a", "1"), ("b", "1")]), now).is_empty());
        assert!(breaker.learn(3, epochs(&[("b", "1")]), now).is_empty(), "one that is away has lost nothing");
        assert_eq!(breaker.learn(1, epochs(&[("a", "1"), ("b", "2")]), now), ["b"]);
        assert_eq!(breaker.replicas(), 3);
        assert!(breaker.learn(1, epochs(&[("a", "1"), ("b", "2")]), now + SILENT_MAX).is_empty());
        assert_eq!(breaker.replicas(), 1);
    }
}
