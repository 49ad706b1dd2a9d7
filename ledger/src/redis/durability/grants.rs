//! Whether we may run every command and touch every kind of key that the ledger needs. Asks by doing, in forms that
//! are let through or not and change nothing either way.
use super::super::keys::{AccountKeys, Counter, Keys};
use super::super::scripts::Scripts;
use super::{Finding, reason};
use crate::budget::Account;
use crate::clock::Minute;
use crate::ledger::Member;
use redis::aio::MultiplexedConnection;
use redis::{Cmd, ErrorKind, Pipeline, RedisError, RedisResult, ServerErrorKind, Value};

/// Commands of the scripts and of ours, with what follows the key. A permission is looked at before an argument is,
/// so those that would make a key are given one that they refuse.
const ON_A_KEY: [(&str, &[&str]); 21] = [
    ("del", &[]),
    ("exists", &[]),
    ("get", &[]),
    ("hdel", &["nobody"]),
    ("hexists", &["nobody"]),
    ("hget", &["nobody"]),
    ("hmget", &["nobody"]),
    // A name without its value.
    ("hset", &["nobody", "0", "nobody"]),
    ("incrby", &["no number"]),
    ("mget", &[]),
    ("pexpire", &["1000"]),
    ("pttl", &[]),
    ("set", &["0", "PX", "0"]),
    ("zadd", &["XX", "0", "nobody"]),
    ("zcard", &[]),
    ("zcount", &["-inf", "0"]),
    ("zrange", &["0", "0"]),
    ("zrangebyscore", &["-inf", "0"]),
    ("zrem", &["nobody"]),
    ("zremrangebyscore", &["-inf", "0"]),
    ("zscore", &["nobody"]),
];
/// Those that concern no key.
const WITHOUT_KEY: [(&str, &[&str]); 5] =
    [("eval", &["return 1", "0"]), ("evalsha", &[]), ("ping", &[]), ("script load", &[]), ("time", &[])];

/// What is denied, and whether nothing can be written at all.
pub(super) async fn check(
    line: &mut MultiplexedConnection,
    (id, keys): (&str, &Keys),
    scripts: &Scripts,
    now_ms: u64,
) -> RedisResult<Vec<Finding>> {
    let asked = asked(id, keys, scripts, now_ms);
    let mut pipeline = Pipeline::new();
    pipeline.ignore_errors();
    for (_, _, command) in &asked {
        pipeline.add_command(command.clone());
    }
    let answers: Vec<RedisResult<Value>> = pipeline.query_async(line).await?;
    let (mut commands, mut patterns, mut refused) = (Vec::new(), Vec::new(), None);
    for ((name, pattern, _), answer) in asked.iter().zip(answers) {
        let Err(error) = answer else { continue };
        match error.kind() {
            _ if error.code() == Some("NOAUTH") => return Err(error),
            ErrorKind::Server(ServerErrorKind::NoPerm) if is_about_keys(&error) => {
                add(&mut patterns, pattern);
            }
            ErrorKind::Server(ServerErrorKind::NoPerm) => add(&mut commands, name),
            _ if takes_no_writes(&error) => refused = refused.or(Some(reason(&error))),
            // A refused argument, an unknown script: we were let through.
            _ => {}
        }
    }
    let denied = !commands.is_empty() || !patterns.is_empty();
    let denied = denied.then_some(Finding::Denied { commands, keys: patterns });
    Ok([refused.map(|reason| Finding::TakesNoWrites { reason }), denied].into_iter().flatten().collect())
}

