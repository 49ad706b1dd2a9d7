//! A scripted provider: one HTTP server, in it virtual upstreams named by the first path segment.
//!
//! Each plays its list of behaviours, and keeps what reached it. A name without a script answers with 200.
use crate::behaviour::Behaviour;
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::response::Response;
use axum::{Router, serve};
use bytes::Bytes;
use futures_util::stream;
use http::{HeaderMap, Method};
use serde_json::Value;
use std::collections::HashMap;
use std::future::pending;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use tokio::net::TcpSocket;
use tokio::task::{JoinHandle, yield_now};
use tokio::time::sleep;

/// A request that reached an upstream.
#[derive(Debug, Clone)]
pub struct Seen {
    /// Without the upstream's name.
    pub path: String,
    /// As they came.
    pub headers: HeaderMap,
    /// As it came.
    pub body: Bytes,
    /// The gateway closed the connection before the answer was complete.
    pub left: bool,
}

impl Seen {
    /// The body as JSON; null if it is none.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }

    /// A header's text; empty if it did not come.
    #[must_use]
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }
}

#[derive(Debug, Default)]
struct Upstream {
    script: Vec<Behaviour>,
    used: usize,
    seen: Vec<Seen>,
}

impl Upstream {
    fn next(&mut self) -> Behaviour {
        let at = self.used;
        self.used += 1;
        let mut end = 0;
        for behaviour in &self.script {
            end += behaviour.times;
            if at < end {
                return behaviour.clone();
            }
        }
        self.script.last().cloned().unwrap_or_default()
    }
}

type Upstreams = Arc<Mutex<HashMap<String, Upstream>>>;

/// The server. It ends when dropped.
#[derive(Debug)]
pub struct ScriptedProvider {
    address: SocketAddr,
    upstreams: Upstreams,
    server: JoinHandle<io::Result<()>>,
}

impl ScriptedProvider {
    /// Listens on a free loopback port.
    #[expect(clippy::disallowed_methods, reason = "the server ends with the provider: see Drop")]
    #[expect(clippy::unused_async, reason = "it needs the runtime that the caller is in")]
    pub async fn start() -> Self {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.bind(([127, 0, 0, 1], 0).into()).expect("a free loopback port");
        // As many connections at once as the burst in limits.rs, without a lost SYN.
        let listener = socket.listen(4096).expect("a loopback port to listen on");
        let address = listener.local_addr().expect("a bound socket has an address");
        let upstreams = Upstreams::default();
        let state = Arc::clone(&upstreams);
        let app = Router::new().fallback(move |request: Request| answer(Arc::clone(&state), request));
        Self { address, upstreams, server: tokio::spawn(serve(listener, app).into_future()) }
    }

    /// What `api_base` has to be for this upstream.
    #[must_use]
    pub fn base(&self, upstream: &str) -> String {
        format!("http://{}/{upstream}/v1", self.address)
    }

    /// Gives an upstream a new script.
    pub fn script(&self, upstream: &str, script: impl Into<Vec<Behaviour>>) {
        let mut upstreams = self.upstreams.lock().unwrap();
        let upstream = upstreams.entry(upstream.to_owned()).or_default();
        upstream.script = script.into();
        upstream.used = 0;
    }

    /// What reached an upstream so far, in its order.
    #[must_use]
    pub fn seen(&self, upstream: &str) -> Vec<Seen> {
        self.upstreams.lock().unwrap().get(upstream).map(|upstream| upstream.seen.clone()).unwrap_or_default()
    }

    /// How many requests reached an upstream.
    #[must_use]
    pub fn hits(&self, upstream: &str) -> usize {
        self.upstreams.lock().unwrap().get(upstream).map_or(0, |upstream| upstream.seen.len())
    }

    /// The last request that reached an upstream.
    #[must_use]
    pub fn last(&self, upstream: &str) -> Seen {
        self.seen(upstream).pop().unwrap_or_else(|| panic!("no request reached upstream {upstream}"))
    }
}

impl Drop for ScriptedProvider {
    fn drop(&mut self) {
        self.server.abort();
    }
}

/// One request under way; dropped before the end, it notes that the gateway left.
struct Visit {
    upstreams: Upstreams,
    name: String,
    place: usize,
    complete: bool,
}

impl Visit {
    /// The answer went out whole, or was broken off by the script: whatever the gateway does now is its right.
    fn finish(mut self) {
        self.complete = true;
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        if !self.complete {
            let mut upstreams = self.upstreams.lock().unwrap();
            if let Some(seen) =
                upstreams.get_mut(&self.name).and_then(|upstream| upstream.seen.get_mut(self.place))
            {
                seen.left = true;
            }
        }
    }
}

async fn answer(upstreams: Upstreams, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let Ok(body) = to_bytes(body, usize::MAX).await else { return respond(400, &[], Body::empty()) };
    if parts.method == Method::GET {
        return respond(200, &[], Body::from(r#"{"object": "list", "data": []}"#));
    }
    let path = parts.uri.path().trim_start_matches('/');
    let (name, path) = path.split_once('/').unwrap_or((path, ""));
    let seen = Seen { path: format!("/{path}"), headers: parts.headers, body, left: false };
    let (asked, authorization) = (seen.json(), seen.header("authorization").to_owned());
    let (behaviour, visit) = {
        let mut all = upstreams.lock().unwrap();
        let upstream = all.entry(name.to_owned()).or_default();
        upstream.seen.push(seen);
        let place = upstream.seen.len() - 1;
        let visit =
            Visit { upstreams: Arc::clone(&upstreams), name: name.to_owned(), place, complete: false };
        (upstream.next(), visit)
    };
    sleep(behaviour.delay).await;
    if behaviour.hang {
        pending::<()>().await;
    }
    if behaviour.body.is_none() && asked["stream"] == true {
        let events = behaviour.stream_events(&asked, &authorization);
        return respond_with_events(&behaviour, events, visit);
    }
    visit.finish();
    let body = Body::from(behaviour.plain_body(name, &asked, &authorization));
    respond(behaviour.status, &behaviour.headers, body)
}

fn respond_with_events(behaviour: &Behaviour, events: Vec<String>, visit: Visit) -> Response {
    let (stall, cut) = (behaviour.stall_after, behaviour.cut_after);
    let body = stream::unfold(
        (events.into_iter().enumerate(), Some(visit)),
        move |(mut events, visit)| async move {
            let visit = visit?;
            let Some((place, event)) = events.next() else {
                visit.finish();
                return None;
            };
            if stall == Some(place) {
                pending::<()>().await;
            }
            if cut == Some(place) {
                visit.finish();
                // The server writes out what it has while the body waits: without this it is lost with the connection.
                yield_now().await;
                return Some((Err(io::Error::other("scripted cut")), (events, None)));
            }
            Some((Ok(Bytes::from(event)), (events, Some(visit))))
        },
    );
    let mut headers = vec![("content-type".to_owned(), "text/event-stream".to_owned())];
    headers.extend(behaviour.headers.iter().cloned());
    respond(behaviour.status, &headers, Body::from_stream(body))
}

fn respond(status: u16, headers: &[(String, String)], body: Body) -> Response {
    let mut response = Response::builder().status(status);
    if !headers.iter().any(|(name, _)| name == "content-type") {
        response = response.header("content-type", "application/json");
    }
    for (name, value) in headers {
        response = response.header(name, value);
    }
    response.body(body).expect("a scripted answer is well-formed")
}
