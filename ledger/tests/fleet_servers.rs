//! Several servers that watch each other: a master, a replica and three sentinels; or a cluster of six.
use crate::redis_server::{RedisServer, connect, folder, free_port};
use crate::world::until;
use ledger::{RedisEndpoint, RedisLogin, RedisPlace};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// After so long without an answer a master counts as down. Short, so that tests are.
const DOWN_AFTER_MS: u32 = 1_000;

fn endpoint(port: u16) -> RedisEndpoint {
    RedisEndpoint { host: "127.0.0.1".to_owned(), port }
}

/// What a server says of itself.
pub(crate) async fn info(url: &str, section: &str) -> Option<String> {
    let client = redis::Client::open(url).unwrap();
    let mut redis = client.get_multiplexed_async_connection().await.ok()?;
    redis::cmd("INFO").arg(section).query_async(&mut redis).await.ok()
}

async fn says(url: &str, section: &str, word: &str) -> bool {
    info(url, section).await.is_some_and(|info| info.contains(word))
}

/// A master and its replica, watched by three sentinels.
pub(crate) struct Watched {
    pub(crate) servers: [RedisServer; 2],
    sentinels: Vec<Sentinel>,
    _folder: Folder,
}

struct Sentinel {
    child: Child,
    port: u16,
}

impl Drop for Sentinel {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Watched {
    pub(crate) const MASTER: &str = "mymaster";

    pub(crate) async fn start() -> Self {
        let master = RedisServer::start();
        let port = master.port().to_string();
        let replica = RedisServer::start_with(|_, _| {
            ["--replicaof", "127.0.0.1", &port, "--repl-diskless-sync-delay", "0"].map(str::to_owned).to_vec()
        });
        until("the replica follows", async || {
            says(&replica.url(), "replication", "master_link_status:up").await
        })
        .await;
        let folder = Folder(folder());
        let sentinels = (0..3).map(|number| sentinel(&folder.0, number, master.port())).collect();
        let watched = Self { servers: [master, replica], sentinels, _folder: folder };
        for sentinel in &watched.sentinels {
            let url = format!("redis://127.0.0.1:{}", sentinel.port);
            until("the sentinels know each other and the replica", async || {
                says(&url, "sentinel", "slaves=1,sentinels=3").await
            })
            .await;
        }
        watched
    }

    pub(crate) fn place(&self) -> RedisPlace {
        RedisPlace::Sentinel {
            sentinels: self.sentinels.iter().map(|sentinel| endpoint(sentinel.port)).collect(),
            sentinel_login: RedisLogin::default(),
            master: Self::MASTER.to_owned(),
            login: RedisLogin::default(),
        }
    }
}

fn sentinel(folder: &Path, number: usize, master: u16) -> Sentinel {
    let port = free_port();
    let name = Watched::MASTER;
    let text = format!(
        "port {port}\nbind 127.0.0.1\nsentinel monitor {name} 127.0.0.1 {master} 2\n\
         sentinel down-after-milliseconds {name} {DOWN_AFTER_MS}\nsentinel failover-timeout {name} 5000\n\
         sentinel parallel-syncs {name} 1\n"
    );
    let file = folder.join(format!("sentinel-{number}.conf"));
    std::fs::write(&file, text).unwrap();
    let child = Command::new("redis-server")
        .arg(&file)
        .args(["--sentinel", "--dir"])
        .arg(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    Sentinel { child, port }
}

/// Three masters with a replica each.
pub(crate) struct SixNodes {
    pub(crate) servers: Vec<RedisServer>,
}

impl SixNodes {
    /// `more`: further settings of every node.
    pub(crate) async fn start(more: &[&str]) -> Self {
        let timeout = DOWN_AFTER_MS.to_string();
        let node = |_| {
            RedisServer::start_with(|_, _| {
                let own = ["--cluster-enabled", "yes", "--cluster-node-timeout", &timeout];
                let sync = ["--repl-diskless-sync-delay", "0"];
                own.iter().chain(&sync).chain(more).map(|&word| word.to_owned()).collect()
            })
        };
        let servers: Vec<RedisServer> = (0..6).map(node).collect();
        let made = Command::new("redis-cli")
            .args(["--cluster", "create"])
            .args(servers.iter().map(RedisServer::address))
            .args(["--cluster-replicas", "1", "--cluster-yes"])
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stdout));
        let cluster = Self { servers };
        for server in &cluster.servers {
            until("every node knows the cluster", async || {
                let replica = says(&server.url(), "replication", "role:slave").await;
                let linked = !replica || says(&server.url(), "replication", "master_link_status:up").await;
                linked && cluster.state_of(server).await.contains("cluster_state:ok")
            })
            .await;
        }
        cluster
    }

    /// Starts from two nodes only: the others are to be found.
    pub(crate) fn place(&self) -> RedisPlace {
        let nodes = self.servers.iter().rev().take(2).map(|server| endpoint(server.port())).collect();
        RedisPlace::Cluster { nodes, login: RedisLogin::default() }
    }

    async fn state_of(&self, server: &RedisServer) -> String {
        let mut redis = connect(&server.url()).await;
        redis::cmd("CLUSTER").arg("INFO").query_async(&mut redis).await.unwrap()
    }

    /// The place among the servers of the master that has this key.
    pub(crate) async fn master_of(&self, key: &str) -> Option<usize> {
        for (index, server) in self.servers.iter().enumerate() {
            let client = redis::Client::open(server.url()).unwrap();
            let Ok(mut redis) = client.get_multiplexed_async_connection().await else { continue };
            let is_master = says(&server.url(), "replication", "role:master").await;
            let asked: redis::RedisResult<Option<String>> =
                redis::cmd("GET").arg(key).query_async(&mut redis).await;
            if is_master && asked.is_ok() {
                return Some(index);
            }
        }
        None
    }

    /// A counter, read from the master that has it.
    pub(crate) async fn counter(&self, key: &str) -> Option<u64> {
        let mut redis = connect(&self.servers[self.master_of(key).await?].url()).await;
        redis::cmd("GET").arg(key).query_async(&mut redis).await.unwrap()
    }
}
