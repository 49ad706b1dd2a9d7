//! What runs in the fleet: with every beat a replica writes what runs on it, and reads what the others wrote. What a
//! replica wrote outlives it by 3 s.
use super::Shared;
use super::connect::Lines;
use redis::{Cmd, FromRedisValue, RedisResult};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Longer than a few missed beats, short enough that a killed replica's calls are soon forgotten.
const TTL: Duration = Duration::from_secs(3);

/// What runs on other replicas.
#[derive(Debug, Default)]
pub(super) struct Others {
    calls: HashMap<Arc<str>, u64>,
    read_at: Option<Instant>,
    /// Our own value may stand in Redis.
    published: bool,
}

impl Others {
    /// Calls of a deployment that run there. What was read so long ago that it has expired since says nothing.
    pub(super) fn of(&self, id: &str, now: Instant) -> u64 {
        let is_valid = self.read_at.is_some_and(|read_at| now.saturating_duration_since(read_at) < TTL);
        if is_valid { self.calls.get(id).copied().unwrap_or(0) } else { 0 }
    }

    fn read(&mut self, values: &[Option<Vec<u8>>], now: Instant) {
        self.calls.clear();
        for (id, calls) in values.iter().flatten().flat_map(|value| unpack(value)) {
            let sum = self.calls.entry(id.into()).or_default();
            *sum = sum.saturating_add(calls);
        }
        self.read_at = Some(now);
    }
}

/// Writes what runs here, reads what runs on the others that are alive. An idle replica writes nothing.
pub(super) async fn exchange(shared: &Shared, lines: &Lines, alive: &[String]) -> RedisResult<()> {
    let (own, published) = {
        let local = shared.local();
        (pack(local.own_in_flight()), local.others.published)
    };
    let ours = &shared.heart.replica;
    let others: Vec<String> =
        alive.iter().filter(|id| *id != ours).map(|id| shared.keys.in_flight(id)).collect();
    let mut commands: Vec<Cmd> = Vec::new();
    let writes = own.is_some() || published;
    if let Some(own) = &own {
        let mut set = redis::cmd("SET");
        set.arg(shared.keys.in_flight(ours)).arg(own).arg("PX").arg(TTL.as_millis().to_string());
        commands.push(set);
    } else if published {
        let mut del = redis::cmd("DEL");
        del.arg(shared.keys.in_flight(ours));
        commands.push(del);
    }
    // No command may span two slots of a cluster.
    let together = if shared.home.is_sharded() { 1 } else { others.len().max(1) };
    commands.extend(others.chunks(together).map(|keys| {
        let mut mget = redis::cmd("MGET");
        mget.arg(keys);
        mget
    }));
    // Before it is known whether it was written: then it may stand.
    shared.local().others.published |= own.is_some();
    let mut answers = Vec::new();
    if !commands.is_empty() {
        answers = lines.rest.clone().send_each(commands).await?;
    }
    let (mut read, mut failed) = (Vec::new(), None);
    let mut answers = answers.into_iter();
    let written = answers.by_ref().take(usize::from(writes)).find_map(Result::err);
    for answer in answers {
        match answer.and_then(|answer| Ok(Vec::<Option<Vec<u8>>>::from_redis_value(answer)?)) {
            Ok(values) => read.extend(values),
            Err(error) => failed = Some(error),
        }
    }
    let mut local = shared.local();
    local.others.published = own.is_some() || published && written.is_some();
    // Of a cluster a part may be away: what the rest tells is better than nothing.
    if failed.is_none() || !read.is_empty() {
        local.others.read(&read, shared.clock.instant());
    }
    written.or(failed).map_or(Ok(()), Err)
}

/// `{"dep-a":2}`; `None` where nothing runs. Sorted, so that equal calls make equal texts.
fn pack(calls: &HashMap<Arc<str>, u64>) -> Option<String> {
    let sorted: BTreeMap<&Arc<str>, &u64> = calls.iter().collect();
    (!sorted.is_empty()).then(|| serde_json::to_string(&sorted).unwrap_or_default())
}

/// What cannot be read is nothing: it is a hint, and it expires.
fn unpack(value: &[u8]) -> HashMap<String, u64> {
    serde_json::from_slice(value).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::{Clock, SystemClock};

    fn others(values: &[&str]) -> (Others, Instant) {
        let now = SystemClock.instant();
        let values: Vec<_> = values.iter().map(|value| Some(value.as_bytes().to_vec())).collect();
        let mut others = Others::default();
        others.read(&values, now);
        (others, now)
    }

    #[test]
    fn what_is_packed_is_unpacked_again() {
        let calls = HashMap::from([(Arc::from("b"), 1), (Arc::from("a \"quoted\": {one}"), 7)]);
        let packed = pack(&calls).unwrap();
        assert_eq!(packed, r#"{"a \"quoted\": {one}":7,"b":1}"#);
        assert_eq!(unpack(packed.as_bytes()).len(), 2);
        assert_eq!(pack(&HashMap::new()), None);
    }

    #[test]
    fn the_calls_of_all_others_add_up() {
        let (others, now) = others(&[r#"{"a":2,"b":1}"#, r#"{"a":3}"#]);
        assert_eq!((others.of("a", now), others.of("b", now), others.of("c", now)), (5, 1, 0));
    }

    #[test]
    fn what_is_malformed_is_nothing_and_spoils_nothing() {
        let huge = format!(r#"{{"a":{}}}"#, u64::MAX);
        let (others, now) =
            others(&["", "{", "[1]", r#"{"a":-1}"#, r#"{"a":1.5}"#, r#"{"a":"2"}"#, "\u{0}", &huge, &huge]);
        assert_eq!(others.of("a", now), u64::MAX);
    }

    #[test]
    fn what_was_read_too_long_ago_says_nothing() {
        let (others, now) = others(&[r#"{"a":2}"#]);
        assert_eq!(others.of("a", now + TTL - Duration::from_millis(1)), 2);
        assert_eq!(others.of("a", now + TTL), 0);
    }
}
