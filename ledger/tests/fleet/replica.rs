//! The program inside a replica's process: callers that reserve, call nobody, and settle, on a real `RedisLedger`,
//! with every step written down. It is this test binary itself, started for the one test below, so it is never
//! older than what it proves and no program of tests ships.
use super::clock::clock;
use super::event::{Ended, Log, Spec, What};
use crate::world::member;
use ledger::{
    Clock, Cooldown, Denial, Group, Hold, Ledger, ManualClock, Outcome, RedisLedger, RedisSettings, Reserve,
    Reserved, Sample, Settle, Status, SystemClock, Want,
};
use rand::rngs::StdRng;
use rand::seq::{IndexedRandom, SliceRandom};
use rand::{RngExt, SeedableRng};
use serde::{Deserialize, Serialize};
use std::io::{BufRead, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// The test by which a process becomes a replica.
pub(crate) const ENTRY: &str = "fleet::replica::a_process_that_the_proofs_start";
/// Answers stand behind this on standard output, which the test harness writes to as well.
pub(crate) const ANSWER: &str = "@@ ";
/// Holds of one replica; more would be taken for another's.
pub(crate) const HOLDS: u64 = 1_000_000;
const SHARED_WITHIN: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_millis(10);
const STALL: Duration = Duration::from_millis(30);

/// A line of standard input after the first. Each is answered when it is done.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Order {
    /// The callers begin.
    Go,
    /// The callers end.
    Pause,
    /// So many requests at once, each with the ranking turned on by one more.
    Burst {
        requests: usize,
        turn: usize,
    },
    /// Reports are written.
    Drain,
    Cool {
        id: String,
        length_ms: u64,
    },
    /// Moves a held clock.
    Advance {
        by_ms: u64,
    },
    /// Pauses, drains and ends.
    Stop,
}

struct Shop {
    spec: Spec,
    ledger: Arc<RedisLedger>,
    log: Log,
    hand: Option<Arc<ManualClock>>,
    open: AtomicBool,
    asked: AtomicU64,
}

#[test]
#[ignore = "what the proofs start as a process of its own; by itself it does nothing"]
fn a_process_that_the_proofs_start() {
    let mut first = String::new();
    std::io::stdin().lock().read_line(&mut first).unwrap();
    let Ok(spec) = serde_json::from_str::<Spec>(&first) else { return };
    let (told, orders) = mpsc::channel(16);
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if told.blocking_send(serde_json::from_str(&line).unwrap()).is_err() {
                return;
            }
        }
    });
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(run(spec, orders));
}

async fn run(spec: Spec, mut orders: mpsc::Receiver<Order>) {
    let settings = RedisSettings::of_url(&spec.url, "").unwrap();
    let (time, hand, corrects) = clock(spec.time);
    let ledger = if corrects {
        RedisLedger::start(settings, time).unwrap()
    } else {
        let deadline = Duration::from_millis(spec.deadline_ms);
        RedisLedger::start_for_scenario(settings, time, deadline).unwrap()
    };
    assert_eq!(ledger.wait_until_shared(SHARED_WITHIN).await, Status::Shared, "replica {}", spec.replica);
    let log = Log::create(&spec.log, spec.replica);
    let (open, asked) = (AtomicBool::new(false), AtomicU64::new(0));
    let shop = Arc::new(Shop { spec, ledger, log, hand, open, asked });
    watch_the_machine(Arc::clone(&shop));
    answer("ready");
    let mut callers = JoinSet::new();
    while let Some(order) = orders.recv().await {
        let ends = matches!(order, Order::Stop);
        shop.obey(order, &mut callers).await;
        answer("done");
        if ends {
            return;
        }
    }
    // The prover is gone, so nobody reads the log any more.
    callers.shutdown().await;
}

fn answer(word: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{ANSWER}{word}").unwrap();
    out.flush().unwrap();
}

