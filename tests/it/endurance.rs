//! The whole gateway over minutes: a long outage under load, and a Redis that does not fill up. For the full check.
use harness::{Call, RedisServer, Replica, alone, many_open_files, now, until};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{Instant, interval};

const SECOND: Duration = Duration::from_secs(1);
/// Nothing but a wait for Redis takes so long, on a machine that is not overloaded.
const WAITED: Duration = Duration::from_millis(80);
/// The deadline of a call and that of the check behind it, and as much again.
const NOTICED: Duration = Duration::from_millis(400);

#[derive(Debug, Clone, Copy)]
struct Sent {
    at: Instant,
    status: u16,
    took: Duration,
}

/// Two replicas whose deployments answer at once, each with limits that are never reached.
async fn replicas(redis: &RedisServer, deployments: usize) -> Vec<Arc<Replica>> {
    let models: String = (0..deployments)
        .map(|number| {
            format!(
                "  - {{model_name: chat, litellm_params: {{model: openai/m, mock_response: fine, rpm: 1000000, \
                 tpm: 1000000000}}, model_info: {{id: d{number}}}}}\n"
            )
        })
        .collect();
    let port = redis.port();
    let settings = format!(
        "router_settings: {{routing_strategy: usage-based-routing-v2, num_retries: 0, redis_host: 127.0.0.1, \
         redis_port: {port}}}\n"
    );
    let config = format!("model_list:\n{models}{settings}");
    vec![Arc::new(Replica::start(&config).await), Arc::new(Replica::start(&config).await)]
}

/// One request every so often, whether the ones before are answered or not.
async fn load(replicas: &[Arc<Replica>], every: Duration, lasts: Duration) -> Vec<Sent> {
    let (began, mut ticks, mut asked) = (now(), interval(every), JoinSet::new());
    let mut turn = 0;
    while began.elapsed() < lasts {
        ticks.tick().await;
        let replica = Arc::clone(&replicas[turn % replicas.len()]);
        turn += 1;
        asked.spawn(async move {
            let at = now();
            let reply = replica.try_send(Call::chat("chat", &json!({}))).await;
            Sent { at, status: reply.map_or(0, |reply| reply.status), took: at.elapsed() }
        });
    }
    asked.join_all().await
}

fn counted(redis: &RedisServer) -> usize {
    let keys = redis.keys().into_iter().filter(|(key, _)| key.contains(":rpm:"));
    let number = |(key, _): (String, i64)| {
        let answer = redis.command(&format!("GET {key}"));
        answer.lines().nth(1).and_then(|text| text.trim().parse::<usize>().ok()).unwrap_or(0)
    };
    keys.map(number).sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: a minute"]
async fn slow_a_redis_that_is_frozen_for_half_a_minute_under_load_fails_nobody() {
    let _alone = alone().await;
    many_open_files();
    let redis = RedisServer::start().await;
    let replicas = replicas(&redis, 3).await;
    let every = Duration::from_millis(5);
    let mut all = load(&replicas, every, 3 * SECOND).await;
    let memory_before: Vec<u64> = replicas.iter().map(|it| it.resident_kib()).collect();

    redis.freeze();
    let frozen_at = now();
    let frozen = load(&replicas, every, 30 * SECOND).await;
    let memory_after: Vec<u64> = replicas.iter().map(|it| it.resident_kib()).collect();
    redis.thaw();
    for replica in &replicas {
        until("limits are shared again", 5 * SECOND, async || {
            let reply = replica.send(Call::get("/health/readiness")).await;
            reply.status == 200 && !reply.text().to_lowercase().contains("degraded")
        })
        .await;
    }
    let after = load(&replicas, every, 3 * SECOND).await;

    let waited: Vec<&Sent> = frozen.iter().filter(|sent| sent.took >= WAITED).collect();
    let (first, later): (Vec<&Sent>, Vec<&Sent>) = waited.iter().partition(|it| it.at - frozen_at < NOTICED);
    let longest = frozen.iter().map(|sent| sent.took).max().unwrap();
    println!(
        "{} requests while frozen: {} of the first waited, {} later, longest {longest:?}; memory {memory_before:?} -> \
         {memory_after:?} KiB",
        frozen.len(),
        first.len(),
        later.len()
    );
    assert!(frozen.len() > 5_000, "only {} requests were sent", frozen.len());
    assert!(!first.is_empty(), "Redis was not frozen at all");
    assert!(later.len() <= frozen.len() / 500, "{} waited though Redis was known to be away", later.len());
    for (before, after) in memory_before.iter().zip(&memory_after) {
        assert!(*after < before + 4_096, "{before} KiB became {after} KiB");
    }
    all.extend(frozen.iter().chain(&after));
    let failed: Vec<&Sent> = all.iter().filter(|sent| sent.status != 200).collect();
    assert!(failed.is_empty(), "{} of {} failed: {:?}", failed.len(), all.len(), failed[0]);
    // What was granted alone is counted too; what ran after all may be counted twice.
    until("all are counted", 2 * SECOND, async || counted(&redis) >= all.len()).await;
}

/// `ONEGATE_ENDURANCE_MINUTES`, at least 1.
#[expect(clippy::disallowed_methods, reason = "how long a test goes on is no setting of the product")]
fn minutes() -> u64 {
    let said = std::env::var("ONEGATE_ENDURANCE_MINUTES");
    said.ok().and_then(|minutes| minutes.parse().ok()).unwrap_or(1).max(1)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: as many minutes as ONEGATE_ENDURANCE_MINUTES says"]
async fn slow_redis_does_not_fill_up_and_every_key_has_its_time_to_live() {
    const DEPLOYMENTS: usize = 20;
    /// Four counters in this minute and the one before, and what the replicas need themselves.
    const KEYS_MAX: usize = DEPLOYMENTS * 4 * 2 + 10;
    let _alone = alone().await;
    let redis = RedisServer::start().await;
    let replicas = replicas(&redis, DEPLOYMENTS).await;
    let (mut least, mut most) = (Vec::new(), Vec::new());
    let mut requests = 0;
    for _ in 0..minutes() {
        let mut sizes = Vec::new();
        for _ in 0..12 {
            let sent = load(&replicas, Duration::from_millis(10), 5 * SECOND).await;
            requests += sent.len();
            assert!(sent.iter().all(|it| it.status == 200), "a request failed");
            let keys = redis.keys();
            let lasting: Vec<_> = keys.iter().filter(|(_, left)| *left < 0).collect();
            assert!(lasting.is_empty(), "without a time to live: {lasting:?}");
            let counters = keys.iter().filter(|(key, _)| !key.contains("onegate:"));
            let long: Vec<_> = counters.filter(|(_, left)| *left > 60_000).collect();
            assert!(long.is_empty(), "counters that live too long: {long:?}");
            sizes.push(keys.len());
        }
        least.push(sizes.iter().copied().min().unwrap());
        most.push(sizes.into_iter().max().unwrap());
    }
    println!("{requests} requests; keys at least {least:?} and at most {most:?}, minute by minute");
    assert!(most.iter().all(|&keys| keys <= KEYS_MAX), "more than {KEYS_MAX} keys: {most:?}");
    // Where a minute turns, both minutes' counters stand for a moment; so it is the least that must not grow.
    let growth = least.iter().max().unwrap() - least[0];
    assert!(growth <= 4, "the keys became more: {least:?}");
}
