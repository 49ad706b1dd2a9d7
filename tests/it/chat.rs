//! A chat completion's way through: the answer, the stream, what passes as it came, and who served.
use super::deployment;
use harness::{Behaviour, Call, Replica, ScriptedProvider, until};
use serde_json::{Value, json};
use std::time::Duration;

async fn one_deployment(provider: &ScriptedProvider) -> Replica {
    Replica::start(&format!("model_list:\n{}", deployment(provider, "chat", "a", ""))).await
}

#[tokio::test]
async fn a_plain_answer_comes_back_as_the_provider_gave_it() {
    let provider = ScriptedProvider::start().await;
    provider.script("a", [Behaviour::text("hello").tokens(7, 3)]);
    let gateway = one_deployment(&provider).await;

    let reply = gateway.send(Call::chat("chat", &json!({}))).await;

    assert_eq!(reply.status, 200, "{}", reply.text());
    let body = reply.json();
    assert_eq!(body["object"], "chat.completion");
    assert_eq!(body["choices"][0]["message"]["content"], "hello");
    assert_eq!(body["usage"]["total_tokens"], 10);
}

#[tokio::test]
async fn the_provider_gets_its_own_model_and_key() {
    let provider = ScriptedProvider::start().await;
    let gateway = one_deployment(&provider).await;

    gateway.send(Call::chat("chat", &json!({})).key("sk-of-the-caller")).await;

    let seen = provider.last("a");
    assert_eq!(seen.path, "/v1/chat/completions");
    assert_eq!(seen.json()["model"], "m");
    assert_eq!(seen.header("authorization"), "Bearer sk-a");
}

#[tokio::test]
async fn a_stream_arrives_event_by_event_and_ends_with_done() {
    let provider = ScriptedProvider::start().await;
    provider.script("a", [Behaviour::default().chunks(3)]);
    let gateway = one_deployment(&provider).await;

    let reply = gateway.send(Call::chat("chat", &json!({"stream": true}))).await;

    assert_eq!(reply.status, 200, "{}", reply.text());
    assert!(reply.header("content-type").starts_with("text/event-stream"));
    let events = reply.events();
    let (done, chunks) = events.split_last().expect("events");
    assert_eq!(done, "[DONE]");
    let chunks: Vec<Value> = chunks.iter().map(|event| serde_json::from_str(event).unwrap()).collect();
    let text: String =
        chunks.iter().filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str()).collect();
    assert_eq!(text, "w0 w1 w2 ");
}

#[tokio::test]
async fn the_first_event_is_passed_on_while_the_provider_still_thinks() {
    let provider = ScriptedProvider::start().await;
    provider.script("a", [Behaviour::default().stall_after(1)]);
    let gateway = one_deployment(&provider).await;

    let mut reply = gateway.open(Call::chat("chat", &json!({"stream": true}))).await;

    assert_eq!(reply.status, 200);
    let first = reply.next().await.expect("an event before the provider falls silent");
    assert!(first.contains("w0 "), "{first}");
}

#[tokio::test]
async fn a_client_that_leaves_a_stream_ends_the_providers_call() {
    let provider = ScriptedProvider::start().await;
    provider.script("a", [Behaviour::default().stall_after(1)]);
    let gateway = one_deployment(&provider).await;

    let mut reply = gateway.open(Call::chat("chat", &json!({"stream": true}))).await;
    reply.next().await.expect("an event");
    drop(reply);

    until("the provider's call is broken off", Duration::from_secs(1), async || provider.last("a").left)
        .await;
    assert_eq!(provider.hits("a"), 1, "nothing more is tried for a client that left");
}

#[tokio::test]
async fn a_stream_that_breaks_after_content_ends_with_one_error_and_is_not_restarted() {
    let provider = ScriptedProvider::start().await;
    provider.script("a", [Behaviour::default().cut_after(2)]);
    let gateway = one_deployment(&provider).await;

    let reply = gateway.send(Call::chat("chat", &json!({"stream": true}))).await;

    let events = reply.events();
    assert_eq!(events.iter().filter(|event| event.contains("\"error\"")).count(), 1, "{events:?}");
    assert!(events.last().is_some_and(|event| event.contains("\"error\"")), "{events:?}");
    assert_eq!(provider.hits("a"), 1);
}

#[tokio::test]
async fn fields_that_the_gateway_does_not_know_reach_the_provider_as_they_were() {
    let provider = ScriptedProvider::start().await;
    let gateway = one_deployment(&provider).await;
    let body = r#"{"model": "chat", "made_up": {"deep": [3, 1, 2]}, "seed": 9007199254740993, "top_p": 1.0, "stop": null,
        "messages": [{"role": "user", "content": "hi", "odd_field": "kept"}]}"#;

    let reply = gateway.send(Call::post("/v1/chat/completions", body)).await;

    assert_eq!(reply.status, 200, "{}", reply.text());
    let seen = provider.last("a");
    assert_eq!(seen.json()["made_up"], json!({"deep": [3, 1, 2]}));
    assert_eq!(seen.json()["messages"][0]["odd_field"], "kept");
    assert_eq!(seen.json()["seed"], json!(9_007_199_254_740_993_u64));
    let raw = String::from_utf8(seen.body.to_vec()).unwrap();
    assert!(raw.contains("1.0"), "a number keeps the form it had: {raw}");
    assert!(seen.json().as_object().unwrap().contains_key("stop"), "a null is not dropped: {raw}");
}