/// Notes when the machine does not run this process, so that its load is not taken for the ledger's slowness.
fn watch_the_machine(shop: Arc<Shop>) {
    std::thread::spawn(move || {
        loop {
            let began = SystemClock.instant();
            std::thread::sleep(LOOK_EVERY);
            let late = began.elapsed().saturating_sub(LOOK_EVERY);
            if late > STALL {
                shop.log.write(What::Stalled { by_us: micros(late) });
            }
        }
    });
}

impl Shop {
    async fn obey(self: &Arc<Self>, order: Order, callers: &mut JoinSet<()>) {
        match order {
            Order::Go => {
                self.open.store(true, Ordering::Relaxed);
                for caller in 0..self.spec.callers {
                    let seed = self.spec.seed.wrapping_mul(1_000).wrapping_add(caller as u64);
                    callers.spawn(Arc::clone(self).ask_on(StdRng::seed_from_u64(seed)));
                }
            }
            Order::Pause => self.pause(callers).await,
            Order::Burst { requests, turn } => self.burst(requests, turn).await,
            Order::Drain => self.ledger.drain().await,
            Order::Cool { id, length_ms } => self.cool(id, length_ms),
            Order::Advance { by_ms } => {
                self.hand.as_ref().expect("a held clock").advance(Duration::from_millis(by_ms));
            }
            Order::Stop => {
                self.pause(callers).await;
                self.ledger.drain().await;
                self.log.write(What::Stopped);
            }
        }
    }

    async fn pause(&self, callers: &mut JoinSet<()>) {
        self.open.store(false, Ordering::Relaxed);
        while let Some(ended) = callers.join_next().await {
            ended.unwrap();
        }
        self.log.write(What::Paused);
    }

    async fn ask_on(self: Arc<Self>, mut dice: StdRng) {
        while self.open.load(Ordering::Relaxed) {
            let mut ids: Vec<usize> = (0..self.spec.deployments.len()).collect();
            ids.shuffle(&mut dice);
            ids.truncate(dice.random_range(1..=ids.len().min(7)));
            self.request(&ids, &mut dice).await;
            tokio::time::sleep(millis(dice.random_range(0..=self.spec.pause_ms))).await;
        }
    }

    async fn burst(self: &Arc<Self>, requests: usize, turn: usize) {
        let mut asked = JoinSet::new();
        for number in 0..requests {
            let mut ids: Vec<usize> = (0..self.spec.deployments.len()).collect();
            let by = (turn + number) % ids.len();
            ids.rotate_left(by);
            let mut dice = StdRng::seed_from_u64(self.spec.seed + number as u64);
            let shop = Arc::clone(self);
            asked.spawn(async move { shop.request(&ids, &mut dice).await });
        }
        asked.join_all().await;
    }

    async fn request(&self, ids: &[usize], dice: &mut StdRng) {
        let mix = self.spec.mix;
        let mut happens = |percent: u32| dice.random_range(0..100) < percent;
        let (views, unreserved, anyway) = (happens(mix.view), happens(mix.unreserved), happens(mix.anyway));
        let (leaves, voids, cools) = (happens(mix.leave), happens(mix.void), happens(mix.cool));
        if views {
            self.view().await;
        }
        if unreserved {
            let id = self.spec.deployments.choose(dice).unwrap().id.clone();
            let hold = Hold::unreserved(member(&id), self.ledger.now_ms());
            self.settle(hold, dice);
        }
        let leaves_after = leaves.then(|| dice.random_range(0..3_000));
        let Some(hold) = self.reserve(ids, anyway, leaves_after).await else { return };
        tokio::time::sleep(millis(dice.random_range(0..=self.spec.pause_ms))).await;
        if voids {
            self.log.write(What::Voided { hold: hold.tpm });
            return self.ledger.void(hold);
        }
        if cools {
            self.cool(hold.member.id.to_string(), dice.random_range(5..200));
        }
        self.settle(hold, dice);
    }

