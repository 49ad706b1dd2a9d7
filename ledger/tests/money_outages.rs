//! Money and slots while Redis is frozen, killed or empty: every request is answered, and nothing spent is missing.
use crate::world::{STRICT, World, claim, figures, held, hold_spend, take_slot, until};
use ledger::{
    HeldSpend, HoldSpend, Ledger, MicroDollars, OnOutage, RedisLedger, RenewSpend, SpendHold, Status,
    TakeSlot, TakenSlot,
};
use std::time::Duration;

async fn becomes(ledger: &RedisLedger, status: Status) {
    until(&format!("the ledger is {status:?}"), async || ledger.status() == status).await;
}

async fn stands_at(ledger: &RedisLedger, scope: &str, want: [u64; 3]) {
    until(&format!("{scope} stands at {want:?}"), async || {
        ledger.drain().await;
        ledger.status() == Status::Shared && figures(ledger, scope).await == want
    })
    .await;
}

async fn asks(ledger: &RedisLedger, id: &str, limit: u64, amount: u64) -> Option<SpendHold> {
    match ledger.hold_spend(hold_spend(id, &[claim("key:a", limit, amount)])).await {
        HeldSpend::Granted { hold, .. } => Some(hold),
        HeldSpend::Refused(_) => None,
        HeldSpend::Away => panic!("denied"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_redis_loses_no_money_and_counts_none_twice() {
    let world = World::new();
    let ledger = world.ledger(STRICT).await;
    let mut holds = Vec::new();
    for number in 0..10 {
        holds.push(asks(&ledger, &format!("before{number}"), 1_000, 10).await.unwrap());
    }
    world.server.freeze();
    // Told, perhaps sent, never answered; then more that Redis has not even been asked for.
    for hold in &holds[..5] {
        ledger.settle_spend(hold, MicroDollars::new(20));
    }
    for number in 0..5 {
        holds.push(asks(&ledger, &format!("during{number}"), 1_000, 10).await.unwrap());
    }
    becomes(&ledger, Status::Away).await;
    for number in 5..10 {
        holds.push(asks(&ledger, &format!("during{number}"), 1_000, 10).await.unwrap());
    }
    for hold in &holds[5..18] {
        ledger.settle_spend(hold, MicroDollars::new(3));
        ledger.settle_spend(hold, MicroDollars::new(99));
    }
    ledger.void_spend(&holds[18]);
    ledger.renew_spend(RenewSpend { hold: holds[19].clone(), lease_ms: 90_000, sent: true });
    world.server.thaw();
    // 5 x 20 and 13 x 3 spent; the last one still runs, and others see it.
    stands_at(&ledger, "key:a", [139, 10, 0]).await;
    let other = world.ledger(STRICT).await;
    assert_eq!(figures(&*other, "key:a").await, [139, 10, 0]);
    ledger.settle_spend(&holds[19], MicroDollars::new(1));
    stands_at(&ledger, "key:a", [140, 0, 0]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_was_sent_is_charged_though_its_hold_was_never_answered() {
    let world = World::new();
    let ledger = world.ledger(STRICT).await;
    world.server.freeze();
    let hold = asks(&ledger, "a", 100, 10).await.unwrap();
    ledger.renew_spend(RenewSpend { hold, lease_ms: 20_000, sent: true });
    world.server.thaw();
    // What was asked then runs now, as a hold of a call that was not sent.
    stands_at(&ledger, "key:a", [0, 10, 0]).await;
    until("all is told", async || {
        ledger.drain().await;
        ledger.status() == Status::Shared
    })
    .await;
    world.advance(&ledger, Duration::from_secs(61)).await;
    asks(&ledger, "b", 100, 0).await.unwrap();
    stands_at(&ledger, "key:a", [10, 0, 10]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_redis_is_away_a_budget_binds_by_what_was_last_seen() {
    let mut world = World::new();
    let (ledger, other) = (world.ledger(STRICT).await, world.ledger(STRICT).await);
    let hold = asks(&other, "o", 100, 70).await.unwrap();
    other.settle_spend(&hold, MicroDollars::new(70));
    other.drain().await;
    let hold = asks(&ledger, "a", 100, 10).await.unwrap();
    world.server.kill();
    becomes(&ledger, Status::Away).await;
    // 70 spent and 10 held were seen; 15 spent instead of the 10 held.
    ledger.settle_spend(&hold, MicroDollars::new(15));
    assert_eq!(figures(&*ledger, "key:a").await, [85, 0, 0]);
    let running = asks(&ledger, "b", 100, 20).await.unwrap();
    assert!(asks(&ledger, "c", 100, 20).await.is_none());
    ledger.void_spend(&running);
    assert!(asks(&ledger, "d", 100, 20).await.is_some());

    let ask = hold_spend("e", &[claim("key:a", 100, 20)]);
    let by = |on_outage| HoldSpend { on_outage, ..ask.clone() };
    assert_eq!(ledger.hold_spend(by(OnOutage::Deny)).await, HeldSpend::Away);
    assert!(matches!(ledger.hold_spend(by(OnOutage::Local)).await, HeldSpend::Refused(_)));
    held(ledger.hold_spend(by(OnOutage::Allow)).await);

    // An empty Redis is told of what it has not got: one end, two holds.
    world.server.restart();
    becomes(&ledger, Status::Shared).await;
    stands_at(&ledger, "key:a", [15, 40, 0]).await;
}

async fn takes(ledger: &RedisLedger, lease: &str, max: u64) -> bool {
    matches!(ledger.take_slot(take_slot("key:a", max, lease)).await, TakenSlot::Granted { .. })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_redis_is_away_each_replica_has_its_share_of_the_slots() {
    let mut world = World::new();
    let (ledger, other) = (world.ledger(STRICT).await, world.ledger(STRICT).await);
    // The replica that came first learns of the other by its heart.
    let mut redis = world.server.connection().await;
    let beats = async |redis: &mut redis::aio::MultiplexedConnection| -> u64 {
        let stats: String = redis::cmd("INFO").arg("commandstats").query_async(redis).await.unwrap();
        let line = stats.lines().find_map(|line| line.strip_prefix("cmdstat_zadd:calls=")).unwrap();
        line.split(',').next().unwrap().parse().unwrap()
    };
    until("both have beaten again", async || beats(&mut redis).await >= 5).await;
    for lease in ["a", "b"] {
        assert!(takes(&ledger, lease, 5).await);
    }
    world.server.kill();
    becomes(&ledger, Status::Away).await;
    becomes(&other, Status::Away).await;
    assert!(!takes(&ledger, "c", 5).await);
    assert!(takes(&other, "d", 5).await && takes(&other, "e", 5).await);
    assert!(!takes(&other, "f", 5).await);
    assert!(!takes(&other, "none", 0).await);
    let denied = TakeSlot { on_outage: OnOutage::Deny, ..take_slot("key:a", 5, "g") };
    assert_eq!(other.take_slot(denied).await, TakenSlot::Away);

    world.server.restart();
    becomes(&ledger, Status::Shared).await;
    becomes(&other, Status::Shared).await;
    // Their clock is held, so the time of a renewal comes when it is moved.
    world.clock.advance(Duration::from_secs(1));
    let mut redis = world.server.connection().await;
    until("the slots are told again", async || {
        ledger.drain().await;
        other.drain().await;
        let leases: u64 =
            redis::cmd("ZCARD").arg("onegate:slots:key:a").query_async(&mut redis).await.unwrap();
        leases == 4
    })
    .await;
    assert!(takes(&ledger, "h", 5).await);
    assert!(!takes(&other, "i", 5).await);
}
