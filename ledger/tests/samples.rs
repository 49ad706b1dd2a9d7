//! Samples in Redis: shared by all replicas, the last ones only, an hour at most, and harmless where malformed.
use crate::world::{PATIENT, World, group, member, pttl, run, until};
use ledger::{Latency, Ledger, Outcome, Reading, RedisLedger, Sample, Settle, Sizes};
use redis::aio::MultiplexedConnection;

const LATENCY: &str = "deployment:dep-a:latency";
const SIZES: &str = "deployment:dep-a:sizes";

fn sizes(output: u64) -> Sizes {
    Sizes { estimated: 10, input: 12, output }
}

fn end_with(ledger: &RedisLedger, sample: Sample) {
    let hold = ledger.begin(&member("dep-a"));
    ledger.settle(Settle { hold, tokens: 1, outcome: Outcome::Success, sample });
}

async fn reading(ledger: &RedisLedger) -> Reading {
    ledger.view(&group(&["dep-a"])).await.readings.remove(0)
}

async fn text(redis: &mut MultiplexedConnection, key: &str) -> Option<String> {
    redis::cmd("GET").arg(key).query_async(redis).await.unwrap()
}

#[tokio::test]
async fn what_one_replica_measured_all_replicas_know() {
    let world = World::new();
    let (ours, others) = (world.ledger(PATIENT).await, world.ledger(PATIENT).await);
    end_with(&others, Sample { latency: Some(Latency::TimedOut), sizes: Some(sizes(40)) });
    others.drain().await;
    end_with(&ours, Sample { latency: None, sizes: Some(sizes(50)) });
    until("both are known to both", async || {
        let (here, there) = (reading(&ours).await, reading(&others).await);
        here == there && here.sizes.len() == 2 && here.latency.len() == 1
    })
    .await;
    assert_eq!(*reading(&ours).await.sizes, [sizes(40), sizes(50)]);
}

#[tokio::test]
async fn the_last_ones_lie_in_redis_for_an_hour() {
    let world = World::new();
    let ledger = world.ledger(PATIENT).await;
    let mut redis = world.server.connection().await;
    for output in 0..70 {
        let latency = Latency::Answered { per_token_us: output, first_token_us: None };
        end_with(&ledger, Sample { latency: Some(latency), sizes: Some(sizes(output)) });
        if output % 20 == 0 {
            ledger.drain().await;
        }
    }
    ledger.drain().await;
    assert_eq!(text(&mut redis, LATENCY).await.unwrap(), "60 61 62 63 64 65 66 67 68 69");
    let lie = text(&mut redis, SIZES).await.unwrap();
    assert!(lie.starts_with("10/12/20 10/12/21 ") && lie.ends_with(" 10/12/69"), "{lie}");
    for key in [LATENCY, SIZES] {
        let left_ms = pttl(&mut redis, key).await;
        assert!((3_500_000..=3_600_000).contains(&left_ms), "{key} lives {left_ms} ms");
    }
}

#[tokio::test]
async fn what_is_malformed_in_redis_is_ignored_and_in_time_replaced() {
    let filler = "x".repeat(10_000);
    for plant in ["RPUSH {} 1/2/3", "SET {} 1/2/x", &format!("SET {{}} {filler}")] {
        let world = World::new();
        let ledger = world.ledger(PATIENT).await;
        let mut redis = world.server.connection().await;
        for key in [LATENCY, SIZES] {
            run(&mut redis, &plant.replace("{}", key)).await;
        }
        let before = reading(&ledger).await;
        assert!(before.sizes.is_empty() && before.latency.is_empty(), "{plant}");
        end_with(&ledger, Sample { latency: Some(Latency::TimedOut), sizes: Some(sizes(7)) });
        ledger.drain().await;
        let other = reading(&*world.ledger(PATIENT).await).await;
        assert_eq!((&*other.sizes, &*other.latency), (&[sizes(7)][..], &[Latency::TimedOut][..]), "{plant}");
    }
}

#[tokio::test]
async fn a_value_that_is_no_text_costs_the_others_nothing() {
    let world = World::new();
    let ledger = world.ledger(PATIENT).await;
    let mut redis = world.server.connection().await;
    redis::cmd("SET").arg(SIZES).arg(&b"1/2/3 \xff\xfe 4/5/6"[..]).exec_async(&mut redis).await.unwrap();
    run(&mut redis, &format!("SET {} 5 PX 60000", crate::world::counter("dep-a", "rpm"))).await;
    let reading = reading(&ledger).await;
    assert_eq!((reading.rpm, reading.sizes.len()), (5, 2));
}
