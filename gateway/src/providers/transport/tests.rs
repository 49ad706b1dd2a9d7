//! The transport against a real server: refusals, resets, reused connections.
use super::*;
use crate::providers::scripted::{Server, Step, answer, stream_head};
use http_body::Frame;
use http_body_util::StreamBody;
use std::convert::Infallible;

const LONG: Duration = Duration::from_secs(30);

fn to(base: &str) -> Request<Full<Bytes>> {
    Request::post(format!("{base}/x")).body(Full::new(Bytes::from_static(b"{}"))).unwrap()
}

async fn send(transport: &Transport, server: &Server) -> Result<Bytes, Failure> {
    let limit = Limit::new(LONG, "timeout");
    let response = transport.send(to(&server.base), limit).await?;
    let body = transport.read(response.into_body(), limit).await;
    // The connection's task puts it back into the pool once it has run.
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
    body
}

#[tokio::test]
async fn a_refused_connection_is_a_failure_before_sending() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let limit = Limit::new(LONG, "timeout");
    let failure = Transport::new().send(to(&format!("http://{address}")), limit).await.unwrap_err();
    assert_eq!((failure.kind, failure.sent, failure.wire_status()), (FailureKind::Connect, false, 502));
    assert!(failure.message.to_lowercase().contains("refused"), "{}", failure.message);
}

#[tokio::test]
async fn a_handshake_that_fails_is_a_failure_before_sending() {
    let server = Server::start(vec![vec![Step::Say("no TLS here\r\n".into()), Step::UntilLeft]]).await;
    let base = server.base.replace("http://", "https://");
    let failure = Transport::new().send(to(&base), Limit::new(LONG, "timeout")).await.unwrap_err();
    assert_eq!((failure.kind, failure.sent), (FailureKind::Connect, false));
}

#[tokio::test]
async fn a_silent_provider_is_given_up_and_its_connection_closed() {
    let server = Server::start(vec![vec![Step::Request, Step::UntilLeft]]).await;
    let transport = Transport::new();
    let limit = Limit::new(Duration::from_millis(400), "timeout");
    let failure = transport.send(to(&server.base), limit).await.unwrap_err();
    assert_eq!((failure.kind, failure.sent, failure.wire_status()), (FailureKind::Timeout, true, 504));
    assert_eq!(failure.message, "timeout: the provider sent no answer within 400ms (timeout)");
    server.left().await;
}

#[tokio::test]
async fn an_answer_that_does_not_end_is_given_up() {
    let head = Step::Say("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc".into());
    let server = Server::start(vec![vec![Step::Request, head, Step::UntilLeft]]).await;
    let transport = Transport::new();
    let limit = Limit::new(Duration::from_millis(400), "timeout");
    let response = transport.send(to(&server.base), limit).await.unwrap();
    let failure = transport.read(response.into_body(), limit).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Timeout);
    server.left().await;
}

#[tokio::test]
async fn a_dropped_call_closes_the_providers_connection() {
    let server = Server::start(vec![vec![Step::Request, Step::UntilLeft]]).await;
    let transport = Transport::new();
    let mut call = Box::pin(transport.send(to(&server.base), Limit::new(LONG, "timeout")));
    while server.requests().is_empty() {
        tokio::select! {
            biased;
            _ = &mut call => panic!("answered"),
            () = tokio::task::yield_now() => {}
        }
    }
    drop(call);
    server.left().await;
}

