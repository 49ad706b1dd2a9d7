//! A limit is exact over all replicas: never one more, and none refused while there is room.
use super::{deployment, openai_error, shared_limits};
use futures_util::future::join_all;
use harness::{Call, RedisServer, Replica, Reply, ScriptedProvider, alone, fresh_minute, many_open_files};
use serde_json::json;
use std::time::Duration;

/// More than a burst takes. The windows are UTC minutes, so a burst must begin and end in one.
const ROOM: Duration = Duration::from_secs(25);

async fn replicas(n: usize, config: &str) -> Vec<Replica> {
    join_all((0..n).map(|_| Replica::start(config))).await
}

/// `n` requests at once, the replicas in turn.
async fn burst(replicas: &[Replica], n: usize) -> Vec<Reply> {
    join_all((0..n).map(|i| replicas[i % replicas.len()].send(Call::chat("chat", &json!({}))))).await
}

#[tokio::test]
async fn four_replicas_admit_exactly_1000_of_3000_requests_at_once() {
    let _alone = alone().await;
    many_open_files();
    let (provider, redis) = (ScriptedProvider::start().await, RedisServer::start().await);
    let models = deployment(&provider, "chat", "a", ", rpm: 1000");
    let replicas = replicas(4, &format!("model_list:\n{models}{}", shared_limits(&redis))).await;
    fresh_minute(ROOM).await;

    let replies = burst(&replicas, 3000).await;

    let count = |status: u16| replies.iter().filter(|reply| reply.status == status).count();
    assert_eq!((count(200), count(429), provider.hits("a")), (1000, 2000, 1000), "200s, 429s, hits");
    let refused = replies.iter().find(|reply| reply.status == 429).unwrap();
    let error = openai_error(refused, 429);
    assert!(
        error["message"].as_str().unwrap().contains("No deployments available for selected model"),
        "{error}"
    );
    let wait: u64 = refused.header("retry-after").parse().expect("whole seconds");
    assert!((1..=60).contains(&wait), "{wait}");
}

#[tokio::test]
async fn ten_deployments_of_rpm_1_serve_ten_requests_over_three_replicas() {
    let _alone = alone().await;
    let (provider, redis) = (ScriptedProvider::start().await, RedisServer::start().await);
    let ids: Vec<String> = (0..10).map(|n| format!("d{n}")).collect();
    let models: String = ids.iter().map(|id| deployment(&provider, "chat", id, ", rpm: 1")).collect();
    let replicas = replicas(3, &format!("model_list:\n{models}{}", shared_limits(&redis))).await;
    fresh_minute(ROOM).await;

    let replies = burst(&replicas, 10).await;

    let statuses: Vec<u16> = replies.iter().map(|reply| reply.status).collect();
    assert_eq!(statuses, [200; 10]);
    let hits: Vec<usize> = ids.iter().map(|id| provider.hits(id)).collect();
    assert_eq!(hits, [1; 10]);
}

#[tokio::test]
async fn every_key_that_counts_in_redis_expires() {
    let _alone = alone().await;
    let (provider, redis) = (ScriptedProvider::start().await, RedisServer::start().await);
    let models = deployment(&provider, "chat", "a", ", rpm: 100, tpm: 100000");
    let replicas = replicas(2, &format!("model_list:\n{models}{}", shared_limits(&redis))).await;
    burst(&replicas, 20).await;

    let keys = redis.command("KEYS *");

    let keys: Vec<&str> =
        keys.lines().map(str::trim).filter(|line| line.contains(':') && !line.starts_with('$')).collect();
    assert!(keys.iter().any(|key| key.contains(":rpm:")), "{keys:?}");
    for key in keys {
        let answer = redis.command(&format!("PTTL {key}"));
        let left: i64 = answer.lines().next().unwrap().trim_start_matches(':').trim().parse().unwrap();
        // -2: it has expired since; 0: it is about to.
        assert!(left >= 0 || left == -2, "{key} stays for ever ({left})");
    }
}
