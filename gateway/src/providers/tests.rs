//! Calls against a real server on a loopback port.
use super::scripted::{Server, Step, answer, piece, stream_head};
use super::*;
use crate::secret::Secret;
use std::sync::Arc;
use stream::Item;
use tokio::sync::Notify;

const ANSWER: &str = r#"{"choices":[{"message":{"content":"hi"},"finish_reason":"stop"}],"vendor":1.0,"usage":{"prompt_tokens":3,"completion_tokens":2}}"#;
const CONTENT: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hi\"}}]}\n\n";
const STOP: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";
const DONE: &str = "data: [DONE]\n\n";
const EVENT_STREAM: &str = "content-type: text/event-stream\r\n";
const JSON_TYPE: &str = "content-type: application/json\r\n";

fn deployment(base: &str) -> Deployment {
    let id: Arc<str> = "dep".into();
    Deployment {
        facts: Arc::new(routing::Deployment {
            id: id.clone(),
            order: None,
            weight: None,
            rpm: None,
            tpm: None,
            blocked: false,
            price: None,
        }),
        member: ledger::Member { id, model: "openai/m".into() },
        target: Target::Upstream(Upstream {
            base: base.to_owned(),
            key: Some(Secret::new("sk-provider-secret".into())),
            model: "m".into(),
            defaults: Vec::new(),
        }),
        timeout: Duration::from_secs(30),
        stream_timeout: Duration::from_secs(30),
        num_retries: None,
        cooldown: None,
        allowed_fails: None,
    }
}

