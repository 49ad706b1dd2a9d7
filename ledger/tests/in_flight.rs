//! What runs in the fleet: each replica knows its own calls exactly and the others' by their last beat, and what a
//! killed one ran is soon forgotten.
use crate::world::{PATIENT, World, group, hold_of, is_granted, member, one, pttl, run, until, want};
use ledger::{Clock, Ledger, Outcome, RedisLedger, Sample, Settle, SystemClock};
use redis::aio::MultiplexedConnection;
use std::time::Duration;

const A_LOADED_MACHINES: Duration = Duration::from_secs(1);

async fn in_flight(ledger: &RedisLedger, id: &str) -> u64 {
    ledger.view(&group(&[id])).await.readings[0].in_flight
}

async fn shares(redis: &mut MultiplexedConnection) -> Vec<String> {
    redis::cmd("KEYS").arg("onegate:inflight:*").query_async(redis).await.unwrap()
}

#[tokio::test]
async fn calls_of_other_replicas_are_seen_until_they_end() {
    let world = World::new();
    let (ours, others) = (world.ledger(PATIENT).await, world.ledger(PATIENT).await);
    let hold = hold_of(others.reserve(one(want("dep-a", Some(9), 10))).await);
    let free = others.begin(&member("dep-a"));
    let own = ours.begin(&member("dep-a"));
    assert_eq!(in_flight(&others, "dep-a").await, 2);
    until("both see all three", async || {
        in_flight(&ours, "dep-a").await == 3 && in_flight(&others, "dep-a").await == 3
    })
    .await;

    others.settle(Settle { hold, tokens: 10, outcome: Outcome::Success, sample: Sample::default() });
    others.void(free);
    assert_eq!(in_flight(&others, "dep-a").await, 1);
    until("the other's calls have ended here too", async || in_flight(&ours, "dep-a").await == 1).await;
    ours.void(own);
    assert_eq!(in_flight(&ours, "dep-a").await, 0);
    until("none sees any", async || in_flight(&others, "dep-a").await == 0).await;
    let mut redis = world.server.connection().await;
    until("idle replicas hold no key", async || shares(&mut redis).await.is_empty()).await;
}

#[tokio::test]
async fn the_share_of_a_killed_replica_is_gone_within_three_and_a_half_seconds() {
    let world = World::new();
    let (ours, killed) = (world.ledger(PATIENT).await, world.ledger(PATIENT).await);
    assert!(is_granted(&killed.reserve(one(want("dep-a", None, 0))).await));
    killed.begin(&member("dep-a"));
    ours.begin(&member("dep-a"));
    until("the other's calls are seen", async || in_flight(&ours, "dep-a").await == 3).await;

    // A kill does no more than this: no task runs on, nothing is taken back.
    drop(killed);
    let killed_at = SystemClock.instant();
    until("its share is gone", async || in_flight(&ours, "dep-a").await == 1).await;
    let took = killed_at.elapsed();
    // 3 s that it lives, half a second until the next beat, and what a loaded machine adds.
    assert!(took < Duration::from_millis(3_500) + A_LOADED_MACHINES, "it took {took:?}");
}

#[tokio::test]
async fn a_share_lives_three_seconds_at_most_and_is_renewed_while_calls_run() {
    let world = World::new();
    let ledger = world.ledger(PATIENT).await;
    let mut redis = world.server.connection().await;
    ledger.begin(&member("dep-a"));
    until("the share is written", async || !shares(&mut redis).await.is_empty()).await;
    let key = shares(&mut redis).await.remove(0);
    let left_ms = pttl(&mut redis, &key).await;
    assert!((1..=3_000).contains(&left_ms), "{left_ms} ms");
    run(&mut redis, &format!("PEXPIRE {key} 1500")).await;
    until("it is renewed", async || pttl(&mut redis, &key).await > 1_500).await;
}

#[tokio::test]
async fn shares_that_cannot_be_read_count_as_nothing() {
    let world = World::new();
    let ledger = world.ledger(PATIENT).await;
    let mut redis = world.server.connection().await;
    for (replica, plant) in [
        ("odd", "SET {} {\"dep-a\":-7} PX 60000"),
        ("list", "RPUSH {} 5"),
        ("fine", "SET {} {\"dep-a\":4} PX 60000"),
    ] {
        run(&mut redis, &plant.replace("{}", &format!("onegate:inflight:{replica}"))).await;
        let later: i64 = 4_000_000_000_000;
        run(&mut redis, &format!("ZADD onegate:replicas {later} {replica}")).await;
    }
    redis::cmd("SET")
        .arg("onegate:inflight:bytes")
        .arg(&[0xff_u8, 0xfe][..])
        .exec_async(&mut redis)
        .await
        .unwrap();
    run(&mut redis, "ZADD onegate:replicas 4000000000000 bytes").await;
    until("what can be read is", async || in_flight(&ledger, "dep-a").await == 4).await;
}
