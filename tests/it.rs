//! The whole gateway, as built, from outside: real processes, a real Redis, scripted providers.
mod bad_input;
mod chat;
mod cli;
mod durability;
mod endurance;
mod failover;
mod limits;
mod load;
mod outage;
mod probation;
mod round_trips;
mod secrets;
mod startup;

use harness::{RedisServer, Reply, ScriptedProvider};
use serde_json::Value;

/// One line of `model_list`: a deployment `id` of the group, served by the upstream of the same name.
/// `more` are further keys of its `litellm_params`, each with a comma in front.
pub(crate) fn deployment(provider: &ScriptedProvider, group: &str, id: &str, more: &str) -> String {
    let base = provider.base(id);
    format!(
        "  - {{model_name: {group}, litellm_params: {{model: openai/m, api_base: {base}, api_key: sk-{id}{more}}}, \
         model_info: {{id: {id}}}}}\n"
    )
}

/// Router settings for limits that replicas share through this Redis.
pub(crate) fn shared_limits(redis: &RedisServer) -> String {
    let port = redis.port();
    format!(
        "router_settings: {{routing_strategy: usage-based-routing-v2, num_retries: 0, redis_host: 127.0.0.1, redis_port: {port}}}\n"
    )
}

/// The error object of a refusal, after a look at its shape: the one that OpenAI's clients read.
fn openai_error(reply: &Reply, status: u16) -> Value {
    assert_eq!(reply.status, status, "{}", reply.text());
    assert!(reply.header("content-type").starts_with("application/json"), "{:?}", reply.headers);
    let error = reply.json()["error"].clone();
    for field in ["message", "type", "param", "code"] {
        assert!(error.get(field).is_some(), "no `{field}` in {}", reply.text());
    }
    assert!(error["message"].as_str().is_some_and(|message| !message.is_empty()), "{error}");
    error
}
