//! After a cooldown that a failure began, one request of the whole fleet tries the deployment, and only when it has
//! answered do the others follow.
use super::deployment;
use futures_util::future::join_all;
use harness::{Behaviour, Call, RedisServer, Replica, ScriptedProvider, alone, until};
use serde_json::json;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(20);
/// How long the try takes: the burst that it belongs to is answered by the other deployment meanwhile.
const TRY: Duration = Duration::from_millis(1_500);

struct Stand {
    provider: ScriptedProvider,
    replicas: Vec<Replica>,
    _redis: RedisServer,
    _alone: tokio::sync::MutexGuard<'static, ()>,
}

impl Stand {
    async fn new(strategy: &str, script: Vec<Behaviour>) -> Self {
        let _alone = alone().await;
        let (provider, redis) = (ScriptedProvider::start().await, RedisServer::start().await);
        provider.script("a", script);
        let models = ["a", "b"].map(|id| deployment(&provider, "chat", id, "")).concat();
        let config = format!(
            "model_list:\n{models}router_settings: {{routing_strategy: {strategy}, cooldown_time: 1, num_retries: 2, \
             redis_host: 127.0.0.1, redis_port: {}}}\n",
            redis.port()
        );
        let replicas = join_all((0..3).map(|_| Replica::start(&config))).await;
        Self { provider, replicas, _redis: redis, _alone }
    }

    async fn burst(&self) {
        let calls = (0..12).map(|i| self.replicas[i % 3].send(Call::chat("chat", &json!({}))));
        for reply in join_all(calls).await {
            assert_eq!(reply.status, 200, "{}", reply.text());
        }
    }

    /// Sends bursts until `a` has been asked so often, and answers how often it has.
    async fn asked_until(&self, times: usize) -> usize {
        until(&format!("a is asked {times} times"), PATIENCE, async || {
            self.burst().await;
            self.provider.hits("a") >= times
        })
        .await;
        self.provider.hits("a")
    }
}

async fn one_tries_then_all_follow(strategy: &str) {
    let script =
        vec![Behaviour::failure(401), Behaviour::text("well again").delay(TRY), Behaviour::text("well")];
    let stand = Stand::new(strategy, script).await;
    let failed = stand.asked_until(1).await;
    assert!(failed <= 12, "{failed} requests of one burst may have been under way");
    // Those that were under way have used up the script's later answers if they were more than one.
    stand.provider.script("a", vec![Behaviour::text("well again").delay(TRY), Behaviour::text("well")]);

    assert_eq!(stand.asked_until(failed + 1).await, failed + 1, "more than one tried it");

    stand.asked_until(failed + 10).await;
}

#[tokio::test]
async fn one_request_of_the_fleet_tries_a_deployment_without_limits() {
    one_tries_then_all_follow("simple-shuffle").await;
}

#[tokio::test]
async fn one_request_of_the_fleet_tries_the_least_used_deployment() {
    one_tries_then_all_follow("usage-based-routing-v2").await;
}

#[tokio::test]
async fn a_try_that_fails_costs_its_request_nothing_and_cools_again() {
    let stand = Stand::new("simple-shuffle", vec![Behaviour::failure(401)]).await;
    let failed = stand.asked_until(1).await;
    stand.provider.script("a", vec![Behaviour::failure(503), Behaviour::text("well")]);
    assert_eq!(stand.asked_until(failed + 1).await, failed + 1, "more than one tried it");
    stand.asked_until(failed + 10).await;
}
