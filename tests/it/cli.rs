//! The program's other subcommands, and how it ends.
use super::deployment;
use harness::{Behaviour, Call, Replica, ScriptedProvider, once, until};
use serde_json::json;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

const FAULTY: &str = "
model_list:
  - model_name: chat
    litellm_params: {model: openai/m, api_bas: nowhere}
router_setings: {num_retries: 1}
";

#[tokio::test]
async fn check_passes_a_good_file_and_names_every_fault_of_a_bad_one() {
    let provider = ScriptedProvider::start().await;
    let good = once("check", &format!("model_list:\n{}", deployment(&provider, "chat", "a", "")), &[]);
    assert_eq!(good.code, Some(0), "{}", good.text);

    let bad = once("check", FAULTY, &[]);
    assert_eq!(bad.code, Some(1), "{}", bad.text);
    for word in ["api_bas", "api_base", "router_setings", "router_settings", "config.yaml"] {
        assert!(bad.text.contains(word), "`{word}` is not in: {}", bad.text);
    }
}

#[tokio::test]
async fn explain_names_the_deployment_and_calls_nobody() {
    let provider = ScriptedProvider::start().await;
    let config = format!("model_list:\n{}", deployment(&provider, "chat", "dep-a", ""));

    let explained = once("explain", &config, &["--model", "chat"]);

    assert_eq!(explained.code, Some(0), "{}", explained.text);
    assert!(explained.text.contains("dep-a"), "{}", explained.text);
    assert_eq!(provider.hits("dep-a"), 0);
}

#[tokio::test]
async fn a_faulty_file_does_not_start() {
    let refused = once("serve", FAULTY, &["--port", "0"]);

    assert_eq!(refused.code, Some(1), "{}", refused.text);
    assert!(refused.text.contains("api_bas"), "{}", refused.text);
}

#[tokio::test]
async fn sigterm_ends_it_with_exit_code_0() {
    let provider = ScriptedProvider::start().await;
    let gateway = Replica::start(&format!("model_list:\n{}", deployment(&provider, "chat", "a", ""))).await;

    let ended = gateway.stop().await;

    assert_eq!(ended.code, Some(0), "{}", ended.text);
}

#[tokio::test]
async fn an_interrupt_lets_a_request_run_and_a_second_one_ends_at_once() {
    let provider = ScriptedProvider::start().await;
    provider.script("a", [Behaviour::default().stall_after(1)]);
    let gateway = Replica::start(&format!("model_list:\n{}", deployment(&provider, "chat", "a", ""))).await;
    let mut reply = gateway.open(Call::chat("chat", &json!({"stream": true}))).await;
    reply.next().await.expect("an event");

    gateway.signal("INT");
    until("it was told to end", Duration::from_secs(5), async || gateway.printed().contains("told to end"))
        .await;
    gateway.signal("INT");

    let ended = gateway.ended().await;
    assert_eq!(ended.code, Some(0), "{}", ended.text);
    assert!(ended.text.contains("interrupted twice"), "{}", ended.text);
}

#[tokio::test]
async fn a_request_that_never_arrives_whole_does_not_keep_it_from_ending() {
    let provider = ScriptedProvider::start().await;
    let gateway = Replica::start(&format!("model_list:\n{}", deployment(&provider, "chat", "a", ""))).await;
    let head = "POST /v1/chat/completions HTTP/1.1\r\nhost: gateway\r\n";
    let halves: Vec<TcpStream> = [head.to_owned(), format!("{head}content-length: 100\r\n\r\n{{")]
        .into_iter()
        .map(|half| {
            let mut stream = TcpStream::connect(gateway.address()).unwrap();
            stream.write_all(half.as_bytes()).unwrap();
            stream
        })
        .collect();
    // A whole request after them: by its answer the halves have been taken in.
    assert_eq!(gateway.send(Call::chat("chat", &json!({}))).await.status, 200);

    let ended = gateway.stop().await;

    assert_eq!(ended.code, Some(0), "{}", ended.text);
    drop(halves);
}

#[tokio::test]
async fn a_sender_that_asks_first_is_told_at_once_that_its_body_is_too_large() {
    let provider = ScriptedProvider::start().await;
    let gateway = Replica::start(&format!("model_list:\n{}", deployment(&provider, "chat", "a", ""))).await;
    let mut stream = TcpStream::connect(gateway.address()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let head = "POST /v1/chat/completions HTTP/1.1\r\nhost: gateway\r\nexpect: 100-continue\r\n";
    stream.write_all(format!("{head}content-length: 104857600\r\n\r\n").as_bytes()).unwrap();

    let mut start = [0; 12];
    stream.read_exact(&mut start).unwrap();

    assert_eq!(&start, b"HTTP/1.1 413");
}
