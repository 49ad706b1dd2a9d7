//! What the fleet knows of its load: every call counts, running calls are seen by all replicas until they end or their
//! replica is killed, and by setting the output that is to be expected is held.
use super::{deployment, shared_limits};
use futures_util::future::join_all;
use harness::{Behaviour, Call, Client, RedisServer, Replica, ScriptedProvider, alone, fresh_minute, until};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::task::JoinSet;

const SECOND: Duration = Duration::from_secs(1);
/// More than a burst takes.
const ROOM: Duration = Duration::from_secs(25);

fn call() -> Call {
    Call::chat("chat", &json!({}))
}

/// What a replica's ledger says of the deployment `a`.
async fn ledger(replica: &Replica) -> Value {
    let body = json!({"model": "chat", "messages": []}).to_string();
    replica.send(Call::post("/route/explain", body)).await.json()["ledger"]["a"].clone()
}

async fn pair(provider: &ScriptedProvider, redis: &RedisServer, more: &str, settings: &str) -> [Replica; 2] {
    let models = deployment(provider, "chat", "a", more);
    let config = format!("model_list:\n{models}{}{settings}", shared_limits(redis));
    [Replica::start(&config).await, Replica::start(&config).await]
}

#[tokio::test]
async fn calls_that_no_limit_binds_count_over_all_replicas() {
    let _alone = alone().await;
    let (provider, redis) = (ScriptedProvider::start().await, RedisServer::start().await);
    let replicas = pair(&provider, &redis, "", "").await;
    fresh_minute(ROOM).await;

    join_all((0..10).map(|i| replicas[i % 2].send(call()))).await;

    for replica in &replicas {
        until("all ten are counted", 5 * SECOND, async || {
            let ledger = ledger(replica).await;
            ledger["rpm"]["used"] == 10 && ledger["calls"] == 10 && ledger["in_flight"] == 0
        })
        .await;
    }
    let sizes = redis.command("GET deployment:a:sizes");
    assert_eq!(sizes.matches("/10/5").count(), 10, "{sizes}");
    let latency = redis.command("GET deployment:a:latency");
    assert_eq!(latency.lines().nth(1).unwrap_or_default().split_whitespace().count(), 10, "{latency}");
}

#[tokio::test]
async fn calls_of_a_killed_replica_are_soon_in_flight_no_more() {
    let _alone = alone().await;
    let (provider, redis) = (ScriptedProvider::start().await, RedisServer::start().await);
    let [killed, other] = pair(&provider, &redis, "", "").await;
    provider.script("a", [Behaviour::hang()]);
    let mut calls = JoinSet::new();
    for _ in 0..3 {
        let client = Client::to(killed.address());
        calls.spawn(async move { client.send(call()).await });
    }
    until("the other replica sees them run", 5 * SECOND, async || ledger(&other).await["in_flight"] == 3)
        .await;

    killed.signal("KILL");

    // 3.5 s, and what a loaded machine adds.
    until("nothing runs", 5 * SECOND, async || ledger(&other).await["in_flight"] == 0).await;
    assert!(calls.join_all().await.iter().all(Result::is_err), "the calls ended with their replica");
}

#[tokio::test]
async fn by_setting_the_output_to_be_expected_is_held() {
    let _alone = alone().await;
    for (hold, most) in [("input", 20), ("expected", 4)] {
        let (provider, redis) = (ScriptedProvider::start().await, RedisServer::start().await);
        let settings = format!("onegate_settings: {{ledger: {{tpm_hold: {hold}}}}}\n");
        let replicas = pair(&provider, &redis, ", tpm: 1000", &settings).await;
        let sized = Behaviour::default().tokens(15, 200);
        provider.script("a", [sized.clone(), sized.delay(3 * SECOND)]);
        replicas[0].send(call()).await;
        for replica in &replicas {
            until("its size is known", 5 * SECOND, async || ledger(replica).await["mean_tokens"] == 215)
                .await;
        }
        fresh_minute(ROOM).await;
        let used = ledger(&replicas[1]).await["tpm"]["used"].as_u64().unwrap();

        let replies = join_all((0..20).map(|i| replicas[i % 2].send(call()))).await;

        let served = replies.iter().filter(|reply| reply.status == 200).count();
        let taken_before = if used > 0 && hold == "expected" { 1 } else { 0 };
        assert_eq!(served, most - taken_before, "{hold}, {used} used before");
    }
}
