//! One replica: the built gateway as a process of its own, with a config file of its own and a free port.
use crate::client::{Call, Client, Open, Reply};
use crate::machine::{Scratch, binary, now, signal, until};
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout};

const START_LIMIT: Duration = Duration::from_secs(10);

/// What to start.
#[derive(Debug, Default)]
pub struct Launch {
    words: Vec<String>,
    config: Option<String>,
    environment: Vec<(String, String)>,
}

impl Launch {
    /// A replica that serves this config.
    #[must_use]
    pub fn serve(config: &str) -> Self {
        Self { config: Some(config.to_owned()), ..Self::default() }
    }

    /// The demo, which needs no config.
    #[must_use]
    pub fn demo() -> Self {
        Self { words: vec!["demo".to_owned()], ..Self::default() }
    }

    /// With an environment variable.
    #[must_use]
    pub fn environment(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Starts it and waits for the line on standard output that tells its address.
    pub async fn start(self) -> Replica {
        let scratch = Scratch::new();
        let started = now();
        let mut command = Command::new(binary());
        command.args(&self.words).args(["--port", "0"]).envs(self.environment);
        if let Some(config) = &self.config {
            command.arg("--config").arg(scratch.file("config.yaml", config));
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = command.spawn().expect("the built gateway runs");
        let output = Arc::new(Mutex::new(String::new()));
        let (told, address) = oneshot::channel();
        let (out, err) = (process.stdout.take().expect("piped"), process.stderr.take().expect("piped"));
        let readers = vec![read(out, Arc::clone(&output), Some(told)), read(err, Arc::clone(&output), None)];
        let Ok(Ok(address)) = timeout(START_LIMIT, address).await else {
            let _ = process.kill();
            let status = process.wait();
            panic!("the gateway told no address ({status:?}); it said:\n{}", output.lock().unwrap());
        };
        Replica { process, started, address, client: Client::to(address), output, readers, _scratch: scratch }
    }
}

/// A running replica. Killed when dropped; a test that fails shows what it had printed.
#[derive(Debug)]
pub struct Replica {
    process: Child,
    started: Instant,
    address: SocketAddr,
    client: Client,
    output: Arc<Mutex<String>>,
    readers: Vec<JoinHandle<()>>,
    _scratch: Scratch,
}

impl Replica {
    /// Starts one with this config and waits until it is ready.
    pub async fn start(config: &str) -> Self {
        let replica = Launch::serve(config).start().await;
        replica.ready().await;
        replica
    }

    /// Waits until the replica says that it can serve.
    pub async fn ready(&self) {
        until("the replica is ready", START_LIMIT, async || {
            self.client.send(Call::get("/health/readiness")).await.is_ok_and(|reply| reply.status == 200)
        })
        .await;
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// When its process was started.
    #[must_use]
    pub fn started(&self) -> Instant {
        self.started
    }

    /// Sends one request and reads the answer to its end.
    pub async fn send(&self, call: Call) -> Reply {
        let what = format!("{call:?}");
        let what: String = what.chars().take(300).collect();
        self.client.send(call).await.unwrap_or_else(|error| panic!("no answer: {error}; asked: {what}"))
    }

    /// The same, where a transport error is an answer too.
    pub async fn try_send(&self, call: Call) -> Result<Reply, String> {
        self.client.send(call).await
    }

    /// Sends one request and reads the head of the answer.
    pub async fn open(&self, call: Call) -> Open {
        self.client.open(call).await.unwrap_or_else(|error| panic!("no answer: {error}"))
    }

    /// Resident memory of the process, in KiB.
    #[must_use]
    pub fn resident_kib(&self) -> u64 {
        let path = format!("/proc/{}/status", self.process.id());
        let status = fs::read_to_string(path).expect("Linux tells of a running process");
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("resident memory");
        line.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).expect("a number of KiB")
    }

    /// All that it has printed so far.
    #[must_use]
    pub fn printed(&self) -> String {
        self.output.lock().unwrap().clone()
    }

    /// Sends it a signal (`TERM`, `INT`).
    pub fn signal(&self, name: &str) {
        signal(self.process.id(), name);
    }

    /// Ends it with SIGTERM and answers its exit code and all that it printed.
    pub async fn stop(self) -> Finished {
        self.signal("TERM");
        self.ended().await
    }

    /// Waits until it has ended.
    pub async fn ended(mut self) -> Finished {
        let mut status = None;
        until("the replica ends", START_LIMIT, async || {
            status = self.process.try_wait().expect("a child can be waited for");
            status.is_some()
        })
        .await;
        for reader in self.readers.drain(..) {
            reader.join().expect("reading output cannot fail");
        }
        Finished { code: status.and_then(|status| status.code()), text: self.output.lock().unwrap().clone() }
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        if thread::panicking() {
            eprintln!("--- replica {} had printed:\n{}", self.address, self.output.lock().unwrap());
        }
    }
}

/// A process that has ended.
#[derive(Debug)]
pub struct Finished {
    /// Its exit code; none if a signal ended it.
    pub code: Option<i32>,
    /// Standard output and standard error.
    pub text: String,
}

/// Runs the gateway's program once: a subcommand on this config, and more arguments.
#[must_use]
pub fn once(subcommand: &str, config: &str, more: &[&str]) -> Finished {
    let scratch = Scratch::new();
    let config = scratch.file("config.yaml", config);
    let mut command = Command::new(binary());
    command.arg(subcommand).arg("--config").arg(config).args(more).stdin(Stdio::null());
    let output = command.output().expect("the built gateway runs");
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.push_str(&String::from_utf8_lossy(&output.stderr));
    Finished { code: output.status.code(), text }
}

/// Collects a pipe's lines until its process ends. The first address among them is told.
fn read(
    pipe: impl Read + Send + 'static,
    output: Arc<Mutex<String>>,
    mut told: Option<oneshot::Sender<SocketAddr>>,
) -> JoinHandle<()> {
    thread::spawn(move || {
        for line in BufReader::new(pipe).split(b'\n').map_while(Result::ok) {
            let line = String::from_utf8_lossy(&line);
            if let Some(address) = address_in(&line)
                && let Some(told) = told.take()
            {
                // Nobody listens any more when the start was given up.
                let _ = told.send(address);
            }
            let mut output = output.lock().unwrap();
            output.push_str(&line);
            output.push('\n');
        }
    })
}

fn address_in(line: &str) -> Option<SocketAddr> {
    let rest = line.split_once("listening on http://127.0.0.1:")?.1;
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    Some(SocketAddr::from((Ipv4Addr::LOCALHOST, digits.parse().ok()?)))
}
