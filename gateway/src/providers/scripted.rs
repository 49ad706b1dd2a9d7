//! A provider for tests: a TCP server on a port of its own that plays a script on each connection.
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinSet;

/// What a connection does next. After the last step it closes.
#[derive(Clone)]
pub(super) enum Step {
    /// Read one request.
    Request,
    /// Send these bytes.
    Say(String),
    /// Wait for the test.
    Wait(Arc<Notify>),
    /// Wait until the client has closed its end.
    UntilLeft,
    /// Close with a TCP reset.
    Reset,
}

pub(super) struct Server {
    pub(super) base: String,
    seen: Arc<Seen>,
    _running: JoinSet<()>,
}

struct Seen {
    requests: std::sync::Mutex<Vec<String>>,
    connections: AtomicUsize,
    left: Semaphore,
}

impl Server {
    /// Each connection plays the next script; the last repeats.
    pub(super) async fn start(scripts: Vec<Vec<Step>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}/v1", listener.local_addr().unwrap());
        let seen = Arc::new(Seen {
            requests: std::sync::Mutex::default(),
            connections: AtomicUsize::new(0),
            left: Semaphore::new(0),
        });
        let mut running = JoinSet::new();
        let shared = seen.clone();
        running.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let number = shared.connections.fetch_add(1, Ordering::SeqCst).min(scripts.len() - 1);
                connections.spawn(play(stream, scripts[number].clone(), shared.clone()));
            }
        });
        Self { base, seen, _running: running }
    }

    /// The requests that came, head and body.
    pub(super) fn requests(&self) -> Vec<String> {
        self.seen.requests.lock().unwrap().clone()
    }

    pub(super) fn connections(&self) -> usize {
        self.seen.connections.load(Ordering::SeqCst)
    }

    /// Waits until a client has left a connection that was waiting for that.
    pub(super) async fn left(&self) {
        let left = tokio::time::timeout(Duration::from_secs(10), self.seen.left.acquire());
        left.await.expect("the client did not leave").unwrap().forget();
    }
}

async fn play(stream: TcpStream, script: Vec<Step>, seen: Arc<Seen>) {
    let mut received = Vec::new();
    for step in script {
        match step {
            Step::Request => {
                while !is_request(&received) {
                    if !read(&stream, &mut received).await {
                        return;
                    }
                }
                let request = String::from_utf8(std::mem::take(&mut received)).unwrap();
                seen.requests.lock().unwrap().push(request);
            }
            Step::Say(text) => write(&stream, text.as_bytes()).await,
            Step::Wait(test) => test.notified().await,
            Step::UntilLeft => {
                while read(&stream, &mut received).await {}
                seen.left.add_permits(1);
            }
            Step::Reset => stream.set_zero_linger().unwrap(),
        }
    }
}

/// Whether a whole request is there; requests of tests have a content-length.
fn is_request(received: &[u8]) -> bool {
    let text = String::from_utf8_lossy(received);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    body.len() >= length.map_or(0, |length| length.parse().unwrap())
}

/// False at the end.
async fn read(stream: &TcpStream, received: &mut Vec<u8>) -> bool {
    let mut buffer = [0; 4096];
    loop {
        stream.readable().await.unwrap();
        match stream.try_read(&mut buffer) {
            Ok(0) => return false,
            Ok(length) => {
                received.extend_from_slice(&buffer[..length]);
                return true;
            }
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(_) => return false,
        }
    }
}

async fn write(stream: &TcpStream, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        stream.writable().await.unwrap();
        match stream.try_write(bytes) {
            Ok(length) => bytes = &bytes[length..],
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(_) => return,
        }
    }
}

/// An answer with a length.
pub(super) fn answer(status: u16, headers: &str, body: &str) -> Step {
    Step::Say(format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\n{headers}\r\n{body}", body.len()))
}

/// The head of a stream.
pub(super) fn stream_head() -> Step {
    Step::Say(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n".into(),
    )
}

/// A piece of a stream; an empty one ends it.
pub(super) fn piece(text: &str) -> Step {
    Step::Say(format!("{:x}\r\n{text}\r\n", text.len()))
}
