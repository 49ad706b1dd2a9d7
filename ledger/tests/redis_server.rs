//! A real `redis-server` of a test's own, on a free port, that ends with the test.
use redis::AsyncConnectionConfig;
use redis::aio::MultiplexedConnection;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

pub(crate) struct RedisServer {
    child: Child,
    port: u16,
    folder: PathBuf,
    more: Vec<String>,
}

impl RedisServer {
    pub(crate) fn start() -> Self {
        Self::start_with(|_, _| Vec::new())
    }

    /// With more arguments, made from its port and its folder.
    pub(crate) fn start_with(more: impl Fn(u16, &Path) -> Vec<String>) -> Self {
        let folder = folder();
        // Between asking for a free port and taking it, somebody else may have taken it.
        for _ in 0..20 {
            let port = free_port();
            let more = more(port, &folder);
            if let Some(child) = spawn(port, &folder, &more) {
                return Self { child, port, folder, more };
            }
        }
        panic!("redis-server found no free port in 20 tries");
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://{}/", self.address())
    }

    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The process stays and its sockets stay, but nothing is answered.
    pub(crate) fn freeze(&self) {
        self.signal("STOP");
    }

    pub(crate) fn thaw(&self) {
        self.signal("CONT");
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Starts again on the same port, empty unless it kept something in its folder.
    pub(crate) fn restart(&mut self) {
        self.child = spawn(self.port, &self.folder, &self.more)
            .expect("redis-server does not take its old port again");
    }

    /// Starts again, empty, and lets nobody in but the prover until [`Self::open_door`].
    pub(crate) fn restart_behind_a_door(&mut self) {
        let closed = ["--user", "default", "off", "nopass", "~*", "&*", "+@all"].map(str::to_owned);
        let more = [&self.more[..], &closed].concat();
        self.child =
            spawn(self.port, &self.folder, &more).expect("redis-server does not take its old port again");
    }

    pub(crate) fn open_door(&self) {
        redis::cmd("ACL").arg(&["SETUSER", "default", "on"]).exec(&mut self.prover()).unwrap();
    }

    /// A blocking connection that is let in always, and named so that nobody who kills connections takes it for a
    /// replica's.
    pub(crate) fn prover(&self) -> redis::Connection {
        let url = format!("redis://prover:prover@{}/", self.address());
        let mut line = redis::Client::open(url).unwrap().get_connection().unwrap();
        redis::cmd("CLIENT").arg(&["SETNAME", "prover"]).exec(&mut line).unwrap();
        line
    }

    /// A connection of the test's own.
    pub(crate) async fn connection(&self) -> MultiplexedConnection {
        connect(&self.url()).await
    }

    fn signal(&self, name: &str) {
        let kill = format!("kill -{name} {}", self.child.id());
        assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// A connection to a server by its URL.
pub(crate) async fn connect(url: &str) -> MultiplexedConnection {
    let client = redis::Client::open(url).unwrap();
    // The library's own limits are half a second, which a loaded machine exceeds.
    let patient = AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None);
    client.get_multiplexed_async_connection_with_config(&patient).await.unwrap()
}

/// A new, empty folder.
pub(crate) fn folder() -> PathBuf {
    static MADE: AtomicU32 = AtomicU32::new(0);
    let number = MADE.fetch_add(1, Ordering::Relaxed);
    let folder = std::env::temp_dir().join(format!("ledger-redis-{}-{number}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// A port that nobody listens on at the moment. It leaves room for a cluster's bus, ten thousand above it.
pub(crate) fn free_port() -> u16 {
    loop {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        if port < 55_000 {
            return port;
        }
    }
}

/// Returns when the server takes connections; `None` if it ended, for it then could not have the port.
fn spawn(port: u16, folder: &Path, more: &[String]) -> Option<Child> {
    let mut child = Command::new("redis-server")
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
        .arg("--dir")
        .arg(folder)
        .args(["--user", "prover", "on", ">prover", "~*", "&*", "+@all"])
        .args(more)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("these tests need redis-server: install it (Debian: apt-get install redis-server)");
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    if lines.any(|line| line.contains("Ready to accept connections")) {
        std::thread::spawn(move || lines.for_each(drop));
        return Some(child);
    }
    let _ = child.kill();
    let _ = child.wait();
    None
}
