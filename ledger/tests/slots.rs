//! Hard parallel limits: never more leases than slots, whatever becomes of the replicas that hold them.
use crate::world::{PATIENT, START_MS, World, pttl, run, take_slot};
use ledger::{Ledger, RedisLedger, Slot, TakenSlot};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::task::JoinSet;

const KEY: &str = "onegate:slots:key:a";

/// A call that holds a slot, and frees it however it ends.
struct Call {
    ledger: Arc<RedisLedger>,
    slot: Slot,
    running: Arc<AtomicU64>,
}

impl Drop for Call {
    fn drop(&mut self) {
        self.running.fetch_sub(1, Ordering::SeqCst);
        self.ledger.free_slot(&self.slot);
    }
}

async fn taken(ledger: &RedisLedger, max: u64, lease: &str) -> Option<Slot> {
    match ledger.take_slot(take_slot("key:a", max, lease)).await {
        TakenSlot::Granted { slot, used } => {
            assert!(used <= max, "{used} of {max}");
            Some(slot)
        }
        TakenSlot::Refused { .. } => None,
        TakenSlot::Away => panic!("redis is away"),
    }
}

async fn leases(world: &World) -> u64 {
    let mut redis = world.server.connection().await;
    redis::cmd("ZCARD").arg(KEY).query_async(&mut redis).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_over_four_replicas_never_run_beside_each_other_more_than_allowed() {
    const MAX: u64 = 7;
    let world = World::new();
    let running = Arc::new(AtomicU64::new(0));
    let mut ledgers = Vec::new();
    for _ in 0..4 {
        ledgers.push(world.ledger(PATIENT).await);
    }
    let mut tasks = JoinSet::new();
    for task in 0..24 {
        let (ledger, running) = (Arc::clone(&ledgers[task % 4]), Arc::clone(&running));
        tasks.spawn(async move {
            let mut granted = 0;
            for number in 0..60 {
                let Some(slot) = taken(&ledger, MAX, &format!("{task}-{number}")).await else { continue };
                let now = running.fetch_add(1, Ordering::SeqCst) + 1;
                let call = Call { ledger: Arc::clone(&ledger), slot, running: Arc::clone(&running) };
                assert!(now <= MAX, "{now} calls run");
                granted += 1;
                tokio::task::yield_now().await;
                drop(call);
            }
            granted
        });
    }
    let granted: u64 = tasks.join_all().await.into_iter().sum();
    assert!(granted > MAX, "{granted}");
    for ledger in &ledgers {
        ledger.drain().await;
    }
    assert_eq!(leases(&world).await, 0);
}

#[tokio::test]
async fn the_slots_of_a_replica_that_dies_end_by_themselves_and_not_before() {
    const MAX: u64 = 6;
    let world = World::new();
    let (dying, living) = (world.ledger(PATIENT).await, world.ledger(PATIENT).await);
    for number in 0..4 {
        assert!(taken(&dying, MAX, &format!("d{number}")).await.is_some());
    }
    for number in 0..2 {
        assert!(taken(&living, MAX, &format!("l{number}")).await.is_some());
    }
    drop(dying);
    let more = async |from: usize| {
        let mut more = 0;
        for number in from..from + 10 {
            more += u64::from(taken(&living, MAX, &format!("m{number}")).await.is_some());
        }
        assert!(leases(&world).await <= MAX);
        more
    };
    world.advance(&living, Duration::from_secs(9)).await;
    living.drain().await;
    assert_eq!(more(0).await, 0);
    world.advance(&living, Duration::from_secs(2)).await;
    assert_eq!(more(10).await, 4);
    assert_eq!(more(20).await, 0);
}

#[tokio::test]
async fn a_replica_that_slept_does_not_take_back_slots_that_others_have_now() {
    let world = World::new();
    let sleeper = world.ledger(PATIENT).await;
    for lease in ["s1", "s2"] {
        assert!(taken(&sleeper, 2, lease).await.is_some());
    }
    // In one go: its leases end, and others take the slots.
    let ends_ms = START_MS + 60_000;
    let others =
        format!("redis.call('DEL', KEYS[1]) redis.call('ZADD', KEYS[1], {ends_ms}, 'o1', {ends_ms}, 'o2')");
    let mut redis = world.server.connection().await;
    redis::cmd("EVAL").arg(others).arg(1).arg(KEY).exec_async(&mut redis).await.unwrap();
    world.advance(&sleeper, Duration::from_secs(1)).await;
    sleeper.drain().await;
    let leases: Vec<String> =
        redis::cmd("ZRANGE").arg(KEY).arg(0).arg(-1).query_async(&mut redis).await.unwrap();
    assert_eq!(leases, ["o1", "o2"]);
    assert!(taken(&sleeper, 2, "s3").await.is_none());
}

#[tokio::test]
async fn leases_that_have_ended_take_no_slot() {
    let world = World::new();
    let ledger = world.ledger(PATIENT).await;
    let mut redis = world.server.connection().await;
    run(&mut redis, &format!("ZADD {KEY} {START_MS} ended1 {} ended2", START_MS - 1)).await;
    assert!(taken(&ledger, 1, "a").await.is_some());
    assert!(taken(&ledger, 1, "b").await.is_none());
    assert_eq!(leases(&world).await, 1);
}

#[tokio::test]
async fn slots_that_a_server_has_lost_are_told_again_as_far_as_there_is_room() {
    let world = World::new();
    let ledger = world.ledger(PATIENT).await;
    for lease in ["a", "b", "c"] {
        assert!(taken(&ledger, 3, lease).await.is_some());
    }
    let mut redis = world.server.connection().await;
    run(&mut redis, "FLUSHALL").await;
    world.advance(&ledger, Duration::from_secs(1)).await;
    ledger.drain().await;
    assert_eq!(leases(&world).await, 3);
    assert!(taken(&ledger, 3, "d").await.is_none());
}

#[tokio::test]
async fn slots_live_ten_seconds_from_the_last_renewal_and_leave_no_key() {
    let world = World::new();
    let ledger = world.ledger(PATIENT).await;
    let slot = taken(&ledger, 3, "a").await.unwrap();
    let mut redis = world.server.connection().await;
    let left_ms = pttl(&mut redis, KEY).await;
    assert!((1..=10_000).contains(&left_ms), "{left_ms}");
    world.advance(&ledger, Duration::from_secs(5)).await;
    ledger.drain().await;
    let left_ms = pttl(&mut redis, KEY).await;
    assert!((5_001..=10_000).contains(&left_ms), "{left_ms}");
    ledger.free_slot(&slot);
    ledger.drain().await;
    assert_eq!(pttl(&mut redis, KEY).await, -2);
}

#[tokio::test]
async fn a_caller_that_leaves_while_it_asks_leaves_no_slot_behind() {
    let world = World::new();
    let ledger = world.ledger(PATIENT).await;
    for number in 0..50 {
        let lease = format!("gone{number}");
        tokio::select! {
            biased;
            slot = taken(&ledger, 100, &lease) => ledger.free_slot(&slot.unwrap()),
            () = tokio::task::yield_now() => {}
        }
    }
    // The last call may still be under way; this one comes after it on the same line.
    let slot = taken(&ledger, 100, "last").await.unwrap();
    ledger.free_slot(&slot);
    ledger.drain().await;
    ledger.drain().await;
    assert_eq!(leases(&world).await, 0);
}
