//! What a request asks of Redis while it waits: nothing without limits, one reservation with them, and one for each
//! further attempt.
use futures_util::future::join_all;
use harness::{Call, RedisServer, Replica, Reply, Watched, alone, now};
use serde_json::json;

/// What one gateway asked of Redis.
#[derive(Debug, Default, PartialEq, Eq)]
struct Asked {
    reservations: usize,
    views: usize,
    /// Of no kind that is known here.
    others: Vec<String>,
}

/// What is sent behind everyone's back: beats of the heart, flushes, checks, greetings, the look at the start.
const BACKGROUND: [&str; 9] = [
    "onegate:",
    r#""PING""#,
    r#""CLIENT" "SETINFO""#,
    r#""SCRIPT" "LOAD""#,
    r#""HELLO""#,
    "onegate-check-",
    r#""INFO""#,
    r#""TIME""#,
    r#""CONFIG" "GET""#,
];

impl Asked {
    fn of(lines: &[String]) -> Self {
        let mut asked = Self::default();
        for line in lines {
            let is_script = line.contains(r#""EVALSHA""#) || line.contains(r#""EVAL""#);
            let counts = [":rpm:", ":tpm:", ":calls:", ":fails:"].iter().any(|name| line.contains(name));
            let cools = line.contains(r#":cooldown""#);
            if is_script && counts && cools {
                asked.reservations += 1;
            } else if line.contains(r#""MGET""#) {
                asked.views += 1;
            } else if !(is_script && (counts || cools)) && !BACKGROUND.iter().any(|it| line.contains(it)) {
                asked.others.push(line.clone());
            }
        }
        asked
    }
}

struct Stand {
    redis: RedisServer,
    watched: Watched,
    gateway: Replica,
    _alone: tokio::sync::MutexGuard<'static, ()>,
}

impl Stand {
    async fn new() -> Self {
        let _alone = alone().await;
        let redis = RedisServer::start().await;
        let mut models = String::new();
        for (group, answer, limits) in [
            ("free", "fine", ""),
            ("limited", "fine", ", rpm: 100000, tpm: 100000000"),
            ("failing", "litellm.InternalServerError", ""),
            ("failing-limited", "litellm.InternalServerError", ", rpm: 100000"),
        ] {
            for number in 0..3 {
                models.push_str(&format!(
                    "  - {{model_name: {group}, litellm_params: {{model: openai/m, mock_response: {answer}{limits}}}, \
                     model_info: {{id: {group}-{number}}}}}\n"
                ));
            }
        }
        let port = redis.port();
        let settings = format!(
            "router_settings: {{routing_strategy: usage-based-routing-v2, num_retries: 2, allowed_fails: 100000, \
             redis_host: 127.0.0.1, redis_port: {port}}}\n"
        );
        let gateway = Replica::start(&format!("model_list:\n{models}{settings}")).await;
        let watched = redis.watch();
        Self { redis, watched, gateway, _alone }
    }

    /// So many requests one after the other, what they asked of Redis, and how many views may have grown old.
    async fn ask(&self, group: &str, requests: usize, status: u16) -> (Asked, usize) {
        // The first one waits for the first view.
        self.gateway.send(Call::chat(group, &json!({}))).await;
        self.watched.since(&self.redis).await;
        let began = now();
        for _ in 0..requests {
            let reply: Reply = self.gateway.send(Call::chat(group, &json!({}))).await;
            assert_eq!(reply.status, status, "{}", reply.text());
        }
        let views_max = 1 + usize::try_from(began.elapsed().as_millis() / 100).unwrap();
        (Asked::of(&self.watched.since(&self.redis).await), views_max)
    }
}

#[tokio::test]
async fn a_request_without_limits_waits_for_no_reservation() {
    let stand = Stand::new().await;
    let (asked, views_max) = stand.ask("free", 100, 200).await;
    assert_eq!((asked.reservations, asked.others), (0, vec![]));
    assert!(asked.views <= views_max, "{} views where {views_max} grew old", asked.views);
}

#[tokio::test]
async fn a_request_with_limits_makes_one_reservation() {
    let stand = Stand::new().await;
    let (asked, views_max) = stand.ask("limited", 100, 200).await;
    assert_eq!((asked.reservations, asked.others), (100, vec![]));
    assert!(asked.views <= views_max, "{} views where {views_max} grew old", asked.views);
}

#[tokio::test]
async fn each_further_attempt_makes_one_more_reservation() {
    let stand = Stand::new().await;
    let (asked, _) = stand.ask("failing-limited", 10, 500).await;
    assert_eq!((asked.reservations, asked.others), (30, vec![]));
    // What has just failed may cool down, and only a reservation knows it at once.
    let (asked, _) = stand.ask("failing", 10, 500).await;
    assert_eq!((asked.reservations, asked.others), (20, vec![]));
}

#[tokio::test]
async fn requests_at_once_share_their_view() {
    let stand = Stand::new().await;
    stand.watched.since(&stand.redis).await;
    let began = now();
    join_all((0..50).map(|_| stand.gateway.send(Call::chat("free", &json!({}))))).await;
    let views_max = 1 + usize::try_from(began.elapsed().as_millis() / 100).unwrap();
    let asked = Asked::of(&stand.watched.since(&stand.redis).await);
    assert!(asked.views <= views_max, "{} views where {views_max} grew old", asked.views);
}
