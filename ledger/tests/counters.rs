//! What stands in Redis: names, times to live, and what is never written there.
use crate::world::{
    PATIENT, World, cooldown, counter, get, group, hold_of, member, one, pttl, run, until, want,
};
use ledger::{Hold, Latency, Ledger, Outcome, RedisLedger, RedisSettings, Sample, Settle, Sizes};
use redis::aio::MultiplexedConnection;
use std::sync::Arc;
use tokio::task::JoinSet;

const SAMPLE: Sample =
    Sample { latency: Some(Latency::TimedOut), sizes: Some(Sizes { estimated: 9, input: 10, output: 20 }) };

async fn keys(redis: &mut MultiplexedConnection) -> Vec<String> {
    let mut keys: Vec<String> = redis::cmd("KEYS").arg("*").query_async(redis).await.unwrap();
    keys.sort();
    keys
}

/// What the one replica writes of its calls in flight, once it has.
async fn in_flight_key(redis: &mut MultiplexedConnection) -> String {
    let mut found = None;
    until("the calls in flight are told", async || {
        found = keys(redis).await.into_iter().find(|key| key.contains("onegate:inflight:"));
        found.is_some()
    })
    .await;
    found.unwrap()
}

#[tokio::test]
async fn every_key_has_its_name_and_its_time_to_live() {
    let world = World::new();
    let ledger = world.ledger(PATIENT).await;
    let hold = hold_of(ledger.reserve(one(want("dep-a", Some(5), 10))).await);
    ledger.settle(Settle { hold, tokens: 30, outcome: Outcome::Failure, sample: SAMPLE });
    ledger.cool(cooldown("dep-a", 90_000));
    ledger.begin(&member("dep-b"));
    ledger.drain().await;

    let mut redis = world.server.connection().await;
    let in_flight = in_flight_key(&mut redis).await;
    let mut want = ["rpm", "tpm", "calls", "fails"].map(|name| counter("dep-a", name)).to_vec();
    want.extend([
        "deployment:dep-a:cooldown".to_owned(),
        counter("dep-b", "rpm"),
        "deployment:dep-a:latency".to_owned(),
        "deployment:dep-a:sizes".to_owned(),
        "onegate:replicas".to_owned(),
        "onegate:epoch".to_owned(),
        in_flight.clone(),
    ]);
    want.sort();
    assert_eq!(keys(&mut redis).await, want);
    for key in &want {
        let most_ms = match key.as_str() {
            "deployment:dep-a:cooldown" => 90_000,
            "onegate:epoch" => 120_000,
            "deployment:dep-a:latency" | "deployment:dep-a:sizes" => 3_600_000,
            key if key == in_flight => 3_000,
            _ => 60_000,
        };
        let left_ms = pttl(&mut redis, key).await;
        assert!((1..=most_ms).contains(&left_ms), "{key} lives {left_ms} ms");
    }
}

#[tokio::test]
async fn a_namespace_leads_every_key() {
    let world = World::new();
    let settings = RedisSettings { namespace: "prod".to_owned(), ..world.settings() };
    let ledger = RedisLedger::start_for_scenario(settings, world.clock.clone(), PATIENT).unwrap();
    ledger.wait_until_shared(PATIENT).await;
    let hold = hold_of(ledger.reserve(one(want("dep-a", Some(5), 10))).await);
    ledger.settle(Settle { hold, tokens: 30, outcome: Outcome::Failure, sample: SAMPLE });
    ledger.cool(cooldown("dep-a", 90_000));
    ledger.begin(&member("dep-a"));
    ledger.drain().await;
    let mut redis = world.server.connection().await;
    in_flight_key(&mut redis).await;
    let keys = keys(&mut redis).await;
    assert_eq!(keys.len(), 10);
    assert!(keys.iter().all(|key| key.starts_with("prod:")), "{keys:?}");
}

