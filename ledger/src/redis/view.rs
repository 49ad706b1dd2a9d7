//! Views: a group's values by one read at most every 100 ms, shared by all requests of this replica. What this
//! replica did since the read is added to it.
use super::Shared;
use super::connect::Lines;
use super::cooldown_value;
use super::delta::Delta;
use super::keys::Counter;
use super::outage::Line;
use crate::book::Counts;
use crate::clock::Minute;
use crate::ledger::{Group, Member, Reading, View};
use redis::{ErrorKind, RedisError, RedisResult};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::{Instant, timeout};

const FRESH: Duration = Duration::from_millis(100);
/// Keys a command: a longer one would hold the server up for everybody.
const COMMAND_KEYS_MAX: usize = 300;
const KEYS_PER_MEMBER: usize = 9;
/// A group that nobody has asked for is forgotten after so long.
const IDLE_MAX: Duration = Duration::from_secs(60);

/// The groups that are asked for.
#[derive(Debug, Default)]
pub(super) struct Views {
    slots: Mutex<HashMap<Arc<str>, Arc<Slot>>>,
}

#[derive(Debug, Default)]
struct Slot {
    /// Held by the one that reads.
    reading: tokio::sync::Mutex<()>,
    last: Mutex<Last>,
}

#[derive(Debug, Default)]
struct Last {
    snapshot: Option<Arc<Snapshot>>,
    tried_at: Option<Instant>,
    used_at: Option<Instant>,
}

/// What one read found.
#[derive(Debug)]
struct Snapshot {
    members: Vec<Member>,
    minute: Minute,
    read_at: Instant,
    read_at_ms: u64,
    rows: Vec<Row>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Row {
    counts: Counts,
    /// The part of the counts that is this replica's own doing.
    ours: Delta,
    /// Another replica tried it.
    probing: bool,
}

impl Views {
    /// Forgets the groups that nobody asks for any more.
    pub(super) fn forget_idle(&self, now: Instant) {
        let is_used = |used_at: Instant| now.saturating_duration_since(used_at) < IDLE_MAX;
        self.slots().retain(|_, slot| slot.last().used_at.is_some_and(is_used));
    }

    fn slot(&self, name: &Arc<str>, now: Instant) -> Arc<Slot> {
        let slot = Arc::clone(self.slots().entry(Arc::clone(name)).or_default());
        slot.last().used_at = Some(now);
        slot
    }

    fn slots(&self) -> MutexGuard<'_, HashMap<Arc<str>, Arc<Slot>>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Slot {
    fn last(&self) -> MutexGuard<'_, Last> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The last read, if it is of these members. One of another minute still tells nothing.
    fn snapshot(&self, group: &Group, minute: Minute) -> Option<Arc<Snapshot>> {
        let snapshot = self.last().snapshot.clone()?;
        (snapshot.minute == minute && snapshot.members == group.members).then_some(snapshot)
    }

