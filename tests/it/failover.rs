//! The master of a Redis behind sentinels is killed under load: no client notices, and counting is shared again.
use futures_util::future::join_all;
use harness::{BehindSentinels, Call, Replica, alone, fresh_minute, now, until};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::interval;

const RATE: u32 = 500;
const SECONDS: u32 = 12;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: sentinels take seconds to replace a master"]
async fn three_replicas_lose_no_request_when_the_master_of_their_redis_is_killed() {
    let _alone = alone().await;
    let mut watched = BehindSentinels::start().await;
    let model = |name: &str, rpm: u32| {
        format!(
            "  - {{model_name: {name}, litellm_params: {{model: openai/m, mock_response: hello, rpm: {rpm}}}}}\n"
        )
    };
    let config = format!(
        "model_list:\n{}{}router_settings: {{routing_strategy: usage-based-routing-v2, num_retries: 0, cache_kwargs: {{{}}}}}\n",
        model("chat", 1_000_000),
        model("narrow", 12),
        watched.settings()
    );
    let replicas: Arc<Vec<Replica>> = Arc::new(join_all((0..3).map(|_| Replica::start(&config))).await);
    shared(&replicas).await;

    let mut calls = JoinSet::new();
    let mut ticks = interval(Duration::from_secs(1) / RATE);
    let mut slowest = Duration::ZERO;
    let mut answered = 0;
    let mut killed_at = None;
    for number in 0..RATE * SECONDS {
        ticks.tick().await;
        if number == RATE * 3 {
            watched.master.kill();
            killed_at = Some(now());
        }
        let replicas = Arc::clone(&replicas);
        calls.spawn(async move {
            let index = usize::try_from(number).unwrap_or(0) % replicas.len();
            replicas[index].send(Call::chat("chat", &json!({}))).await
        });
        while let Some(reply) = calls.try_join_next() {
            let reply = reply.unwrap();
            assert_eq!(reply.status, 200, "{}", reply.text());
            slowest = slowest.max(reply.took);
            answered += 1;
        }
    }
    for reply in calls.join_all().await {
        assert_eq!(reply.status, 200, "{}", reply.text());
        slowest = slowest.max(reply.took);
        answered += 1;
    }
    assert_eq!(answered, RATE * SECONDS);
    watched.promoted().await;
    shared(&replicas).await;
    eprintln!("{answered} answers, slowest {slowest:?}, killed {:?} ago", killed_at.map(|at| at.elapsed()));
    assert!(slowest < Duration::from_secs(2), "{slowest:?}");

    fresh_minute(Duration::from_secs(10)).await;
    let calls = (0..36).map(|number| replicas[number % 3].send(Call::chat("narrow", &json!({}))));
    let served = join_all(calls).await.iter().filter(|reply| reply.status == 200).count();
    assert_eq!(served, 12, "a limit of 12 over all replicas");
}

/// Waits until every replica says that it shares its limits.
async fn shared(replicas: &[Replica]) {
    for replica in replicas {
        until("the replica shares its limits", Duration::from_secs(10), async || {
            let reply = replica.send(Call::get("/health/readiness")).await;
            !reply.text().to_lowercase().contains("degraded")
        })
        .await;
    }
}
