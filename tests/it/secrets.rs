//! No secret leaves the gateway: not in an answer, not in the log, not in the metrics, not in `check`.
use super::openai_error;
use harness::{Behaviour, Call, Launch, Replica, ScriptedProvider, once};
use serde_json::json;

const MASTER: &str = "sk-master-4f1c9a";
const PROVIDER: &str = "sk-provider-77ab03";
const REDIS: &str = "redis-pass-90de12";
const WRONG: &str = "sk-wrong-5b6e8d";

fn assert_clean(what: &str, text: &str) {
    for secret in [MASTER, PROVIDER, REDIS, WRONG] {
        assert!(!text.contains(secret), "{what} holds {secret}: {text}");
    }
}

/// A provider whose key comes from the environment, a master key, and a Redis that nobody answers for.
async fn gateway(provider: &ScriptedProvider) -> Replica {
    let base = provider.base("a");
    let config = format!(
        "model_list:
  - {{model_name: chat, litellm_params: {{model: openai/m, api_base: {base}, api_key: os.environ/TEST_PROVIDER_KEY}}}}
router_settings: {{num_retries: 0, redis_host: 127.0.0.1, redis_port: 1, redis_password: {REDIS}}}
general_settings: {{master_key: {MASTER}}}
"
    );
    let gateway = Launch::serve(&config).environment("TEST_PROVIDER_KEY", PROVIDER).start().await;
    gateway.ready().await;
    gateway
}

#[tokio::test]
async fn a_key_that_the_provider_repeats_is_in_no_answer_and_no_log() {
    let provider = ScriptedProvider::start().await;
    let echo = r#"{"error": {"message": "Incorrect API key provided: $AUTHORIZATION", "type": "invalid_request_error", "param": null, "code": "$AUTHORIZATION"}}"#;
    let gateway = gateway(&provider).await;

    for status in [400, 401, 403, 404, 422, 429, 500, 503] {
        provider.script("a", [Behaviour::raw(status, echo)]);
        let reply = gateway.send(Call::chat("chat", &json!({})).key(MASTER)).await;
        assert!(reply.status >= 400, "{}", reply.text());
        assert_clean("an error", &reply.text());
        assert_clean("a header", &format!("{:?}", reply.headers));
    }
    assert!(provider.last("a").header("authorization").contains(PROVIDER), "the provider did get its key");

    provider.script("a", [Behaviour::raw(502, "<html>bad gateway for $AUTHORIZATION</html>")]);
    assert_clean("an error page", &gateway.send(Call::chat("chat", &json!({})).key(MASTER)).await.text());

    let content = "data: {\"choices\": [{\"index\": 0, \"delta\": {\"content\": \"hi\"}}]}\n\n";
    let error = "data: {\"error\": {\"message\": \"lost $AUTHORIZATION\", \"code\": 500}}\n\n";
    provider.script("a", [Behaviour::events(&[content, error])]);
    let reply = gateway.send(Call::chat("chat", &json!({"stream": true})).key(MASTER)).await;
    assert_clean("a stream", &reply.text());

    assert_clean("the log", &gateway.stop().await.text);
}

#[tokio::test]
async fn a_wrong_master_key_is_refused_and_not_repeated() {
    let provider = ScriptedProvider::start().await;
    let gateway = gateway(&provider).await;

    for call in [Call::chat("chat", &json!({})).key(WRONG), Call::chat("chat", &json!({}))] {
        let reply = gateway.send(call).await;
        let error = openai_error(&reply, 401);
        assert_eq!(error["code"], "invalid_api_key", "{error}");
        assert_clean("the refusal", &reply.text());
    }

    assert_eq!(provider.hits("a"), 0);
    assert_clean("the log", &gateway.stop().await.text);
}

#[tokio::test]
async fn no_page_of_the_gateway_shows_a_secret() {
    let provider = ScriptedProvider::start().await;
    let gateway = gateway(&provider).await;
    gateway.send(Call::chat("chat", &json!({})).key(MASTER)).await;
    gateway.send(Call::chat("chat", &json!({})).key(WRONG)).await;
    let explain = Call::post("/route/explain", r#"{"model": "chat", "messages": []}"#);

    let metrics = gateway.send(Call::get("/metrics").key(MASTER)).await;
    assert_eq!(metrics.status, 200);
    assert_clean("/metrics", &metrics.text());
    assert_clean("/route/explain", &gateway.send(explain.key(MASTER)).await.text());
    for page in ["/v1/models", "/model/info", "/health", "/health/readiness", "/ledger"] {
        assert_clean(page, &gateway.send(Call::get(page).key(MASTER)).await.text());
    }
}

#[test]
fn check_prints_no_secret_whatever_is_wrong_around_it() {
    let good = format!(
        "model_list:\n  - {{model_name: chat, litellm_params: {{model: openai/m, api_key: {PROVIDER}}}}}\n\
         router_settings: {{redis_host: localhost, redis_password: {REDIS}}}\n\
         general_settings: {{master_key: {MASTER}}}\n"
    );
    let checked = once("check", &good, &[]);
    assert_eq!(checked.code, Some(0), "{}", checked.text);
    assert_clean("check of a good file", &checked.text);

    let faulty = [
        good.replace("api_key:", "api_ky:"),
        good.replace("master_key:", "master_kee:"),
        good.replace("redis_password:", "redis_pasword:"),
        good.replace(PROVIDER, &format!("[{PROVIDER}]")),
        good.replace(MASTER, &format!("{{key: {MASTER}}}")),
        good.replace(REDIS, &format!("[{REDIS}]")),
    ];
    for text in faulty {
        let checked = once("check", &text, &[]);
        assert_eq!(checked.code, Some(1), "{text}: {}", checked.text);
        assert_clean("check of a faulty file", &checked.text);
    }
    // A slip of the indentation: the file cannot be read at all.
    let torn = once("check", &format!("{good} x: [\n"), &[]);
    assert_eq!(torn.code, Some(1), "{}", torn.text);
    assert_clean("check of a torn file", &torn.text);
}