#[tokio::test]
async fn a_hit_does_not_renew_the_window() {
    let world = World::new();
    let ledger = world.ledger(PATIENT).await;
    let mut redis = world.server.connection().await;
    hold_of(ledger.reserve(one(want("dep-a", Some(9), 10))).await);
    for name in ["rpm", "tpm"] {
        run(&mut redis, &format!("PEXPIRE {} 30000", counter("dep-a", name))).await;
    }
    let hold = hold_of(ledger.reserve(one(want("dep-a", Some(9), 10))).await);
    ledger.settle(Settle { hold, tokens: 99, outcome: Outcome::Success, sample: Sample::default() });
    ledger.drain().await;
    for name in ["rpm", "tpm"] {
        let left_ms = pttl(&mut redis, &counter("dep-a", name)).await;
        assert!(left_ms <= 30_000, "{name} lives {left_ms} ms");
    }
}

#[tokio::test]
async fn a_counter_without_a_time_to_live_gets_one_again() {
    let world = World::new();
    let ledger = world.ledger(PATIENT).await;
    let mut redis = world.server.connection().await;
    let lives = async |redis: &mut MultiplexedConnection, id: &str, name: &str| {
        (1..=60_000).contains(&pttl(redis, &counter(id, name)).await)
    };
    for id in ["granted", "refused", "settled"] {
        for name in ["rpm", "tpm", "calls"] {
            run(&mut redis, &format!("SET {} 5", counter(id, name))).await;
        }
    }
    hold_of(ledger.reserve(one(want("granted", Some(9), 1))).await);
    assert!(lives(&mut redis, "granted", "rpm").await);
    assert!(lives(&mut redis, "granted", "tpm").await);
    ledger.reserve(one(want("refused", Some(5), 1))).await;
    assert!(lives(&mut redis, "refused", "rpm").await);
    let tpm_only = ledger::Want { tpm_limit: Some(5), ..want("refused", None, 1) };
    ledger.reserve(one(tpm_only)).await;
    assert!(lives(&mut redis, "refused", "tpm").await);
    let hold = Hold::unreserved(member("settled"), ledger.now_ms());
    ledger.settle(Settle { hold, tokens: 1, outcome: Outcome::Success, sample: Sample::default() });
    ledger.drain().await;
    assert!(lives(&mut redis, "settled", "tpm").await);
    assert!(lives(&mut redis, "settled", "calls").await);
}

#[tokio::test]
async fn giving_back_never_creates_a_counter() {
    let world = World::new();
    let ledger = world.ledger(PATIENT).await;
    let mut redis = world.server.connection().await;
    let voided = hold_of(ledger.reserve(one(want("dep-a", Some(9), 10))).await);
    let settled = hold_of(ledger.reserve(one(want("dep-a", Some(9), 10))).await);
    run(&mut redis, &format!("DEL {} {}", counter("dep-a", "rpm"), counter("dep-a", "tpm"))).await;
    ledger.void(voided);
    ledger.settle(Settle { hold: settled, tokens: 0, outcome: Outcome::Neutral, sample: Sample::default() });
    ledger.drain().await;
    assert_eq!(get(&mut redis, &counter("dep-a", "rpm")).await, None);
    assert_eq!(get(&mut redis, &counter("dep-a", "tpm")).await, None);
}

#[tokio::test]
async fn giving_back_stops_at_zero() {
    let world = World::new();
    let ledger = world.ledger(PATIENT).await;
    let mut redis = world.server.connection().await;
    let hold = hold_of(ledger.reserve(one(want("dep-a", Some(9), 10))).await);
    run(&mut redis, &format!("SET {} 3 KEEPTTL", counter("dep-a", "tpm"))).await;
    ledger.void(hold);
    ledger.drain().await;
    assert_eq!(get(&mut redis, &counter("dep-a", "rpm")).await, Some(0));
    assert_eq!(get(&mut redis, &counter("dep-a", "tpm")).await, Some(0));
}

