//! A limit of n admits n over all replicas, whatever is done to the server meanwhile.
use crate::world::{PATIENT, World, counter, get, hold_of, is_granted, one, run, until, want};
use ledger::{Denial, Ledger, Outcome, RedisLedger, Reserved, Sample, Settle, Status};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::task::JoinSet;

async fn admitted(ledgers: &[Arc<RedisLedger>], requests: usize, limit: u64) -> usize {
    let mut asked = JoinSet::new();
    for number in 0..requests {
        let ledger = Arc::clone(&ledgers[number % ledgers.len()]);
        asked.spawn(async move { is_granted(&ledger.reserve(one(want("dep-a", Some(limit), 3))).await) });
    }
    asked.join_all().await.into_iter().filter(|&granted| granted).count()
}

async fn replicas(world: &World, number: usize) -> Vec<Arc<RedisLedger>> {
    let mut ledgers = Vec::new();
    for _ in 0..number {
        ledgers.push(world.ledger(PATIENT).await);
    }
    ledgers
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn four_replicas_and_a_thousand_requests_admit_exactly_the_limit() {
    let world = World::new();
    let ledgers = replicas(&world, 4).await;
    assert_eq!(admitted(&ledgers, 1_000, 300).await, 300);
    let mut redis = world.server.connection().await;
    assert_eq!(get(&mut redis, &counter("dep-a", "rpm")).await, Some(300));
    assert_eq!(get(&mut redis, &counter("dep-a", "tpm")).await, Some(900));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn as_many_requests_as_there_is_room_are_all_admitted() {
    let world = World::new();
    let ledgers = replicas(&world, 3).await;
    let wants: Vec<_> = (0..10).map(|n| want(&format!("dep-{n}"), Some(1), 0)).collect();
    let mut asked = JoinSet::new();
    for number in 0..10 {
        let ledger = Arc::clone(&ledgers[number % 3]);
        let mut wants = wants.clone();
        wants.rotate_left(number / 2);
        asked.spawn(async move {
            let reserve = ledger::Reserve { wants, ignore_cooldown: false };
            hold_of(ledger.reserve(reserve).await).member.id
        });
    }
    let mut taken = asked.join_all().await;
    taken.sort();
    taken.dedup();
    assert_eq!(taken.len(), 10);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scripts_that_are_flushed_all_the_time_lose_and_double_nothing() {
    let world = World::new();
    let ledgers = replicas(&world, 2).await;
    let over = Arc::new(AtomicBool::new(false));
    let mut flushing = JoinSet::new();
    let (mut redis, stop) = (world.server.connection().await, Arc::clone(&over));
    flushing.spawn(async move {
        let mut flushes = 0;
        while !stop.load(Ordering::Relaxed) {
            run(&mut redis, "SCRIPT FLUSH").await;
            flushes += 1;
            tokio::task::yield_now().await;
        }
        flushes
    });
    let mut calls = JoinSet::new();
    for number in 0..300_usize {
        let ledger = Arc::clone(&ledgers[number % 2]);
        calls.spawn(async move {
            let reserved = ledger.reserve(one(want("dep-a", Some(200), 10))).await;
            if let Reserved::Granted { hold, .. } = reserved {
                ledger.settle(Settle {
                    hold,
                    tokens: 25,
                    outcome: Outcome::Failure,
                    sample: Sample::default(),
                });
                ledger.drain().await;
            }
        });
    }
    calls.join_all().await;
    over.store(true, Ordering::Relaxed);
    assert!(flushing.join_all().await[0] > 0);
    for ledger in &ledgers {
        ledger.drain().await;
    }
    let mut redis = world.server.connection().await;
    let mut found = Vec::new();
    for name in ["rpm", "tpm", "calls", "fails"] {
        found.push(get(&mut redis, &counter("dep-a", name)).await);
    }
    assert_eq!(found, [Some(200), Some(5_000), Some(200), Some(200)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_are_killed_never_admit_more_than_the_limit() {
    let world = World::new();
    let ledgers = replicas(&world, 2).await;
    let mut redis = world.server.connection().await;
    let mut granted = 0;
    for _ in 0..10 {
        run(&mut redis, "CLIENT KILL TYPE normal SKIPME yes").await;
        granted += admitted(&ledgers, 20, 100).await;
    }
    // A kill may cost a slot (it is unknown whether the call ran) and may never win one.
    assert!((50..=100).contains(&granted), "{granted}");
    until("all are shared", async || ledgers.iter().all(|it| it.status() == Status::Shared)).await;
}

#[tokio::test]
async fn a_replica_whose_clock_is_wrong_counts_by_the_servers() {
    let world = World::new();
    // Not corrected by hand: this ledger has to find out by itself that its clock shows another year.
    let ledger = RedisLedger::start(world.settings(), world.clock.clone()).unwrap();
    assert_eq!(ledger.wait_until_shared(PATIENT).await, Status::Shared);
    let mut redis = world.server.connection().await;
    let server_ms = server_ms(&mut redis).await;
    assert!(ledger.now_ms().abs_diff(server_ms) < 5_000, "{} {server_ms}", ledger.now_ms());
}

#[tokio::test]
async fn a_clock_that_jumps_between_two_corrections_opens_no_other_window() {
    let world = World::new();
    let ledger = RedisLedger::start(world.settings(), world.clock.clone()).unwrap();
    assert_eq!(ledger.wait_until_shared(PATIENT).await, Status::Shared);
    world.clock.advance(Duration::from_secs(3_600));
    let hold = hold_of(ledger.reserve(one(want("dep-a", Some(1), 0))).await);
    let mut redis = world.server.connection().await;
    let server_ms = server_ms(&mut redis).await;
    let minutes = [server_ms - 60_000, server_ms].map(ledger::Minute::of);
    assert!(minutes.contains(&hold.minute), "{hold:?} at {server_ms}");
}

async fn server_ms(redis: &mut redis::aio::MultiplexedConnection) -> u64 {
    let (seconds, micros): (u64, u64) = redis::cmd("TIME").query_async(redis).await.unwrap();
    seconds * 1_000 + micros / 1_000
}

#[tokio::test]
async fn a_counter_is_never_created_outside_the_servers_minute() {
    let world = World::new();
    let mut redis = world.server.connection().await;
    for minute in [0, 99_999_999] {
        let answer: Vec<i64> = redis::cmd("EVAL")
            .arg(include_str!("../../lua/reserve.lua"))
            .arg(5)
            .arg(&["rpm", "tpm", "cooldown", "trips", "probe"])
            .arg(&[0, minute, 0, 15_000, 5, -1, 7])
            .query_async(&mut redis)
            .await
            .unwrap();
        assert_eq!(answer[0], -1);
        assert_eq!(get(&mut redis, "rpm").await, None);
        assert_eq!(get(&mut redis, "tpm").await, None);
    }
}

#[tokio::test]
async fn a_refusal_waits_for_the_end_of_the_minute() {
    let world = World::new();
    let ledger = world.ledger(PATIENT).await;
    hold_of(ledger.reserve(one(want("dep-a", Some(1), 0))).await);
    world.advance(&ledger, Duration::from_secs(20)).await;
    let refused = ledger.reserve(one(want("dep-a", Some(1), 0))).await;
    let passed = vec![(0, Denial::Rpm { used: 1, limit: 1, wait_ms: 30_000 })];
    assert_eq!(refused, Reserved::Refused { passed });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_that_leaves_before_the_answer_takes_no_slot_along() {
    let world = World::new();
    let ledger = world.ledger(PATIENT).await;
    let mut redis = world.server.connection().await;
    redis::cmd("SET")
        .arg("deployment:dep-a:trips")
        .arg(1)
        .arg("PX")
        .arg(60_000)
        .exec_async(&mut redis)
        .await
        .unwrap();
    world.server.freeze();
    let asked = ledger.reserve(one(want("dep-a", Some(1), 5)));
    tokio::select! {
        biased;
        reserved = asked => panic!("answered by a frozen server: {reserved:?}"),
        () = std::future::ready(()) => {}
    }
    world.server.thaw();
    ledger.drain().await;
    let was_taken = get(&mut redis, &counter("dep-a", "tpm")).await;
    assert_eq!(was_taken, Some(0), "it was charged, and given back");
    assert_eq!(get(&mut redis, &counter("dep-a", "rpm")).await, Some(0));
    let hold = hold_of(ledger.reserve(one(want("dep-a", Some(1), 5))).await);
    assert!(hold.probe.is_some(), "the right to try it went with the caller");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_that_never_asked_causes_nothing() {
    let world = World::new();
    let ledger = world.ledger(PATIENT).await;
    drop(ledger.reserve(one(want("dep-a", Some(1), 5))));
    ledger.drain().await;
    let mut redis = world.server.connection().await;
    assert_eq!(get(&mut redis, &counter("dep-a", "rpm")).await, None);
}
