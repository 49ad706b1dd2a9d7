//! Three sentinels that watch a master and its replica.
use crate::machine::{Scratch, until};
use crate::redis::RedisServer;
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// After so long without an answer the master counts as down: short, so that a test is.
const DOWN_AFTER_MS: u32 = 1_000;
const PATIENCE: Duration = Duration::from_secs(20);

/// A master, its replica and who watches them. All end when dropped.
#[derive(Debug)]
pub struct BehindSentinels {
    /// The first master.
    pub master: RedisServer,
    /// Who follows it, and takes over.
    pub replica: RedisServer,
    sentinels: Vec<(Child, u16)>,
    _scratch: Scratch,
}

impl BehindSentinels {
    /// Starts them and waits until they know each other.
    pub async fn start() -> Self {
        let (master, replica) = (RedisServer::start().await, RedisServer::start().await);
        let _ = replica.command("CONFIG SET repl-diskless-sync-delay 0");
        let _ = master.command("CONFIG SET repl-diskless-sync-delay 0");
        let _ = replica.command(&format!("REPLICAOF 127.0.0.1 {}", master.port()));
        until("the replica follows", PATIENCE, async || {
            replica.command("INFO replication").contains("master_link_status:up")
        })
        .await;
        let scratch = Scratch::new();
        let sentinels = (0..3).map(|number| spawn(&scratch, number, master.port())).collect();
        let watched = Self { master, replica, sentinels, _scratch: scratch };
        for (_, port) in &watched.sentinels {
            until("the sentinels know each other", PATIENCE, async || {
                watches(*port).is_some_and(|line| line.contains("slaves=1,sentinels=3"))
            })
            .await;
        }
        watched
    }

    /// `sentinel_nodes` and `service_name`, as a config has them between braces.
    #[must_use]
    pub fn settings(&self) -> String {
        let nodes: Vec<String> =
            self.sentinels.iter().map(|(_, port)| format!("[127.0.0.1, {port}]")).collect();
        format!("sentinel_nodes: [{}], service_name: mymaster", nodes.join(", "))
    }

    /// Waits until the replica is the master.
    pub async fn promoted(&self) {
        until("the replica is promoted", PATIENCE, async || {
            self.replica.command("INFO replication").contains("role:master")
        })
        .await;
    }
}

impl Drop for BehindSentinels {
    fn drop(&mut self) {
        for (sentinel, _) in &mut self.sentinels {
            let _ = sentinel.kill();
            let _ = sentinel.wait();
        }
    }
}

fn spawn(scratch: &Scratch, number: usize, master: u16) -> (Child, u16) {
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|socket| socket.local_addr());
    let port = free.expect("a free loopback port").port();
    let text = format!(
        "port {port}\nbind 127.0.0.1\ndir {}\nsentinel monitor mymaster 127.0.0.1 {master} 2\n\
         sentinel down-after-milliseconds mymaster {DOWN_AFTER_MS}\nsentinel failover-timeout mymaster 5000\n",
        scratch.path().display()
    );
    let file = scratch.file(&format!("sentinel-{number}.conf"), &text);
    let child = Command::new("redis-server")
        .arg(file)
        .arg("--sentinel")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("redis-server is installed");
    (child, port)
}

/// What a sentinel says of the master. It knows no QUIT, so its answer is read up to this line.
fn watches(port: u16) -> Option<String> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(2))).ok()?;
    stream.write_all(b"INFO sentinel\r\n").ok()?;
    BufReader::new(stream).lines().map_while(Result::ok).find(|line| line.starts_with("master0:"))
}
