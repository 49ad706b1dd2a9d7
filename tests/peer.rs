//! LiteLLM's own router as a peer: one Redis, the same deployments, and each obeys what the other wrote there.
use crate::it::{deployment, shared_limits};
use harness::{
    Behaviour, Call, RedisServer, Replica, ScriptedProvider, alone, fresh_minute, until, workspace,
};
use serde_json::json;
use std::process::Command;
use std::time::Duration;
use tokio::task::spawn_blocking;

/// More than a test takes: LiteLLM alone needs seconds to start.
const ROOM: Duration = Duration::from_secs(40);

struct Stand {
    provider: ScriptedProvider,
    redis: RedisServer,
    gateway: Replica,
    rpm: u64,
    _alone: tokio::sync::MutexGuard<'static, ()>,
}

impl Stand {
    /// Deployments `a` and `b` of the group `chat`, each with this limit.
    async fn new(rpm: u64) -> Self {
        let _alone = alone().await;
        let (provider, redis) = (ScriptedProvider::start().await, RedisServer::start().await);
        let limit = format!(", rpm: {rpm}");
        let models = ["a", "b"].map(|id| deployment(&provider, "chat", id, &limit)).concat();
        let gateway = Replica::start(&format!("model_list:\n{models}{}", shared_limits(&redis))).await;
        fresh_minute(ROOM).await;
        Self { provider, redis, gateway, rpm, _alone }
    }

    /// Asks LiteLLM so often; for each request who served, or the error.
    async fn litellm(&self, times: usize) -> Vec<String> {
        let python = workspace().join("target/venv-litellm/bin/python");
        assert!(python.exists(), "target/venv-litellm is missing: .ci/full makes it");
        let provider = self.provider.base("x").replace("/x/v1", "");
        let mut asked = Command::new(python);
        asked.arg("-B").arg(workspace().join("tests/peer/litellm_router.py"));
        asked.args([self.redis.port().to_string(), provider, self.rpm.to_string(), times.to_string()]);
        // The provider answers from this runtime meanwhile.
        let output = spawn_blocking(move || asked.output()).await.expect("a thread");
        let output = output.expect("the venv's python runs");
        let text = String::from_utf8_lossy(&output.stdout);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{text}{said}");
        serde_json::from_str(text.lines().last().unwrap_or_default()).expect("its last line is a list")
    }

    /// Asks the gateway so often; the statuses.
    async fn gateway(&self, times: usize) -> Vec<u16> {
        let mut statuses = Vec::new();
        for _ in 0..times {
            statuses.push(self.gateway.send(Call::chat("chat", &json!({}))).await.status);
        }
        statuses
    }

    fn hits(&self) -> [usize; 2] {
        ["a", "b"].map(|id| self.provider.hits(id))
    }

    /// The value of each key of this kind, by the key's name without its minute. LiteLLM also counts for its response
    /// headers, by names of its own.
    fn counters(&self, kind: &str) -> Vec<(String, u64)> {
        let found = self.redis.command(&format!("KEYS *:{kind}:*"));
        let keys = found
            .lines()
            .map(str::trim)
            .filter(|line| line.contains(':') && !line.starts_with("global_router:"));
        let mut counters: Vec<(String, u64)> = keys
            .map(|key| {
                let value = self.redis.command(&format!("GET {key}"));
                let value = value.lines().nth(1).and_then(|text| text.trim().parse().ok());
                let name = key.rsplit_once(':').unwrap().0.to_owned();
                (name, value.expect("a counter is a whole number"))
            })
            .collect();
        counters.sort();
        counters
    }
}

fn too_many() -> Behaviour {
    Behaviour::failure(429).header("retry-after", "45")
}

#[tokio::test]
#[ignore = "slow: LiteLLM in target/venv-litellm, which .ci/full makes"]
async fn a_cooldown_that_litellm_sets_is_obeyed_here() {
    let stand = Stand::new(1000).await;
    // Whichever it picks goes into its cooldown.
    for id in ["a", "b"] {
        stand.provider.script(id, [too_many()]);
    }
    assert_eq!(stand.litellm(1).await, ["RateLimitError"]);
    let mut wanted = stand.hits();
    let cooled = wanted.iter().position(|&hits| hits == 1).expect("one was asked");
    for id in ["a", "b"] {
        stand.provider.script(id, [Behaviour::default()]);
    }

    assert_eq!(stand.gateway(6).await, [200; 6]);
    wanted[1 - cooled] += 6;
    assert_eq!(stand.hits(), wanted, "the one that LiteLLM cooled was asked");
}

#[tokio::test]
#[ignore = "slow: LiteLLM in target/venv-litellm, which .ci/full makes"]
async fn a_cooldown_that_is_set_here_is_obeyed_by_litellm() {
    let stand = Stand::new(1000).await;
    stand.provider.script("a", [too_many()]);
    while stand.provider.hits("a") == 0 {
        // A 429 from `a` is no answer for the client while `b` is left, but `num_retries` is 0.
        stand.gateway(1).await;
    }
    assert_eq!(stand.litellm(6).await, ["b"; 6]);
    assert_eq!(stand.provider.hits("a"), 1);
}

#[tokio::test]
#[ignore = "slow: LiteLLM in target/venv-litellm, which .ci/full makes"]
async fn both_count_into_the_same_keys() {
    let stand = Stand::new(1000).await;
    assert_eq!(stand.gateway(4).await, [200; 4]);
    assert_eq!(stand.litellm(6).await.len(), 6);
    assert_eq!(stand.gateway(4).await, [200; 4]);

    let [a, b] = stand.hits();
    assert_eq!(a + b, 14);
    for (kind, per_call) in [("rpm", 1), ("tpm", 15)] {
        let names = ["a", "b"].map(|id| format!("{id}:openai/m:{kind}"));
        let counts = [a, b].map(|hits| u64::try_from(hits * per_call).unwrap());
        let wanted: Vec<_> = names.into_iter().zip(counts).filter(|(_, count)| *count > 0).collect();
        // Ours are written with the next flush.
        let what = format!("{kind} is {wanted:?}");
        until(&what, Duration::from_secs(5), async || stand.counters(kind) == wanted).await;
    }
}

#[tokio::test]
#[ignore = "slow: LiteLLM in target/venv-litellm, which .ci/full makes"]
async fn a_limit_that_one_has_used_up_binds_the_other() {
    let stand = Stand::new(5).await;
    let theirs = stand.litellm(6).await;
    let served = theirs.iter().filter(|id| ["a", "b"].contains(&id.as_str())).count();
    assert!(served > 0, "{theirs:?}");
    let statuses = stand.gateway(10).await;
    let ours = statuses.iter().filter(|&&status| status == 200).count();
    assert_eq!(served + ours, 10, "two limits of 5: LiteLLM was served {theirs:?}, we {statuses:?}");
    assert_eq!(stand.hits().iter().sum::<usize>(), 10);

    let refused = stand.litellm(2).await;
    assert!(refused.iter().all(|id| !["a", "b"].contains(&id.as_str())), "{refused:?}");
}
