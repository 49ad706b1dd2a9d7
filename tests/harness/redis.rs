//! A real Redis of one test, on a free port, with nothing of it kept.
use crate::machine::{Scratch, signal, until};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(2);

/// A `redis-server` process. It ends when dropped.
#[derive(Debug)]
pub struct RedisServer {
    port: u16,
    process: Child,
    scratch: Scratch,
}

impl RedisServer {
    /// Starts one and waits until it answers.
    pub async fn start() -> Self {
        let scratch = Scratch::new();
        // Between our look for a free port and its bind another process may take it: then the next one.
        for _ in 0..5 {
            let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|socket| socket.local_addr());
            let port = free.expect("a free loopback port").port();
            let mut process = spawn(port, &scratch);
            if answers(port, &mut process).await {
                return Self { port, process, scratch };
            }
            let _ = process.kill();
            let _ = process.wait();
        }
        panic!("redis-server did not begin to answer on any of five ports");
    }

    /// Where it listens, on 127.0.0.1.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// `SIGSTOP`: connections stay open, nothing answers.
    pub fn freeze(&self) {
        signal(self.process.id(), "STOP");
    }

    /// `SIGCONT` after `freeze`.
    pub fn thaw(&self) {
        signal(self.process.id(), "CONT");
    }

    /// `SIGKILL`: what it held is gone.
    pub fn kill(&mut self) {
        self.process.kill().expect("redis-server was running");
        self.process.wait().expect("a killed process ends");
    }

    /// Starts it again, empty, on its old port.
    pub async fn start_again(&mut self) {
        self.process = spawn(self.port, &self.scratch);
        assert!(
            answers(self.port, &mut self.process).await,
            "redis-server did not come back on {}",
            self.port
        );
    }

    /// Sends one command as words and answers the raw text that came back, for a look from outside.
    #[must_use]
    pub fn command(&self, words: &str) -> String {
        ask(self.port, words).unwrap_or_else(|| panic!("redis did not answer `{words}`"))
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn spawn(port: u16, scratch: &Scratch) -> Child {
    let port = port.to_string();
    Command::new("redis-server")
        .args(["--port", &port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
        .arg("--dir")
        .arg(scratch.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect(
            "redis-server is missing: install it (apt-get install redis-server), or run ./test, which does",
        )
}

/// Whether it answers before it ends.
async fn answers(port: u16, process: &mut Child) -> bool {
    let mut alive = true;
    until("redis-server answers PING or ends", Duration::from_secs(10), async || {
        alive = matches!(process.try_wait(), Ok(None));
        !alive || ask(port, "PING").is_some_and(|answer| answer.starts_with("+PONG"))
    })
    .await;
    alive
}

fn ask(port: u16, words: &str) -> Option<String> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    // QUIT makes the server close, so that reading to the end is the whole answer.
    stream.write_all(format!("{words}\r\nQUIT\r\n").as_bytes()).ok()?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).ok()?;
    Some(String::from_utf8_lossy(&answer).into_owned())
}