async fn call_within(
    transport: &Transport,
    server: &Server,
    stream: bool,
    limit_ms: u64,
) -> Result<Reply, Failure> {
    let body = format!(r#"{{"model":"chat","messages":[],"stream":{stream}}}"#);
    call_with(transport, server, &body, limit_ms).await
}

async fn call_with(
    transport: &Transport,
    server: &Server,
    body: &str,
    limit_ms: u64,
) -> Result<Reply, Failure> {
    let chat = Prompt::parse(crate::prompt::Endpoint::Chat, Bytes::copy_from_slice(body.as_bytes())).unwrap();
    let limit = Duration::from_millis(limit_ms);
    let limits = CallLimits { total: limit, silence: limit };
    call(transport, &chat, &deployment(&server.base), "m", limits, 0).await
}

async fn ask(server: &Server, stream: bool) -> Result<Reply, Failure> {
    call_within(&Transport::new(), server, stream, 30_000).await
}

async fn open(server: &Server, limit_ms: u64) -> Stream {
    match call_within(&Transport::new(), server, true, limit_ms).await {
        Ok(Reply::Stream(stream)) => *stream,
        other => panic!("{other:?}"),
    }
}

async fn rest(stream: &mut Stream) -> (String, Option<Failure>) {
    let (mut text, mut failure) = (String::new(), None);
    while let Some(item) = stream.next().await {
        match item {
            Item::Event(raw) => text.push_str(std::str::from_utf8(&raw).unwrap()),
            Item::Broken(broken) => failure = Some(broken),
        }
    }
    (text, failure)
}

#[tokio::test]
async fn a_plain_answer_comes_back_as_it_was() {
    let server = Server::start(vec![vec![
        Step::Request,
        answer(200, "content-type: application/json; x=y\r\n", ANSWER),
    ]])
    .await;
    let Ok(Reply::Plain(plain)) = ask(&server, false).await else { panic!("no plain answer") };
    assert_eq!(&plain.body[..], ANSWER.as_bytes());
    assert_eq!(plain.content_type, "application/json; x=y");
    assert_eq!(plain.usage, Some(Usage { input: 3, output: 2 }));
    let request = &server.requests()[0];
    assert!(request.starts_with("POST /v1/chat/completions HTTP/1.1\r\n"), "{request}");
    assert!(request.contains("\r\nauthorization: Bearer sk-provider-secret\r\n"), "{request}");
    assert!(request.ends_with(r#"{"model":"m","messages":[],"stream":false}"#), "{request}");
}

#[tokio::test]
async fn a_status_of_the_provider_is_a_failure_plain_and_in_streams() {
    let table = [
        (400, 400, FailureKind::BadRequest),
        (401, 502, FailureKind::Auth),
        (404, 404, FailureKind::NotFound),
        (429, 429, FailureKind::RateLimit),
        (500, 500, FailureKind::Server),
        (529, 529, FailureKind::Server),
        (302, 502, FailureKind::Malformed),
    ];
    for (status, wire, kind) in table {
        for stream in [false, true] {
            let body = r#"{"error":{"message":"scripted sk-provider-secret"}}"#;
            let server =
                Server::start(vec![vec![Step::Request, answer(status, "retry-after: 7\r\n", body)]]).await;
            let failure = ask(&server, stream).await.unwrap_err();
            assert_eq!((failure.wire_status(), failure.kind), (wire, kind), "{status}");
            assert_eq!(failure.message, "scripted [secret]");
            assert_eq!(failure.retry_after, Some(Duration::from_secs(7)));
            assert_eq!(server.requests().len(), 1);
        }
    }
}

#[tokio::test]
async fn an_error_status_counts_even_if_its_body_does_not_come() {
    let head = Step::Say("HTTP/1.1 503 X\r\ncontent-length: 10\r\n\r\n".into());
    let server = Server::start(vec![vec![Step::Request, head]]).await;
    assert_eq!(ask(&server, false).await.unwrap_err().status, Some(503));
}

#[tokio::test]
async fn an_answer_that_is_none_is_a_failure() {
    let error = r#"{"error":{"message":"engine lost","code":502}}"#;
    let table = [
        (false, JSON_TYPE, error, FailureKind::Server),
        (true, JSON_TYPE, error, FailureKind::Server),
        (true, JSON_TYPE, ANSWER, FailureKind::Malformed),
        (true, EVENT_STREAM, "", FailureKind::Broken),
        (true, EVENT_STREAM, "data: {\"error\":\"lost\"}\n\n", FailureKind::Server),
        (false, JSON_TYPE, "", FailureKind::Malformed),
        (false, "content-encoding: gzip\r\n", "x", FailureKind::Malformed),
    ];
    for (stream, headers, body, kind) in table {
        let server = Server::start(vec![vec![Step::Request, answer(200, headers, body)]]).await;
        let failure = ask(&server, stream).await.unwrap_err();
        assert_eq!((failure.kind, failure.wire_status()), (kind, 502), "{body}");
    }
}

#[tokio::test]
async fn a_stream_passes_and_its_connection_is_used_again() {
    let whole = [CONTENT, STOP, DONE].concat();
    let seen_done = Arc::new(Notify::new());
    let begin = [Step::Request, stream_head(), piece(CONTENT), piece(STOP), piece(DONE)];
    let once = [&begin[..], &[Step::Wait(seen_done.clone()), piece("")]].concat();
    let server = Server::start(vec![[once.clone(), once].concat()]).await;
    let transport = Transport::new();
    for _ in 0..2 {
        let Ok(Reply::Stream(mut stream)) = call_within(&transport, &server, true, 30_000).await else {
            panic!("no stream")
        };
        let mut text = String::new();
        while !text.ends_with(DONE) {
            let Some(Item::Event(raw)) = stream.next().await else { panic!("no event after {text}") };
            text.push_str(std::str::from_utf8(&raw).unwrap());
        }
        assert_eq!(text, whole);
        seen_done.notify_one();
        assert_eq!(stream.next().await, None);
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
    }
    assert_eq!((server.requests().len(), server.connections()), (2, 1));
    assert!(server.requests()[0].contains(r#""stream_options":{"include_usage":true}"#));
}

#[tokio::test]
async fn a_provider_that_leaves_its_connection_open_after_the_closing_line_holds_up_nobody() {
    let script = vec![Step::Request, stream_head(), piece(CONTENT), piece(DONE), Step::UntilLeft];
    let server = Server::start(vec![script]).await;
    assert_eq!(rest(&mut open(&server, 30_000).await).await, ([CONTENT, DONE].concat(), None));
    server.left().await;
}

#[tokio::test]
async fn silence_before_content_is_a_timeout() {
    let hang = vec![Step::Request, Step::UntilLeft];
    let stall = vec![Step::Request, stream_head(), piece(": ping\n\n"), Step::UntilLeft];
    for (script, what) in [(hang, "answer"), (stall, "content")] {
        let server = Server::start(vec![script]).await;
        let failure = call_within(&Transport::new(), &server, true, 400).await.unwrap_err();
        assert_eq!((failure.kind, failure.wire_status()), (FailureKind::Timeout, 504));
        assert_eq!(
            failure.message,
            format!("timeout: the provider sent no {what} within 400ms (stream_timeout)")
        );
        server.left().await;
    }
}

#[tokio::test]
async fn silence_after_content_breaks_the_stream_and_names_the_setting() {
    let script = vec![Step::Request, stream_head(), piece(CONTENT), Step::UntilLeft];
    let server = Server::start(vec![script]).await;
    let mut stream = open(&server, 400).await;
    let (text, failure) = rest(&mut stream).await;
    let failure = failure.unwrap();
    assert_eq!((text.as_str(), failure.kind), (CONTENT, FailureKind::Timeout));
    assert_eq!(failure.message, "timeout: the provider sent no event for 400ms (stream_timeout)");
    server.left().await;
}

#[tokio::test]
async fn a_cut_or_reset_in_the_middle_breaks_the_stream_after_what_came() {
    for reset in [false, true] {
        let read = Arc::new(Notify::new());
        let mut script = vec![Step::Request, stream_head(), piece(CONTENT), Step::Wait(read.clone())];
        script.extend(reset.then_some(Step::Reset));
        let server = Server::start(vec![script]).await;
        let mut stream = open(&server, 30_000).await;
        assert_eq!(stream.next().await, Some(Item::Event(CONTENT.into())));
        read.notify_one();
        let (text, failure) = rest(&mut stream).await;
        assert_eq!((text.as_str(), failure.unwrap().kind), ("", FailureKind::Broken));
    }
}

#[tokio::test]
async fn a_connection_that_breaks_after_the_end_of_the_answer_breaks_nothing() {
    let script = vec![Step::Request, stream_head(), piece(CONTENT), piece(STOP)];
    let server = Server::start(vec![script]).await;
    assert_eq!(rest(&mut open(&server, 30_000).await).await, ([CONTENT, STOP, DONE].concat(), None));
}

#[tokio::test]
async fn a_dropped_stream_closes_the_providers_connection() {
    let script = vec![Step::Request, stream_head(), piece(CONTENT), Step::UntilLeft];
    let server = Server::start(vec![script]).await;
    let mut stream = open(&server, 30_000).await;
    assert!(stream.next().await.is_some());
    drop(stream);
    server.left().await;
}

#[tokio::test]
async fn a_provider_that_refuses_to_report_usage_is_asked_without_that() {
    let refusal = answer(400, "", r#"{"error":{"message":"unknown field: stream_options"}}"#);
    let whole = answer(200, EVENT_STREAM, &[CONTENT, STOP, DONE].concat());
    let server = Server::start(vec![vec![Step::Request, refusal, Step::Request, whole]]).await;
    assert_eq!(rest(&mut open(&server, 30_000).await).await.1, None);
    let requests = server.requests();
    assert!(
        requests[0].contains("stream_options") && !requests[1].contains("stream_options"),
        "{requests:?}"
    );
}

#[tokio::test]
async fn a_refusal_of_the_clients_own_stream_options_is_the_clients() {
    let refusal = answer(400, "", r#"{"error":{"message":"unknown field: stream_options"}}"#);
    let server = Server::start(vec![vec![Step::Request, refusal]]).await;
    let body = r#"{"model":"chat","messages":[],"stream":true,"stream_options":{"x":1}}"#;
    let failure = call_with(&Transport::new(), &server, body, 30_000).await.unwrap_err();
    assert_eq!((failure.wire_status(), server.requests().len()), (400, 1));
}
