//! Reservations at a steady rate from several ledgers, and what came of them.
use crate::world::{is_granted, one, want};
use ledger::{Clock, Ledger, RedisLedger, SystemClock};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::task::JoinSet;

/// What a load did.
#[derive(Default)]
pub(crate) struct Report {
    pub(crate) asked: AtomicU64,
    pub(crate) granted: AtomicU64,
    /// Every wait beyond the deadline and what this machine adds.
    pub(crate) slow: Mutex<Vec<Duration>>,
}

/// A load that runs until it is told to stop.
pub(crate) struct Load {
    stop: Arc<AtomicBool>,
    report: Arc<Report>,
    tasks: JoinSet<()>,
}

impl Load {
    /// So many reservations a second, turn by turn over the ledgers and ids; `slow` is what counts as a long wait.
    pub(crate) fn start(
        ledgers: &[Arc<RedisLedger>],
        ids: &[&str],
        limit: u64,
        rate: u32,
        slow: Duration,
    ) -> Self {
        let (stop, report) = (Arc::new(AtomicBool::new(false)), Arc::new(Report::default()));
        let (over, told) = (Arc::clone(&stop), Arc::clone(&report));
        let ledgers = ledgers.to_vec();
        let ids: Vec<String> = ids.iter().map(|&id| id.to_owned()).collect();
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut calls = JoinSet::new();
            let mut ticks = tokio::time::interval(Duration::from_secs(1) / rate);
            for number in 0_usize.. {
                if over.load(Ordering::Relaxed) {
                    break;
                }
                ticks.tick().await;
                let (ledger, id) = (
                    Arc::clone(&ledgers[number % ledgers.len()]),
                    ids[number / ledgers.len() % ids.len()].clone(),
                );
                let report = Arc::clone(&told);
                calls.spawn(async move {
                    let began = SystemClock.instant();
                    let granted = is_granted(&ledger.reserve(one(want(&id, Some(limit), 0))).await);
                    let took = began.elapsed();
                    report.asked.fetch_add(1, Ordering::Relaxed);
                    report.granted.fetch_add(u64::from(granted), Ordering::Relaxed);
                    if took > slow {
                        report.slow.lock().unwrap().push(took);
                    }
                });
                while calls.try_join_next().is_some() {}
            }
            calls.join_all().await;
        });
        Self { stop, report, tasks }
    }

    pub(crate) fn report(&self) -> &Report {
        &self.report
    }

    /// Ends it, with every call answered.
    pub(crate) async fn stop(self) -> Arc<Report> {
        self.stop.store(true, Ordering::Relaxed);
        self.tasks.join_all().await;
        self.report
    }
}