    fn was_tried_since(&self, since: Instant) -> bool {
        self.last().tried_at.is_some_and(|tried_at| tried_at >= since)
    }
}

/// The group's values. Never waits beyond the deadline: then what is known must do.
pub(super) async fn view(shared: &Shared, group: &Group) -> View {
    let asked_at = shared.clock.instant();
    let slot = shared.views.slot(&group.name, asked_at);
    if !is_fresh(shared, &slot, group) && !shared.breaker.is_away() && !group.members.is_empty() {
        let read = timeout(shared.deadline, refresh(shared, &slot, group, asked_at)).await;
        if read.is_err() {
            slot.last().tried_at = Some(shared.clock.instant());
            shared.breaker.missed(Line::Rest);
        }
    }
    answer(shared, &slot, group)
}

fn is_fresh(shared: &Shared, slot: &Slot, group: &Group) -> bool {
    let now = shared.clock.instant();
    let snapshot = slot.snapshot(group, Minute::of(shared.now_ms()));
    snapshot.is_some_and(|snapshot| now.saturating_duration_since(snapshot.read_at) < FRESH)
}

/// Reads, or waits for the one that reads. Whoever waited takes what came of that, even if it failed: else
/// all would try one after the other.
async fn refresh(shared: &Shared, slot: &Slot, group: &Group, asked_at: Instant) {
    let _reading = slot.reading.lock().await;
    if is_fresh(shared, slot, group) || slot.was_tried_since(asked_at) {
        return;
    }
    let Some(lines) = shared.lines() else { return };
    let read = read(shared, &lines, group).await;
    let mut last = slot.last();
    last.tried_at = Some(shared.clock.instant());
    match read {
        Ok(snapshot) => {
            last.snapshot = Some(Arc::new(snapshot));
            shared.breaker.answered(Line::Rest);
        }
        Err(error) => shared.breaker.doubt(Line::Rest, &error),
    }
}

async fn read(shared: &Shared, lines: &Lines, group: &Group) -> RedisResult<Snapshot> {
    let _no_flush = shared.rest_order.read().await;
    let (read_at, read_at_ms) = (shared.clock.instant(), shared.now_ms());
    let minute = Minute::of(read_at_ms);
    let ours: Vec<Delta> = {
        let local = shared.local();
        group.members.iter().map(|member| local.written(minute, member)).collect()
    };

    let values = values_of(shared, lines, &group.members, minute).await?;
    let is_others = |token: &str| !token.starts_with(&shared.heart.replica);
    let mut local = shared.local();
    let mut rows = Vec::with_capacity(ours.len());
    for ((member, ours), found) in group.members.iter().zip(ours).zip(&values) {
        let Some([rpm, tpm, calls, fails, cooldown, trips, probe, latency, sizes]) = found.as_deref() else {
            // Not told: of these we know what we did, and what we knew of their cooldowns.
            rows.push(Row::default());
            continue;
        };
        let [rpm, tpm, calls, fails] = [rpm, tpm, calls, fails].map(count);
        rows.push(Row {
            counts: Counts { rpm, tpm, calls, fails },
            ours,
            probing: probe.as_deref().is_some_and(is_others),
        });
        let cooling = cooldown.as_ref().map(|text| cooldown_value::read(text, read_at_ms));
        local.learn(&member.id, cooling, read_at_ms);
        local.learn_trips(&member.id, count(trips));
        local.learn_samples(&member.id, latency.as_deref(), sizes.as_deref(), read_at_ms);
        local.saw(minute, member, (Some(rpm), Some(tpm)), ours);
    }
    Ok(Snapshot { members: group.members.clone(), minute, read_at, read_at_ms, rows })
}

/// The values of each member's keys; `None` where the master that has them is away. An error only if all are.
async fn values_of(
    shared: &Shared,
    lines: &Lines,
    members: &[Member],
    minute: Minute,
) -> RedisResult<Vec<Option<Vec<Option<String>>>>> {
    // No command may span two slots of a cluster.
    let together = if shared.home.is_sharded() { 1 } else { COMMAND_KEYS_MAX / KEYS_PER_MEMBER };
    let command = |members: &[Member]| {
        let mut command = redis::cmd("MGET");
        for member in members {
            command.arg(&keys_of(shared, member, minute));
        }
        command
    };
    // Bytes, for one value that is no text must not cost the others theirs.
    let text =
        |bytes: &Option<Vec<u8>>| bytes.as_ref().map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    let answers = lines.rest.clone().send_each(members.chunks(together).map(command).collect()).await?;
    let mut values = Vec::with_capacity(members.len());
    let mut failed = None;
    for (members, answer) in members.chunks(together).zip(answers) {
        match answer.and_then(|answer| Ok(redis::from_redis_value::<Vec<Option<Vec<u8>>>>(answer)?)) {
            Ok(found) if found.len() == members.len() * KEYS_PER_MEMBER => {
                values.extend(
                    found.chunks(KEYS_PER_MEMBER).map(|found| Some(found.iter().map(text).collect())),
                );
            }
            Ok(_) => {
                let nonsense = "a read was answered in part";
                return Err(RedisError::from((ErrorKind::UnexpectedReturnType, nonsense)));
            }
            Err(error) => {
                shared.breaker.doubt(Line::Rest, &error);
                values.extend(members.iter().map(|_| None));
                failed = Some(error);
            }
        }
    }
    match failed {
        Some(error) if values.iter().all(Option::is_none) => Err(error),
        _ => Ok(values),
    }
}

fn keys_of(shared: &Shared, member: &Member, minute: Minute) -> [String; KEYS_PER_MEMBER] {
    let [rpm, tpm, calls, fails] = Counter::ALL.map(|counter| shared.keys.counter(counter, member, minute));
    let id = &member.id;
    let (cooldown, trips, probe) = (shared.keys.cooldown(id), shared.keys.trips(id), shared.keys.probe(id));
    [rpm, tpm, calls, fails, cooldown, trips, probe, shared.keys.latency(id), shared.keys.sizes(id)]
}

/// A counter's value. Others increase by floats, so a fraction is cut off.
fn count(value: &Option<String>) -> u64 {
    let whole = value.as_deref().and_then(|text| text.split('.').next());
    whole.and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

fn answer(shared: &Shared, slot: &Slot, group: &Group) -> View {
    let now_ms = shared.now_ms();
    let minute = Minute::of(now_ms);
    let snapshot = slot.snapshot(group, minute);
    let is_away = shared.breaker.is_away();
    let now = shared.clock.instant();
    let local = shared.local();
    let reading = |(index, member): (usize, &Member)| {
        let row =
            snapshot.as_ref().and_then(|snapshot| snapshot.rows.get(index)).copied().unwrap_or_default();
        let since = local.done(minute, member).minus(row.ours);
        let Counts { rpm, tpm, calls, fails } = since.apply(row.counts);
        let in_flight = local.in_flight(&member.id, now);
        let cooldown = local.cooling(&member.id, now_ms).cloned();
        let trips = local.trips(&member.id, now_ms);
        // A try that somebody else began may have ended since the read; one that lasts shows in the next one.
        let probing = trips > 0 && (row.probing && !is_away || local.is_probing(&member.id));
        let (latency, sizes) = local.recent(&member.id, now_ms);
        Reading { rpm, tpm, calls, fails, in_flight, cooldown, trips, probing, latency, sizes }
    };
    let readings = group.members.iter().enumerate().map(reading).collect();
    View { minute, read_at_ms: snapshot.as_ref().map_or(now_ms, |snapshot| snapshot.read_at_ms), readings }
}
