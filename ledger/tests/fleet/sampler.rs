//! A reader that looks at every key's time to live again and again while replicas run.
use super::evidence::{Found, Listed, misbehaved};
use super::shadow::Counter;
use crate::redis_server::RedisServer;
use redis::{ConnectionLike, RedisResult};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const EVERY: Duration = Duration::from_millis(15);
/// A frozen server must not hold the reader beyond a run's end.
const PATIENCE: Duration = Duration::from_millis(300);

#[derive(Default)]
struct Seen {
    over: AtomicBool,
    looks: AtomicUsize,
    found: Mutex<Vec<Found>>,
}

/// See the file's head. Ends when dropped.
pub(crate) struct Sampler {
    seen: Arc<Seen>,
}

impl Sampler {
    pub(crate) fn start(server: &RedisServer) -> Self {
        let seen = Arc::new(Seen::default());
        let url = format!("redis://prover:prover@{}/", server.address());
        let shared = Arc::clone(&seen);
        std::thread::spawn(move || {
            while !shared.over.load(Ordering::Relaxed) {
                // Redis may be away: then there is nothing to be seen.
                let _ = look_on(&url, &shared);
                std::thread::sleep(EVERY);
            }
        });
        Self { seen }
    }

    /// What was found; fails if there was hardly a look.
    pub(crate) fn found(&self) -> Vec<Found> {
        let looks = self.seen.looks.load(Ordering::Relaxed);
        assert!(looks > 5, "the sampling reader looked only {looks} times");
        self.seen.found.lock().unwrap().clone()
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.seen.over.store(true, Ordering::Relaxed);
    }
}

fn look_on(url: &str, seen: &Seen) -> RedisResult<()> {
    let mut line = redis::Client::open(url)?.get_connection_with_timeout(PATIENCE)?;
    line.set_read_timeout(Some(PATIENCE))?;
    redis::cmd("CLIENT").arg(&["SETNAME", "prover"]).exec(&mut line)?;
    while !seen.over.load(Ordering::Relaxed) {
        for listed in look(&mut line)? {
            seen.found.lock().unwrap().extend(misbehaved(&listed, Counter::of(&listed.key).is_some()));
        }
        seen.looks.fetch_add(1, Ordering::Relaxed);
        std::thread::sleep(EVERY);
    }
    Ok(())
}

/// Every key, its number and what it has left to live.
pub(crate) fn list(line: &mut redis::Connection) -> Vec<Listed> {
    let mut listed = look(line).unwrap();
    for it in &mut listed {
        if Counter::of(&it.key).is_some() {
            it.number = redis::cmd("GET").arg(&it.key).query(line).unwrap();
        }
    }
    listed
}

fn look(line: &mut impl ConnectionLike) -> RedisResult<Vec<Listed>> {
    let mut keys: Vec<String> = Vec::new();
    let mut cursor = 0_u64;
    loop {
        let (next, some): (u64, Vec<String>) =
            redis::cmd("SCAN").arg(cursor).arg(&["COUNT", "500"]).query(line)?;
        keys.extend(some);
        cursor = next;
        if cursor == 0 {
            break;
        }
    }
    let mut asked = redis::Pipeline::new();
    for key in &keys {
        asked.cmd("PTTL").arg(key);
    }
    let lefts: Vec<i64> = if keys.is_empty() { Vec::new() } else { asked.query(line)? };
    Ok(keys.into_iter().zip(lefts).map(|(key, left_ms)| Listed { key, number: None, left_ms }).collect())
}
