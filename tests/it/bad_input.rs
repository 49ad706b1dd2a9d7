//! What a caller can do wrong is answered in OpenAI's shape, reaches no provider, and ends no process.
use super::{deployment, openai_error};
use harness::{Call, Replica, ScriptedProvider};
use http::Method;
use serde_json::json;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::thread;
use std::time::Duration;

const CHAT: &str = "/v1/chat/completions";
const MIB: usize = 1024 * 1024;

struct Stand {
    provider: ScriptedProvider,
    gateway: Replica,
}

impl Stand {
    async fn new() -> Self {
        let provider = ScriptedProvider::start().await;
        let config = format!("model_list:\n{}", deployment(&provider, "chat", "a", ""));
        let gateway = Replica::start(&config).await;
        Self { provider, gateway }
    }

    /// The same process still serves, and what was sent before has reached no provider.
    async fn still_serves(&self) {
        assert_eq!(self.provider.hits("a"), 0, "bad input reached the provider");
        let reply = self.gateway.send(Call::chat("chat", &json!({}))).await;
        assert_eq!(reply.status, 200, "{}", reply.text());
    }
}

#[tokio::test]
async fn a_body_that_is_no_json_is_a_400() {
    let stand = Stand::new().await;
    let deep = format!(r#"{{"model": "chat", "messages": {}"#, "[".repeat(200_000));
    let bodies: [&[u8]; 6] =
        [b"", b"{", b"hello", b"{\"model\": \"chat\", \"messages\": [", b"\xff\xfe\x00", deep.as_bytes()];

    for body in bodies {
        let error = openai_error(&stand.gateway.send(Call::post(CHAT, body.to_vec())).await, 400);
        assert_eq!(error["type"], "invalid_request_error", "{error}");
    }

    stand.still_serves().await;
}

#[tokio::test]
async fn a_missing_or_wrong_field_is_a_400_that_names_it() {
    let stand = Stand::new().await;
    let wrong = [
        (json!({"messages": [{"role": "user", "content": "hi"}]}), "model"),
        (json!({"model": 5, "messages": [{"role": "user", "content": "hi"}]}), "model"),
        (json!({"model": null, "messages": [{"role": "user", "content": "hi"}]}), "model"),
        (json!({"model": "chat"}), "messages"),
        (json!({"model": "chat", "messages": "hi"}), "messages"),
        (json!({"model": "chat", "messages": {"role": "user"}}), "messages"),
        (
            json!({"model": "chat", "messages": [{"role": "user", "content": "hi"}], "stream": "yes"}),
            "stream",
        ),
    ];

    for (body, field) in wrong {
        let reply = stand.gateway.send(Call::post(CHAT, body.to_string())).await;
        let error = openai_error(&reply, 400);
        assert_eq!(error["type"], "invalid_request_error", "{body}: {error}");
        assert!(error["message"].as_str().unwrap().contains(field), "{body}: {error}");
    }

    stand.still_serves().await;
}

#[tokio::test]
async fn json_that_is_no_object_is_a_400() {
    let stand = Stand::new().await;

    for body in ["[]", "null", "\"chat\"", "7", "true"] {
        openai_error(&stand.gateway.send(Call::post(CHAT, body)).await, 400);
    }

    stand.still_serves().await;
}

#[tokio::test]
async fn an_unknown_model_is_a_404() {
    let stand = Stand::new().await;

    let error = openai_error(&stand.gateway.send(Call::chat("nowhere", &json!({}))).await, 404);

    assert_eq!(error["code"], "model_not_found");
    assert!(error["message"].as_str().unwrap().contains("nowhere"), "{error}");
    stand.still_serves().await;
}

#[tokio::test]
async fn an_unknown_path_is_a_404_and_a_wrong_method_a_405() {
    let stand = Stand::new().await;

    openai_error(&stand.gateway.send(Call::post("/v1/nowhere", "{}")).await, 404);
    openai_error(&stand.gateway.send(Call::get("/nowhere")).await, 404);
    openai_error(&stand.gateway.send(Call::get(CHAT)).await, 405);
    openai_error(&stand.gateway.send(Call::get(CHAT).method(Method::DELETE)).await, 405);

    stand.still_serves().await;
}

#[tokio::test]
async fn a_body_of_40_mib_is_a_413() {
    let stand = Stand::new().await;

    let head = format!("POST {CHAT} HTTP/1.1\r\nhost: gateway\r\ncontent-type: application/json\r\n");
    let sized = format!("{head}content-length: {}\r\n\r\n", 40 * MIB);
    let answer = pour(stand.gateway.address(), &sized, vec![b' '; 40 * MIB]);
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
    assert!(answer.contains("\"error\""), "{answer}");

    // Without a length in its head the gateway has to count.
    let chunk = [format!("{MIB:x}\r\n").into_bytes(), vec![b' '; MIB], b"\r\n".to_vec()].concat();
    let body = [chunk.repeat(40), b"0\r\n\r\n".to_vec()].concat();
    let answer = pour(stand.gateway.address(), &format!("{head}transfer-encoding: chunked\r\n\r\n"), body);
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");

    stand.still_serves().await;
}

#[tokio::test]
async fn half_a_request_and_a_hang_up_disturb_nobody() {
    let stand = Stand::new().await;
    let halves = [
        format!("POST {CHAT} HTT"),
        format!("POST {CHAT} HTTP/1.1\r\nhost: gateway\r\ncontent-le"),
        format!("POST {CHAT} HTTP/1.1\r\nhost: gateway\r\ncontent-length: 100\r\n\r\n{{\"model\": \"ch"),
        format!("POST {CHAT} HTTP/1.1\r\nhost: gateway\r\ntransfer-encoding: chunked\r\n\r\n5\r\n{{\"m"),
        format!("POST {CHAT} HTTP/1.1\r\nhost: gateway\r\ntransfer-encoding: chunked\r\n\r\nnothing\r\n"),
    ];

    for half in halves {
        let mut stream = TcpStream::connect(stand.gateway.address()).unwrap();
        stream.write_all(half.as_bytes()).unwrap();
    }

    stand.still_serves().await;
}

/// Writes as much as the gateway takes, and answers what it said: it may answer before it has read all.
fn pour(gateway: SocketAddr, head: &str, body: Vec<u8>) -> String {
    let mut to = TcpStream::connect(gateway).unwrap();
    let mut from = to.try_clone().unwrap();
    from.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    to.set_write_timeout(Some(Duration::from_secs(20))).unwrap();
    to.write_all(head.as_bytes()).unwrap();
    // A gateway that has said no may close: the rest of the body is then refused, which is no fault.
    let writer = thread::spawn(move || to.write_all(&body));
    let mut answer = Vec::new();
    let mut piece = [0; 4096];
    // Up to the end of the answer's JSON: the connection may stay open.
    while !answer.ends_with(b"}") {
        match from.read(&mut piece) {
            Ok(n) if n > 0 => answer.extend_from_slice(&piece[..n]),
            _ => break,
        }
    }
    // What is still to be written has no reader any more.
    let _ = from.shutdown(Shutdown::Both);
    let _ = writer.join().expect("writing ends in an answer");
    String::from_utf8_lossy(&answer).into_owned()
}
