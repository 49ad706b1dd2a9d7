//! Cooldowns between replicas, and those that LiteLLM writes.
use crate::world::{PATIENT, START_MS, World, cooldown, group, is_granted, one, pttl, until, want};
use ledger::{Cooling, Denial, Ledger, Reserved};

const KEY: &str = "deployment:dep-a:cooldown";

#[tokio::test]
async fn a_cooldown_binds_another_replica_and_is_never_shortened() {
    let world = World::new();
    let (ours, others) = (world.ledger(PATIENT).await, world.ledger(PATIENT).await);
    ours.cool(cooldown("dep-a", 50_000));
    until("the other replica passes it by", async || {
        !is_granted(&others.reserve(one(want("dep-a", None, 0))).await)
    })
    .await;

    let mut redis = world.server.connection().await;
    others.cool(cooldown("dep-a", 1_000));
    others.drain().await;
    assert!(pttl(&mut redis, KEY).await > 10_000);
    others.cool(cooldown("dep-a", 80_000));
    others.drain().await;
    assert!(pttl(&mut redis, KEY).await > 60_000);
}

#[tokio::test]
async fn a_cooldown_does_not_wait_for_the_flush_of_its_own_replica() {
    let world = World::new();
    let ledger = world.ledger(PATIENT).await;
    ledger.cool(cooldown("dep-a", 50_000));
    let refused = ledger.reserve(one(want("dep-a", None, 0))).await;
    let Reserved::Refused { passed } = refused else { panic!("{refused:?}") };
    assert!(matches!(passed[..], [(0, Denial::Cooling { wait_ms: 1_000..=50_000 })]), "{passed:?}");
}

#[tokio::test]
async fn a_cooldown_that_litellm_wrote_is_obeyed() {
    let world = World::new();
    let ledger = world.ledger(PATIENT).await;
    let mut redis = world.server.connection().await;
    let value = format!(
        "{{'exception_received': 'RateLimitError: slow dow****', 'status_code': '429', \
         'timestamp': {}.45, 'cooldown_time': 30.5}}",
        START_MS / 1_000
    );
    redis::cmd("SET").arg(KEY).arg(value).arg("EX").arg(30).exec_async(&mut redis).await.unwrap();
    assert!(!is_granted(&ledger.reserve(one(want("dep-a", None, 0))).await));
    let view = ledger.view(&group(&["dep-a"])).await;
    assert_eq!(view.readings[0].cooldown, Some(Cooling { until_ms: START_MS + 30_950, status: 429 }));
}

#[tokio::test]
async fn a_cooldown_without_an_end_gets_one() {
    let world = World::new();
    let ledger = world.ledger(PATIENT).await;
    let mut redis = world.server.connection().await;
    redis::cmd("SET").arg(KEY).arg("{}").exec_async(&mut redis).await.unwrap();
    assert!(!is_granted(&ledger.reserve(one(want("dep-a", None, 0))).await));
    assert!((1..=60_000).contains(&pttl(&mut redis, KEY).await));
}

#[tokio::test]
async fn what_is_written_is_what_litellm_reads() {
    let world = World::new();
    let ledger = world.ledger(PATIENT).await;
    ledger.cool(cooldown("dep-a", 5_000));
    ledger.drain().await;
    let mut redis = world.server.connection().await;
    let text: String = redis::cmd("GET").arg(KEY).query_async(&mut redis).await.unwrap();
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    let seconds = (START_MS / 1_000) as f64;
    assert_eq!(json["exception_received"], "too many");
    assert_eq!(json["status_code"], "429");
    assert_eq!(json["timestamp"], seconds);
    assert_eq!(json["cooldown_time"], 5.0);
    assert_eq!(json["until_ms"], START_MS + 5_000);
}
