//! What is said of Redis at the start, by `check --online` and while it is away: honest, helpful, never the password.
use super::{deployment, openai_error, shared_limits};
use harness::{Call, Launch, RedisServer, Replica, ScriptedProvider, once, until};
use serde_json::json;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

/// One deployment with a limit and one without, on this Redis.
fn config(provider: &ScriptedProvider, redis: &RedisServer, more: &str) -> String {
    let models = [deployment(provider, "chat", "a", ", rpm: 100"), deployment(provider, "free", "b", "")];
    format!("model_list:\n{}{}{more}", models.concat(), shared_limits(redis))
}

#[tokio::test]
async fn check_online_tells_what_is_wrong_with_a_redis_that_can_be_used() {
    let (provider, redis) = (ScriptedProvider::start().await, RedisServer::start().await);
    let config = config(&provider, &redis, "");
    let address = format!("127.0.0.1:{}", redis.port());
    let _ = redis.command("CONFIG SET maxmemory 100mb");
    let _ = redis.command("CONFIG SET maxmemory-policy allkeys-lfu");

    let plain = once("check", &config, &[]);
    assert_eq!(plain.code, Some(0), "{}", plain.text);
    assert!(!plain.text.contains("redis"), "without the flag nobody asks Redis: {}", plain.text);

    let online = once("check", &config, &["--online"]);
    assert_eq!(online.code, Some(0), "{}", online.text);
    let evicts = format!(
        "warning: redis at {address} may evict keys (maxmemory 100 MiB, maxmemory-policy allkeys-lfu)"
    );
    let forgets = format!("warning: redis at {address} keeps nothing on disk");
    for words in [evicts.as_str(), ":rpm:<HH-MM>", &forgets, "can be used for the ledger"] {
        assert!(online.text.contains(words), "`{words}` is not in: {}", online.text);
    }

    let _ = redis.command("CONFIG SET maxmemory-policy noeviction");
    let _ = redis.command("CONFIG SET appendonly yes");
    let online = once("check", &config, &["--online"]);
    assert_eq!(online.code, Some(0), "{}", online.text);
    assert!(!online.text.contains("warning:"), "{}", online.text);
}

#[tokio::test]
async fn check_online_fails_where_redis_cannot_be_reached_or_used() {
    let (provider, mut redis) = (ScriptedProvider::start().await, RedisServer::start().await);
    let config = config(&provider, &redis, "");
    let with_password = config.replace("redis_port", "redis_password: sk-hunter2, redis_port");
    let fails = |config: &str, words: &str| {
        let online = once("check", config, &["--online"]);
        assert_eq!(online.code, Some(1), "{}", online.text);
        let address = format!("127.0.0.1:{}", redis.port());
        for words in [words, &address] {
            assert!(online.text.contains(words), "`{words}` is not in: {}", online.text);
        }
        assert!(!online.text.contains("hunter2"), "{}", online.text);
    };
    let _ = redis.command("ACL SETUSER default -evalsha");
    fails(&config, "does not let this user run `evalsha`");
    let _ = redis.command("ACL SETUSER default +@all");
    let _ = redis.command("REPLICAOF 127.0.0.1 1");
    fails(&config, "takes no writes. READONLY");
    let _ = redis.command("CONFIG SET requirepass correct-horse");
    fails(&config, "NOAUTH");
    fails(&with_password, "refuses the user or the password");
    redis.kill();
    let online = once("check", &config, &["--online"]);
    assert!(online.text.contains("cannot be reached: connection refused"), "{}", online.text);
    assert_eq!((online.code, once("check", &config, &[]).code), (Some(1), Some(0)), "{}", online.text);
}

#[tokio::test]
async fn check_online_without_a_redis_has_nothing_to_look_at() {
    let provider = ScriptedProvider::start().await;
    let config = format!("model_list:\n{}", deployment(&provider, "chat", "a", ""));
    let online = once("check", &config, &["--online"]);
    assert_eq!(online.code, Some(0), "{}", online.text);
    assert!(online.text.contains("no Redis is named"), "{}", online.text);
}

#[tokio::test]
async fn the_start_says_who_shares_the_ledger_and_logs_what_may_be_lost() {
    let (provider, redis) = (ScriptedProvider::start().await, RedisServer::start().await);
    let config = config(&provider, &redis, "");
    let first = Replica::start(&config).await;
    let second = Replica::start(&config).await;
    let at = format!("ledger shared in redis at 127.0.0.1:{}", redis.port());
    assert!(first.printed().contains(&format!("{at}, by this replica alone so far")), "{}", first.printed());
    assert!(second.printed().contains(&format!("{at} by 2 replicas")), "{}", second.printed());
    until("the log tells that Redis forgets", 10 * SECOND, async || {
        first.printed().contains("keeps nothing on disk")
    })
    .await;
}

#[tokio::test]
async fn a_start_without_redis_claims_nothing_and_names_host_and_reason() {
    let (provider, mut redis) = (ScriptedProvider::start().await, RedisServer::start().await);
    let config = config(&provider, &redis, "");
    redis.kill();
    let gateway = Launch::serve(&config).start().await;
    let address = format!("127.0.0.1:{}", redis.port());
    let away = format!("ledger away: redis at {address}, connection refused");
    assert!(gateway.printed().contains(&away), "{}", gateway.printed());
    assert!(!gateway.printed().contains("ledger shared"), "{}", gateway.printed());
    until("the log names host and reason", 10 * SECOND, async || {
        let printed = gateway.printed();
        printed
            .lines()
            .any(|line| line.contains("redis is away") && line.contains(&address) && line.contains("refused"))
    })
    .await;

    redis.start_again().await;
    until("the log says that limits are shared", 10 * SECOND, async || {
        gateway.printed().contains("limits are shared") && gateway.printed().contains("keeps nothing on disk")
    })
    .await;
}

#[tokio::test]
async fn deny_refuses_what_has_a_limit_while_redis_is_away_and_says_so() {
    let (provider, mut redis) = (ScriptedProvider::start().await, RedisServer::start().await);
    let config = config(&provider, &redis, "onegate_settings: {ledger: {on_outage: deny}}\n");
    let gateway = Replica::start(&config).await;
    assert_eq!(gateway.send(Call::chat("chat", &json!({}))).await.status, 200);
    redis.kill();
    until("the replica is degraded", 10 * SECOND, async || {
        gateway.send(Call::get("/health/readiness")).await.text().contains("degraded")
    })
    .await;

    let refused = gateway.send(Call::chat("chat", &json!({}))).await;
    let error = openai_error(&refused, 429);
    assert_eq!(refused.header("retry-after"), "1");
    assert!(error["message"].as_str().unwrap().contains("shared ledger is away"), "{error}");
    assert_eq!(gateway.send(Call::chat("free", &json!({}))).await.status, 200);
    assert_eq!((provider.hits("a"), provider.hits("b")), (1, 1));
    let metrics = gateway.send(Call::get("/metrics")).await.text();
    for series in [
        "onegate_ledger_away 1",
        "onegate_ledger_by_policy_total 1",
        "onegate_ledger_outages_total 1",
        "onegate_reservations_refused_total{reason=\"away\"} 1",
    ] {
        assert!(metrics.lines().any(|line| line == series), "`{series}` is not in:\n{metrics}");
    }

    redis.start_again().await;
    until("what has a limit is served again", 10 * SECOND, async || {
        gateway.send(Call::chat("chat", &json!({}))).await.status == 200
    })
    .await;
}