/// Name, pattern of the key, and call.
fn asked(id: &str, keys: &Keys, scripts: &Scripts, now_ms: u64) -> Vec<(&'static str, String, Cmd)> {
    let mut asked = Vec::new();
    for key in kinds_of_keys(keys, id, now_ms) {
        for (name, arguments) in ON_A_KEY {
            let mut command = redis::cmd(name);
            command.arg(&key).arg(arguments);
            asked.push((name, key.replace(id, "*"), command));
        }
    }
    for (name, arguments) in WITHOUT_KEY {
        let mut command = Cmd::new();
        command.arg(name.split(' ').collect::<Vec<_>>()).arg(arguments);
        match name {
            // A text that the ledger gives the server anyway.
            "script load" => command.arg(scripts.heartbeat.text()),
            "evalsha" => command.arg("0".repeat(40)).arg(0),
            _ => &mut command,
        };
        asked.push((name, String::new(), command));
    }
    asked
}

/// One key of each kind, with `id` in it where the real ones have an id, a model or a minute.
fn kinds_of_keys(keys: &Keys, id: &str, now_ms: u64) -> Vec<String> {
    let member = Member { id: id.into(), model: "check".into() };
    let minute = Minute::of(now_ms);
    let mut kinds = Vec::from(Counter::ALL.map(|counter| keys.counter(counter, &member, minute)));
    kinds.extend([keys.cooldown(id), keys.trips(id), keys.probe(id), keys.latency(id), keys.sizes(id)]);
    kinds.extend([keys.in_flight(id), keys.slots(&id.into())]);
    let account = Account { scope: id.into(), window: None };
    let AccountKeys { spent, held, estimated, holds, due } = keys.account(&account);
    kinds.extend([spent, held, estimated, holds, due]);
    // The name of a part stands in braces as an id does, so this one lies on the same server. One of another server
    // would do: a permission is looked at before the place.
    let part = if keys.has_parts() { id } else { "" };
    kinds.push(format!("{}:{id}", keys.replicas(part)));
    kinds
}

fn add(names: &mut Vec<String>, name: &str) {
    if !names.iter().any(|known| known == name) {
        names.push(name.to_owned());
    }
}

/// Redis 7 says "access a key", older ones "access one of the keys".
fn is_about_keys(error: &RedisError) -> bool {
    error.detail().is_some_and(|detail| detail.contains("access") && detail.contains("key"))
}

fn takes_no_writes(error: &RedisError) -> bool {
    let code = error.code().unwrap_or_default();
    matches!(code, "READONLY" | "MISCONF" | "OOM" | "LOADING" | "MASTERDOWN" | "CLUSTERDOWN" | "NOREPLICAS")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::path::Path;

    /// What the scripts call, read from their text.
    fn called_by_scripts() -> BTreeSet<String> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../lua");
        let mut called = BTreeSet::new();
        for script in std::fs::read_dir(folder).unwrap() {
            let text = std::fs::read_to_string(script.unwrap().path()).unwrap();
            for start in ["redis.call('", "redis.pcall('"] {
                let calls = text.split(start).skip(1);
                called.extend(calls.map(|rest| rest.split('\'').next().unwrap().to_lowercase()));
            }
        }
        called
    }

    #[test]
    fn every_command_of_every_script_is_asked_for() {
        let called = called_by_scripts();
        assert!(called.contains("incrby") && called.contains("time"), "{called:?}");
        let asked: BTreeSet<&str> = ON_A_KEY.iter().chain(&WITHOUT_KEY).map(|&(name, _)| name).collect();
        let forgotten: Vec<_> = called.iter().filter(|name| !asked.contains(name.as_str())).collect();
        assert!(forgotten.is_empty(), "add these to ON_A_KEY, in a form that changes nothing: {forgotten:?}");
    }

    #[test]
    fn every_kind_of_key_has_its_pattern() {
        let patterns: BTreeSet<String> =
            asked("an-id", &Keys::new("prod".to_owned(), false), &Scripts::new(), 0)
                .into_iter()
                .map(|(_, key, _)| key)
                .collect();
        for pattern in [
            "prod:*:check:rpm:00-00",
            "prod:deployment:*:cooldown",
            "prod:onegate:replicas:*",
            "prod:deployment:*:probe",
            "prod:onegate:spend:*:total",
        ] {
            assert!(patterns.contains(pattern), "{patterns:?}");
        }
    }
}