    async fn view(&self) {
        let members = self.spec.deployments.iter().map(|it| member(&it.id)).collect();
        let began = SystemClock.instant();
        self.ledger.view(&Group { name: "group".into(), members }).await;
        self.log.write(What::Viewed { wait_us: micros(began.elapsed()) });
    }

    async fn reserve(&self, ids: &[usize], anyway: bool, leaves_after: Option<u64>) -> Option<Hold> {
        let number = self.asked.fetch_add(1, Ordering::Relaxed);
        assert!(number < HOLDS, "more holds than a replica has names for");
        let tpm_hold = self.spec.replica * HOLDS + number;
        let wants: Vec<Want> = ids
            .iter()
            .map(|&at| {
                let it = &self.spec.deployments[at];
                Want {
                    member: member(&it.id),
                    rpm_limit: it.rpm,
                    tpm_limit: it.tpm,
                    tpm_hold,
                    must_fit: false,
                }
            })
            .collect();
        let named = wants.iter().map(|want| want.member.id.to_string()).collect();
        self.log.write(What::Asked { hold: tpm_hold, anyway, ids: named });
        let was_away = self.ledger.status() == Status::Away;
        let began = SystemClock.instant();
        let asked = self.ledger.reserve(Reserve { wants, ignore_cooldown: anyway });
        let reserved = match leaves_after {
            None => asked.await,
            Some(us) => tokio::select! {
                biased;
                reserved = asked => reserved,
                () = leave_after(us) => {
                    self.log.write(What::Left { hold: tpm_hold });
                    return None;
                }
            },
        };
        let wait_us = micros(began.elapsed());
        let away = was_away || self.ledger.status() == Status::Away;
        match reserved {
            Reserved::Granted { hold, rpm, .. } => {
                let (id, minute) = (hold.member.id.to_string(), hold.minute.hh_mm());
                self.log.write(What::Granted { hold: tpm_hold, id, minute, rpm, wait_us, away });
                Some(hold)
            }
            Reserved::Refused { passed } => {
                let why = passed.iter().map(|(_, denial)| word(*denial).to_owned()).collect();
                self.log.write(What::Refused { hold: tpm_hold, why, wait_us, away });
                None
            }
        }
    }

    fn settle(&self, hold: Hold, dice: &mut StdRng) {
        let tokens = match dice.random_range(0..4) {
            0 => 0,
            1 => hold.tpm,
            2 => dice.random_range(0..=hold.tpm),
            _ => hold.tpm + dice.random_range(0..500),
        };
        let ended = *[Ended::Success, Ended::Success, Ended::Failure, Ended::Neutral].choose(dice).unwrap();
        let outcome = match ended {
            Ended::Success => Outcome::Success,
            Ended::Failure => Outcome::Failure,
            Ended::Neutral => Outcome::Neutral,
        };
        let (id, reserved) = (hold.member.id.to_string(), hold.rpm > 0);
        self.log.write(What::Settled { hold: hold.tpm, id, reserved, tokens, ended });
        self.ledger.settle(Settle { hold, tokens, outcome, sample: Sample::default() });
    }

    fn cool(&self, id: String, length_ms: u64) {
        let cooldown = Cooldown {
            member: member(&id),
            length_ms,
            status: 429,
            reason: "proof".to_owned(),
            probation: false,
            probe: None,
        };
        self.ledger.cool(cooldown);
        self.log.write(What::Cooled { id, length_ms });
    }
}

fn word(denial: Denial) -> &'static str {
    match denial {
        Denial::Cooling { .. } => "cooling",
        Denial::Rpm { .. } => "rpm",
        Denial::Tpm { .. } => "tpm",
        Denial::Share { .. } => "share",
        Denial::Probing { .. } => "probing",
        Denial::Away { .. } => "away",
    }
}

/// Finer than the timer, which counts in milliseconds.
async fn leave_after(us: u64) {
    let began = SystemClock.instant();
    while began.elapsed() < Duration::from_micros(us) {
        tokio::task::yield_now().await;
    }
}

fn millis(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap()
}
