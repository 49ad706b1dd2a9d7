//! Scripted models behind a loopback port: `quick` answers at once, `slow` takes a second, every third call of
//! `flaky` fails. They speak enough of OpenAI's protocol for any client.
use axum::Json;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use futures_util::{StreamExt, stream};
use http::{StatusCode, header};
use serde_json::{Value, json};
use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Starts them on a free port.
pub(super) async fn start() -> std::io::Result<SocketAddr> {
    let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    let calls = Arc::new(AtomicU64::new(0));
    let router = Router::new()
        .route("/{name}/v1/chat/completions", post(chat))
        .route("/{name}/v1/embeddings", post(chats_only))
        .with_state(calls);
    #[expect(clippy::disallowed_methods, reason = "the scripted models live as long as the demo's process")]
    tokio::spawn(async move {
        if let Err(error) = axum::serve(listener, router).await {
            tracing::error!(%error, "the scripted models ended");
        }
    });
    Ok(address)
}

async fn chats_only() -> Response {
    let error =
        json!({"error": {"message": "scripted models answer chats only", "type": "invalid_request_error"}});
    (StatusCode::BAD_REQUEST, Json(error)).into_response()
}

async fn chat(State(calls): State<Arc<AtomicU64>>, Path(name): Path<String>, body: Bytes) -> Response {
    if name == "flaky" && calls.fetch_add(1, Ordering::Relaxed) % 3 == 2 {
        let error = json!({"error": {"message": "scripted failure", "type": "server_error"}});
        return (StatusCode::SERVICE_UNAVAILABLE, Json(error)).into_response();
    }
    let pause = if name == "slow" { Duration::from_secs(1) } else { Duration::from_millis(40) };
    tokio::time::sleep(pause).await;
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    let text = format!("Hello from {name}, a scripted model behind Onegate.");
    let usage = json!({"prompt_tokens": 9, "completion_tokens": 12, "total_tokens": 21});
    if body["stream"] == true {
        return streamed(&name, &text, &usage, body["stream_options"]["include_usage"] == true);
    }
    let message = json!({"role": "assistant", "content": text});
    let choice = json!({"index": 0, "message": message, "finish_reason": "stop"});
    let mut answer = envelope(&name, "chat.completion", &json!([choice]));
    answer["usage"] = usage;
    Json(answer).into_response()
}

fn streamed(name: &str, text: &str, usage: &Value, with_usage: bool) -> Response {
    let chunk = |delta: Value, finish: Option<&str>| {
        let choice = json!({"index": 0, "delta": delta, "finish_reason": finish});
        envelope(name, "chat.completion.chunk", &json!([choice])).to_string()
    };
    let mut events = vec![chunk(json!({"role": "assistant", "content": ""}), None)];
    events.extend(text.split_inclusive(' ').map(|word| chunk(json!({"content": word}), None)));
    events.push(chunk(json!({}), Some("stop")));
    if with_usage {
        let mut last = envelope(name, "chat.completion.chunk", &json!([]));
        last["usage"] = usage.clone();
        events.push(last.to_string());
    }
    events.push("[DONE]".to_owned());
    let events = stream::iter(events).then(async |event| {
        tokio::time::sleep(Duration::from_millis(30)).await;
        Ok::<_, Infallible>(format!("data: {event}\n\n"))
    });
    ([(header::CONTENT_TYPE, "text/event-stream")], Body::from_stream(events)).into_response()
}

fn envelope(name: &str, object: &str, choices: &Value) -> Value {
    json!({"id": format!("chatcmpl-{name}"), "object": object, "created": 0, "model": name, "choices": choices})
}
