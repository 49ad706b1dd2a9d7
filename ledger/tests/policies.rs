//! `on_outage` on a Redis that is killed: what has a limit is shared out, refused or let through; cooldowns and what
//! has no limit are the same under all three.
use crate::world::{STRICT, World, cooldown, counter, get, is_granted, member, one, until, want};
use ledger::{Denial, Ledger, OnOutage, RedisLedger, RedisSettings, Reserve, Reserved, Status, Want};
use std::sync::Arc;

async fn start(world: &World, on_outage: OnOutage) -> Arc<RedisLedger> {
    let settings = RedisSettings { on_outage, ..world.settings() };
    let ledger = RedisLedger::start_for_scenario(settings, world.clock.clone(), STRICT).unwrap();
    until("the ledger is shared", async || ledger.status() == Status::Shared).await;
    ledger
}

async fn away(ledger: &RedisLedger) {
    until("the ledger is away", async || ledger.status() == Status::Away).await;
}

async fn granted(ledger: &RedisLedger, id: &str, limit: Option<u64>, asked: usize) -> usize {
    let mut granted = 0;
    for _ in 0..asked {
        granted += usize::from(is_granted(&ledger.reserve(one(want(id, limit, 0))).await));
    }
    granted
}

#[tokio::test]
async fn deny_refuses_what_has_a_limit_and_passes_what_has_none() {
    let mut world = World::new();
    let ledger = start(&world, OnOutage::Deny).await;
    assert_eq!(granted(&ledger, "dep-a", Some(5), 3).await, 3);
    world.server.kill();
    away(&ledger).await;

    let passed = vec![(0, Denial::Away { wait_ms: 1_000 })];
    let refused = ledger.reserve(one(want("dep-a", Some(5), 0))).await;
    assert_eq!(refused, Reserved::Refused { passed: passed.clone() });
    let by_tokens = Want { tpm_limit: Some(100), ..want("dep-a", None, 7) };
    assert_eq!(ledger.reserve(one(by_tokens)).await, Reserved::Refused { passed: passed.clone() });
    let both =
        Reserve { wants: vec![want("dep-a", Some(5), 0), want("dep-b", None, 0)], ignore_cooldown: false };
    match ledger.reserve(both).await {
        Reserved::Granted { index, hold, passed: before, .. } => {
            assert_eq!((index, hold.member, before), (1, member("dep-b"), passed));
        }
        refused => panic!("{refused:?}"),
    }

    world.server.restart();
    until("the ledger is shared again", async || ledger.status() == Status::Shared).await;
    assert_eq!(granted(&ledger, "dep-a", Some(5), 5).await, 2, "three were counted before");
}

#[tokio::test]
async fn allow_limits_nothing_counts_all_and_still_keeps_cooldowns() {
    let mut world = World::new();
    let ledger = start(&world, OnOutage::Allow).await;
    world.server.kill();
    away(&ledger).await;
    assert_eq!(granted(&ledger, "dep-a", Some(5), 20).await, 20);
    ledger.cool(cooldown("dep-b", 30_000));
    assert_eq!(granted(&ledger, "dep-b", Some(5), 1).await, 0);

    world.server.restart();
    until("the ledger is shared again", async || ledger.status() == Status::Shared).await;
    assert_eq!(get(&mut world.server.connection().await, &counter("dep-a", "rpm")).await, Some(20));
    assert_eq!(granted(&ledger, "dep-a", Some(5), 1).await, 0);
}

#[tokio::test]
async fn local_is_the_default_and_admits_this_replicas_share() {
    let mut world = World::new();
    let ledger = start(&world, OnOutage::default()).await;
    world.server.kill();
    away(&ledger).await;
    assert_eq!(granted(&ledger, "dep-a", Some(5), 20).await, 5);
}

#[tokio::test]
async fn what_an_outage_cost_is_counted() {
    let mut world = World::new();
    let ledger = start(&world, OnOutage::Local).await;
    assert_eq!(granted(&ledger, "dep-a", Some(50), 3).await, 3);
    let before = ledger.tally();
    assert_eq!((before.by_policy, before.outages, before.replicas), (0, 0, 1));
    world.server.kill();
    away(&ledger).await;
    assert_eq!(granted(&ledger, "dep-a", Some(50), 4).await, 4);
    let after = ledger.tally();
    assert_eq!((after.by_policy, after.outages), (4, 1));
    world.server.restart();
    until("the ledger is shared again", async || ledger.status() == Status::Shared).await;
    world.server.freeze();
    assert_eq!(granted(&ledger, "dep-a", Some(50), 1).await, 1);
    assert!(ledger.tally().missed > after.missed, "{:?}", ledger.tally());
    world.server.thaw();
}
