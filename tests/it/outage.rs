//! Redis frozen, killed and back: no request loses its answer, no replica its health, and counting is shared again.
use super::{deployment, shared_limits};
use futures_util::future::join_all;
use harness::{Call, RedisServer, Replica, ScriptedProvider, alone, fresh_minute, until};
use serde_json::json;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

struct Stand {
    provider: ScriptedProvider,
    redis: RedisServer,
    replicas: Vec<Replica>,
    _alone: tokio::sync::MutexGuard<'static, ()>,
}

impl Stand {
    /// Two replicas on one Redis: a group with room for everything, and one with room for twelve.
    async fn new() -> Self {
        let _alone = alone().await;
        let (provider, redis) = (ScriptedProvider::start().await, RedisServer::start().await);
        let models = [
            deployment(&provider, "chat", "a", ", rpm: 100000"),
            deployment(&provider, "narrow", "b", ", rpm: 12"),
        ];
        let config = format!("model_list:\n{}{}", models.concat(), shared_limits(&redis));
        let replicas = join_all((0..2).map(|_| Replica::start(&config))).await;
        let stand = Self { provider, redis, replicas, _alone };
        stand.all_answer_within_a_second().await;
        stand
    }

    async fn all_answer_within_a_second(&self) {
        for _ in 0..3 {
            let calls = (0..8).map(|i| self.replicas[i % 2].send(Call::chat("chat", &json!({}))));
            for reply in join_all(calls).await {
                assert_eq!(reply.status, 200, "{}", reply.text());
                assert!(reply.took < SECOND, "an answer took {:?}", reply.took);
            }
        }
    }

    /// Every replica is healthy, and says so with or without "degraded".
    async fn readiness(&self, degraded: bool, within: Duration) {
        for replica in &self.replicas {
            until(&format!("readiness with degraded = {degraded}"), within, async || {
                let reply = replica.send(Call::get("/health/readiness")).await;
                assert_eq!(reply.status, 200, "an outage of Redis is none of the gateway: {}", reply.text());
                assert!(reply.took < SECOND, "readiness took {:?}", reply.took);
                reply.text().to_lowercase().contains("degraded") == degraded
            })
            .await;
        }
    }

    async fn counts_together_again(&self) {
        fresh_minute(Duration::from_secs(10)).await;
        let calls = (0..30).map(|i| self.replicas[i % 2].send(Call::chat("narrow", &json!({}))));
        let served = join_all(calls).await.iter().filter(|reply| reply.status == 200).count();
        assert_eq!((served, self.provider.hits("b")), (12, 12), "a limit of 12 over both replicas");
    }
}

#[tokio::test]
async fn a_frozen_redis_delays_nobody_and_counting_is_shared_again_after_it() {
    let stand = Stand::new().await;

    stand.redis.freeze();
    stand.all_answer_within_a_second().await;
    stand.readiness(true, 2 * SECOND).await;
    stand.all_answer_within_a_second().await;

    stand.redis.thaw();
    stand.readiness(false, 5 * SECOND).await;
    stand.counts_together_again().await;
}

#[tokio::test]
async fn a_killed_redis_delays_nobody_and_counting_is_shared_again_after_it() {
    let mut stand = Stand::new().await;

    stand.redis.kill();
    stand.all_answer_within_a_second().await;
    stand.readiness(true, 2 * SECOND).await;
    stand.all_answer_within_a_second().await;

    stand.redis.start_again().await;
    stand.readiness(false, 5 * SECOND).await;
    stand.counts_together_again().await;
}

#[tokio::test]
async fn a_replica_starts_while_redis_is_away() {
    let _alone = alone().await;
    let (provider, mut redis) = (ScriptedProvider::start().await, RedisServer::start().await);
    redis.kill();
    let models = deployment(&provider, "chat", "a", ", rpm: 100000");

    let gateway = Replica::start(&format!("model_list:\n{models}{}", shared_limits(&redis))).await;

    let reply = gateway.send(Call::chat("chat", &json!({}))).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    assert!(reply.took < SECOND, "{:?}", reply.took);
}
