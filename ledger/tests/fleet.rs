//! Several replicas as processes of their own on one Redis, what is done to them, and the evidence they leave.
mod check;
mod check_tests;
pub(crate) mod clock;
pub(crate) mod event;
pub(crate) mod evidence;
mod monitor;
mod replica;
mod sampler;
mod shadow;
mod story;

pub(crate) use check::check;
pub(crate) use replica::Order;

use crate::redis_server::RedisServer;
use crate::world::until_so;
use clock::Time;
use event::{Deployment, Event, Mix, Spec};
use evidence::{Evidence, Faults};
use ledger::{Clock, SystemClock};
use monitor::Monitor;
use replica::{ANSWER, ENTRY};
use sampler::Sampler;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

const ANSWER_WITHIN: Duration = Duration::from_secs(60);
/// Two flush periods and what a loaded machine adds.
const QUIET: Duration = Duration::from_millis(400);

/// What all replicas of a fleet are told.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) time: Time,
    pub(crate) deadline_ms: u64,
    pub(crate) callers: usize,
    pub(crate) pause_ms: u64,
    pub(crate) deployments: Vec<Deployment>,
    pub(crate) mix: Mix,
}

struct Replica {
    number: u64,
    process: Child,
    answers: Receiver<String>,
}

/// Running replicas. All ends when it is dropped.
pub(crate) struct Fleet {
    pub(crate) server: RedisServer,
    pub(crate) plan: Plan,
    pub(crate) faults: Faults,
    monitor: Monitor,
    sampler: Sampler,
    replicas: Vec<Replica>,
    logs: Vec<PathBuf>,
    folder: PathBuf,
    _alone: MutexGuard<'static, ()>,
}

impl Fleet {
    /// Starts a Redis and so many replicas, and returns when each knows of all.
    pub(crate) fn start(plan: Plan, replicas: usize) -> Self {
        static ALONE: Mutex<()> = Mutex::new(());
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let server = RedisServer::start();
        let monitor = Monitor::default();
        monitor.attach(&server.address());
        let folder =
            std::env::temp_dir().join(format!("ledger-fleet-{}", server.address().replace(':', "-")));
        std::fs::create_dir_all(&folder).unwrap();
        let sampler = Sampler::start(&server);
        let mut fleet = Self {
            server,
            plan,
            faults: Faults::default(),
            monitor,
            sampler,
            replicas: Vec::new(),
            logs: Vec::new(),
            folder,
            _alone: alone,
        };
        let offsets = vec![0; replicas];
        fleet.add(&offsets);
        fleet
    }

    /// Starts further replicas, whose clocks are wrong by so many ms if they are the machine's.
    pub(crate) fn add(&mut self, offsets_ms: &[i64]) {
        let from = self.replicas.len();
        for offset_ms in offsets_ms {
            let replica = self.spawn(*offset_ms);
            self.replicas.push(replica);
        }
        self.replicas[from..].iter().for_each(Replica::answer);
        self.all_have_beaten();
    }

    /// Returns when every replica's heart has beaten once more, and so knows of all that live.
    pub(crate) fn all_have_beaten(&self) {
        let before = self.monitor.beats();
        until_so("all replicas have beaten again", || {
            let now = self.monitor.beats();
            let more = now.iter().filter(|(replica, beats)| before.get(*replica).is_none_or(|it| it < beats));
            more.count() >= self.replicas.len()
        });
    }

    /// Orders, and answers what all logs tell since.
    pub(crate) fn order_and_see(&mut self, order: &Order) -> Vec<Event> {
        let before: Vec<usize> = self.logs.iter().map(|log| event::read(log).len()).collect();
        self.order(order);
        let since = |(log, before): (&PathBuf, usize)| event::read(log).split_off(before);
        self.logs.iter().zip(before).flat_map(since).collect()
    }