#[tokio::test]
async fn fields_that_the_gateway_does_not_know_reach_the_client_as_they_were() {
    let provider = ScriptedProvider::start().await;
    let plain = r#"{"id": "x", "object": "chat.completion", "model": "m", "vendor_root": {"k": 1},
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "hi", "thought": "t"}}]}"#;
    let chunk = r#"{"id": "x", "vendor_root": 5, "choices": [{"index": 0, "delta": {"content": "hi", "thought": "t"}}]}"#;
    provider.script(
        "a",
        [
            Behaviour::raw(200, plain),
            Behaviour::events(&[
                &format!("data: {chunk}\n\n"),
                "data: {\"choices\": [{\"index\": 0, \"delta\": {}, \"finish_reason\": \"stop\"}]}\n\n",
                "data: [DONE]\n\n",
            ]),
        ],
    );
    let gateway = one_deployment(&provider).await;

    let body = gateway.send(Call::chat("chat", &json!({}))).await.json();
    assert_eq!(body["vendor_root"]["k"], 1);
    assert_eq!(body["choices"][0]["message"]["thought"], "t");

    let events = gateway.send(Call::chat("chat", &json!({"stream": true}))).await.events();
    let first: Value = serde_json::from_str(&events[0]).unwrap();
    assert_eq!(first["vendor_root"], 5);
    assert_eq!(first["choices"][0]["delta"]["thought"], "t");
}

#[tokio::test]
async fn a_reply_says_who_served_it_and_what_the_gateway_added() {
    let provider = ScriptedProvider::start().await;
    let gateway = one_deployment(&provider).await;

    for fields in [json!({}), json!({"stream": true})] {
        let reply = gateway.send(Call::chat("chat", &fields)).await;

        assert_eq!(reply.header("x-litellm-model-id"), "a", "{:?}", reply.headers);
        assert_eq!(reply.header("x-litellm-model-group"), "chat");
        assert_eq!(reply.header("x-litellm-attempted-retries"), "0");
        assert_eq!(reply.header("x-litellm-attempted-fallbacks"), "0");
        let overhead: f64 =
            reply.header("x-litellm-overhead-duration-ms").parse().expect("a number of milliseconds");
        assert!((0.0..1000.0).contains(&overhead), "{overhead}");
    }
}

#[tokio::test]
async fn every_reply_has_a_request_id_of_its_own() {
    let provider = ScriptedProvider::start().await;
    let gateway = one_deployment(&provider).await;

    let served = gateway.send(Call::chat("chat", &json!({}))).await;
    let refused = gateway.send(Call::chat("nowhere", &json!({}))).await;

    let (served, refused) = (served.header("x-request-id"), refused.header("x-request-id"));
    assert!(!served.is_empty() && !refused.is_empty());
    assert_ne!(served, refused);
}

#[tokio::test]
async fn a_failing_deployment_is_retried_at_another_one_and_the_reply_counts_it() {
    let provider = ScriptedProvider::start().await;
    provider.script("a", [Behaviour::failure(500)]);
    // All the weight lies on the one that fails, so it is asked first.
    let models = [
        deployment(&provider, "chat", "a", ", weight: 1"),
        deployment(&provider, "chat", "b", ", weight: 0"),
    ];
    let gateway = Replica::start(&format!("model_list:\n{}", models.concat())).await;

    let reply = gateway.send(Call::chat("chat", &json!({}))).await;

    assert_eq!(reply.status, 200, "{}", reply.text());
    assert_eq!(reply.header("x-litellm-model-id"), "b");
    assert_eq!(reply.header("x-litellm-attempted-retries"), "1");
    assert_eq!((provider.hits("a"), provider.hits("b")), (1, 1));
}

#[tokio::test]
async fn a_failing_group_falls_back_to_another_one_and_the_reply_counts_it() {
    let provider = ScriptedProvider::start().await;
    provider.script("a", [Behaviour::failure(500)]);
    let models = [deployment(&provider, "chat", "a", ""), deployment(&provider, "spare", "b", "")];
    let config = format!(
        "model_list:\n{}router_settings: {{num_retries: 0, fallbacks: [{{chat: [spare]}}]}}\n",
        models.concat()
    );
    let gateway = Replica::start(&config).await;

    let reply = gateway.send(Call::chat("chat", &json!({}))).await;

    assert_eq!(reply.status, 200, "{}", reply.text());
    assert_eq!(reply.header("x-litellm-model-id"), "b");
    assert_eq!(reply.header("x-litellm-attempted-fallbacks"), "1");
    assert_eq!(
        provider.last("b").json()["model"],
        "m",
        "the fallback is built from the client's own request"
    );
}