#[tokio::test]
async fn a_connection_is_used_again() {
    let server =
        Server::start(vec![vec![Step::Request, answer(200, "", "a"), Step::Request, answer(200, "", "b")]])
            .await;
    let transport = Transport::new();
    assert_eq!(&send(&transport, &server).await.unwrap()[..], b"a");
    assert_eq!(&send(&transport, &server).await.unwrap()[..], b"b");
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn a_reused_connection_that_is_dropped_without_an_answer_costs_the_client_nothing() {
    let reused = vec![Step::Request, answer(200, "", "a"), Step::Request];
    let reset = [reused.clone(), vec![Step::Reset]].concat();
    for first in [reused, reset] {
        let server = Server::start(vec![first, vec![Step::Request, answer(200, "", "b")]]).await;
        let transport = Transport::new();
        assert_eq!(&send(&transport, &server).await.unwrap()[..], b"a");
        assert_eq!(&send(&transport, &server).await.unwrap()[..], b"b");
        assert_eq!((server.requests().len(), server.connections()), (3, 2));
    }
}

#[tokio::test]
async fn a_provider_whose_last_answer_was_a_failure_is_not_asked_twice() {
    let script = vec![Step::Request, answer(503, "", "no"), Step::Request];
    let server = Server::start(vec![script, vec![Step::Request, answer(200, "", "b")]]).await;
    let transport = Transport::new();
    send(&transport, &server).await.unwrap();
    assert_eq!(send(&transport, &server).await.unwrap_err().kind, FailureKind::Broken);
    assert_eq!((server.requests().len(), server.connections()), (2, 1));
    assert_eq!(&send(&transport, &server).await.unwrap()[..], b"b");
    assert_eq!(transport.failing.count.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn a_connection_closed_while_idle_costs_the_client_nothing() {
    let server = Server::start(vec![vec![Step::Request, answer(200, "", "a")]]).await;
    let transport = Transport::new();
    for _ in 0..20 {
        assert_eq!(&send(&transport, &server).await.unwrap()[..], b"a");
    }
}

#[tokio::test]
async fn a_fresh_connection_that_is_dropped_is_a_failure_and_nothing_is_sent_twice() {
    for ending in [vec![], vec![Step::Reset], vec![Step::Say("HTTP/1.1 2".into())]] {
        let script = [vec![Step::Request], ending].concat();
        let server = Server::start(vec![script]).await;
        let failure = send(&Transport::new(), &server).await.unwrap_err();
        assert_eq!((failure.kind, failure.sent), (FailureKind::Broken, true));
        assert_eq!(server.requests().len(), 1);
    }
}

#[tokio::test]
async fn a_reused_connection_that_had_begun_to_answer_is_a_failure() {
    let script = vec![Step::Request, answer(200, "", "a"), Step::Request, Step::Say("HTTP/1.1 2".into())];
    let server = Server::start(vec![script, vec![Step::Request, answer(200, "", "b")]]).await;
    let transport = Transport::new();
    send(&transport, &server).await.unwrap();
    assert_eq!(send(&transport, &server).await.unwrap_err().kind, FailureKind::Broken);
    assert_eq!((server.requests().len(), server.connections()), (2, 1));
}

#[tokio::test]
async fn a_body_cut_in_the_middle_is_a_failure() {
    let head = Step::Say("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc".into());
    for script in [vec![Step::Request, head], vec![Step::Request, stream_head(), Step::Say("5\r\nab".into())]]
    {
        let server = Server::start(vec![script]).await;
        assert_eq!(send(&Transport::new(), &server).await.unwrap_err().kind, FailureKind::Broken);
    }
}

#[tokio::test]
async fn large_answers_are_read_up_to_a_bound() {
    let pieces = |sizes: &[usize]| {
        let frames: Vec<Result<_, Infallible>> =
            sizes.iter().map(|size| Ok(Frame::data(Bytes::from(vec![b'x'; *size])))).collect();
        StreamBody::new(futures_util::stream::iter(frames))
    };
    assert_eq!(collect(pieces(&[]), 10).await.unwrap().len(), 0);
    assert_eq!(collect(pieces(&[10]), 10).await.unwrap().len(), 10);
    assert_eq!(collect(pieces(&[4, 0, 3, 3]), 10).await.unwrap(), Bytes::from(vec![b'x'; 10]));
    assert_eq!(collect(pieces(&[4, 7]), 10).await.unwrap_err().kind, FailureKind::Malformed);
    let announced = Full::new(Bytes::from(vec![b'x'; 11]));
    assert_eq!(collect(announced, 10).await.unwrap_err().kind, FailureKind::Malformed);
}