#[tokio::test]
async fn many_members_are_flushed_and_viewed_whole() {
    let world = World::new();
    let ledger = world.ledger(PATIENT).await;
    let ids: Vec<String> = (0..200).map(|n| format!("dep-{n}")).collect();
    for (n, id) in (1_u64..).zip(&ids) {
        let hold = Hold::unreserved(member(id), ledger.now_ms());
        ledger.settle(Settle { hold, tokens: n, outcome: Outcome::Failure, sample: Sample::default() });
    }
    ledger.drain().await;
    let other = world.ledger(PATIENT).await;
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    let view = other.view(&group(&ids)).await;
    let tokens: Vec<u64> = view.readings.iter().map(|reading| reading.tpm).collect();
    assert_eq!(tokens, (1..=200).collect::<Vec<u64>>());
    assert!(view.readings.iter().all(|reading| reading.calls == 1 && reading.fails == 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_requests_share_the_read_of_a_view() {
    let world = World::new();
    let ledger = world.ledger(PATIENT).await;
    let mut asked = JoinSet::new();
    for _ in 0..100 {
        let ledger = Arc::clone(&ledger);
        asked.spawn(async move { ledger.view(&group(&["dep-a", "dep-b"])).await.readings.len() });
    }
    assert!(asked.join_all().await.into_iter().all(|readings| readings == 2));
    let mut redis = world.server.connection().await;
    let stats: String = redis::cmd("INFO").arg("commandstats").query_async(&mut redis).await.unwrap();
    let line = stats.lines().find_map(|line| line.strip_prefix("cmdstat_mget:calls=")).unwrap();
    let reads: u32 = line.split(',').next().unwrap().parse().unwrap();
    // One, unless the machine stalls for so long that views grow old.
    assert!((1..=10).contains(&reads), "{reads} reads");
}

#[tokio::test]
async fn a_view_sees_what_another_replica_did() {
    let world = World::new();
    let (ours, others) = (world.ledger(PATIENT).await, world.ledger(PATIENT).await);
    ours.view(&group(&["dep-a"])).await;
    let hold = hold_of(others.reserve(one(want("dep-a", None, 10))).await);
    others.settle(Settle { hold, tokens: 15, outcome: Outcome::Failure, sample: Sample::default() });
    others.cool(cooldown("dep-a", 30_000));
    until("the view holds the other's doing", async || {
        let reading = &ours.view(&group(&["dep-a"])).await.readings[0];
        let counts = (reading.rpm, reading.tpm, reading.calls, reading.fails);
        counts == (1, 15, 1, 1) && reading.cooldown.as_ref().is_some_and(|cooling| cooling.status == 429)
    })
    .await;
}

#[tokio::test]
async fn a_ledger_that_is_dropped_leaves_no_connection_and_no_task() {
    let world = World::new();
    let ledger = world.ledger(PATIENT).await;
    hold_of(ledger.reserve(one(want("dep-a", Some(9), 10))).await);
    let mut redis = world.server.connection().await;
    drop(ledger);
    until("only the test is connected", async || {
        let clients: String = redis::cmd("CLIENT").arg("LIST").query_async(&mut redis).await.unwrap();
        clients.lines().count() == 1
    })
    .await;
}

#[tokio::test]
async fn a_counter_that_cannot_be_raised_leaves_no_other_one_charged_twice() {
    for plant in ["SET {} 12.5 PX 60000", "RPUSH {} x"] {
        let world = World::new();
        let ledger = world.ledger(PATIENT).await;
        let mut redis = world.server.connection().await;
        run(&mut redis, &plant.replace("{}", &counter("dep-a", "tpm"))).await;
        hold_of(ledger.reserve(one(want("dep-a", Some(9), 10))).await);
        ledger.drain().await;
        assert_eq!(get(&mut redis, &counter("dep-a", "rpm")).await, Some(1), "{plant}");
    }
}