    fn spawn(&mut self, offset_ms: i64) -> Replica {
        let number = 1 + self.logs.len() as u64;
        let log = self.folder.join(format!("{number}.jsonl"));
        let Plan { seed, time, deadline_ms, callers, pause_ms, deployments, mix } = self.plan.clone();
        let time = match time {
            Time::Machine { .. } => Time::Machine { offset_ms },
            other => other,
        };
        let (url, seed) = (self.server.url(), seed.wrapping_mul(1_000) + number);
        let spec = Spec {
            replica: number,
            url,
            seed,
            log: log.clone(),
            time,
            deadline_ms,
            callers,
            pause_ms,
            deployments,
            mix,
        };
        self.logs.push(log);
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", ENTRY, "--ignored", "--nocapture", "--test-threads=1"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (told, answers) = sync_channel(64);
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines().map_while(Result::ok);
        std::thread::spawn(move || {
            for line in lines.by_ref() {
                let Some((_, answer)) = line.split_once(ANSWER) else { continue };
                if told.send(answer.to_owned()).is_err() {
                    return;
                }
            }
        });
        let mut replica = Replica { number, process, answers };
        replica.tell(&serde_json::to_string(&spec).unwrap());
        replica
    }

    pub(crate) fn replicas(&self) -> usize {
        self.replicas.len()
    }

    /// Tells all, then waits until all have done it.
    pub(crate) fn order(&mut self, order: &Order) {
        let order = serde_json::to_string(order).unwrap();
        self.replicas.iter_mut().for_each(|replica| replica.tell(&order));
        self.replicas.iter().for_each(Replica::answer);
    }

    /// Tells each its own, then waits until all have done it.
    pub(crate) fn order_each(&mut self, orders: &[Order]) {
        for (replica, order) in self.replicas.iter_mut().zip(orders) {
            replica.tell(&serde_json::to_string(order).unwrap());
        }
        self.replicas.iter().zip(orders).for_each(|(replica, _)| replica.answer());
    }

    /// `kill -9`.
    pub(crate) fn kill(&mut self, at: usize) {
        let mut replica = self.replicas.remove(at);
        self.faults.killed.push((replica.number, SystemClock.unix_ms()));
        replica.process.kill().unwrap();
        replica.process.wait().unwrap();
    }

    /// Starts one more, and lets its callers begin.
    pub(crate) fn join(&mut self) {
        let mut replica = self.spawn(0);
        replica.answer();
        replica.tell(&serde_json::to_string(&Order::Go).unwrap());
        replica.answer();
        self.replicas.push(replica);
    }

    /// Redis ends, and is started again with an empty memory after a time.
    pub(crate) fn restart_redis(&mut self, away: Duration) {
        self.server.kill();
        std::thread::sleep(away);
        self.server.restart_behind_a_door();
        self.monitor.attach(&self.server.address());
        self.server.open_door();
    }

    /// Lets the callers end, waits for two quiet flush periods, looks at Redis, and ends the replicas.
    pub(crate) fn finish(mut self) -> Evidence {
        self.order(&Order::Pause);
        std::thread::sleep(QUIET);
        let mut redis = self.server.prover();
        let listed = sampler::list(&mut redis);
        let (seconds, micros): (u64, u64) = redis::cmd("TIME").query(&mut redis).unwrap();
        let acts = self.monitor.up_to_now(&mut redis);
        let replicas = self.replicas.len() as u64;
        let samples = self.sampler.found();
        self.order(&Order::Stop);
        let mut events: Vec<_> = self.logs.iter().flat_map(|log| event::read(log)).collect();
        events.sort_by_key(|event| event.at_ms);
        Evidence {
            deployments: self.plan.deployments.clone(),
            replicas,
            deadline_ms: self.plan.deadline_ms,
            by_servers_minute: matches!(self.plan.time, Time::Machine { .. }),
            events,
            acts,
            samples,
            listed_us: seconds * 1_000_000 + micros,
            listed,
            faults: self.faults.clone(),
        }
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        for replica in &mut self.replicas {
            let _ = replica.process.kill();
            let _ = replica.process.wait();
        }
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl Replica {
    fn tell(&mut self, line: &str) {
        let input = self.process.stdin.as_mut().unwrap();
        writeln!(input, "{line}").and_then(|()| input.flush()).unwrap();
    }

    fn answer(&self) {
        let answer = self.answers.recv_timeout(ANSWER_WITHIN);
        assert!(answer.is_ok(), "replica {} did not answer: {answer:?}", self.number);
    }
}
