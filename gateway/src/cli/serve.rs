//! `onegate serve`: builds the parts, listens, and ends in good order.
use super::{Failed, Serve, inspection, table};
use crate::app::App;
use crate::config::{self, Environment, Loaded};
use crate::http::{router, server};
use crate::providers::Transport;
use crate::running::Running;
use crate::telemetry::{Metrics, begin_log};
use ledger::{Clock, Ledger, MemoryLedger, RedisLedger, Status, SystemClock};
use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::net::{TcpListener, TcpSocket};
use tokio::signal::unix::{SignalKind, signal};

/// Connections that may wait to be accepted: a burst must not be refused by the kernel.
const BACKLOG: u32 = 4096;

/// How long a start waits for Redis. A Redis that is away must not keep a replica from serving.
const FIRST_MEETING: Duration = Duration::from_millis(300);

/// Serves a config until told to end.
pub(super) fn run(args: &Serve, environment: &Environment) -> Result<(), Failed> {
    let loaded = config::load(&args.config, environment)?;
    begin_log(environment.get("ONEGATE_LOG"));
    for warning in &loaded.warnings {
        tracing::warn!("{warning}");
    }
    let address = address(&args.host, args.port, loaded.catalog.master_key.is_some())?;
    runtime()?.block_on(async {
        let listener = listen(address)?;
        let out = &mut std::io::stdout();
        write!(out, "{}", table::of(&loaded.catalog))?;
        let parts = build(loaded).await?;
        writeln!(out, "{}; listening on http://{}", parts.whereabouts(), listener.local_addr()?)?;
        serve(parts, listener).await
    })
}

/// A runtime for the whole program. Many connections need many files, so the soft limit is raised first.
pub(super) fn runtime() -> Result<tokio::runtime::Runtime, Failed> {
    if let Err(error) = rlimit::increase_nofile_limit(u64::MAX) {
        tracing::warn!(%error, "the limit of open files stays as it is");
    }
    Ok(tokio::runtime::Builder::new_multi_thread().enable_all().build()?)
}

/// Without a master key everyone may ask, so only this machine may reach it.
fn address(host: &str, port: u16, has_master_key: bool) -> Result<SocketAddr, Failed> {
    let host = if host == "localhost" { "127.0.0.1" } else { host };
    let ip: IpAddr = host.parse().map_err(|_| format!("--host {host}: not an IP address"))?;
    if !ip.is_loopback() && !has_master_key {
        let text = "without general_settings.master_key anyone could use your provider keys, so the gateway \
                    listens on a loopback address only; set a master key, or leave --host out";
        return Err(text.into());
    }
    Ok(SocketAddr::new(ip, port))
}

/// Listens on an address.
pub(super) fn listen(address: SocketAddr) -> Result<TcpListener, Failed> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.set_reuseaddr(true)?;
    socket.bind(address).map_err(|error| format!("cannot listen on {address}: {error}"))?;
    Ok(socket.listen(BACKLOG)?)
}

/// What serving needs.
pub(super) struct Parts {
    app: Arc<App>,
    /// The ledger, if it is shared.
    redis: Option<Arc<RedisLedger>>,
}

impl Parts {
    /// Where the ledger is, as far as one knows at the start.
    fn whereabouts(&self) -> String {
        let Some(redis) = &self.redis else { return "ledger in this process".to_owned() };
        let address = redis.address();
        if self.app.ledger.status() == Status::Away {
            let why = redis.why_away().unwrap_or_else(|| "no answer yet".to_owned());
            return format!("ledger away: redis at {address}, {why}");
        }
        match redis.tally().replicas {
            0 | 1 => format!("ledger shared in redis at {address}, by this replica alone so far"),
            replicas => format!("ledger shared in redis at {address} by {replicas} replicas"),
        }
    }
}

/// Serves until SIGTERM or SIGINT; running requests are finished, the ledger is written, then it returns.
pub(super) async fn serve(parts: Parts, listener: TcpListener) -> Result<(), Failed> {
    let Parts { app, redis } = parts;
    let stop = stopped(app.clone())?;
    let mut interrupts = signal(SignalKind::interrupt())?;
    let watch = async {
        match &redis {
            Some(redis) => inspection::watch(redis).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        () = server::serve(listener, router(app.clone()), app.running.clone(), stop) => {}
        () = watch => {}
        // At a terminal the second Ctrl-C means now.
        () = async { for _ in 0..2 { interrupts.recv().await; } } => tracing::warn!("interrupted twice: ending now"),
    }
    app.ledger.drain().await;
    tracing::info!("ended");
    Ok(())
}

/// Builds the parts of a config, and gives Redis a moment to be met.
pub(super) async fn build(loaded: Loaded) -> Result<Parts, Failed> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let redis = loaded.redis.map(|redis| RedisLedger::start(redis, clock.clone())).transpose()?;
    if let Some(redis) = &redis {
        // A replica that has not met the others yet would take the whole limit as its share.
        redis.wait_until_shared(FIRST_MEETING).await;
    }
    let ledger: Arc<dyn Ledger> = match &redis {
        Some(redis) => redis.clone(),
        None => Arc::new(MemoryLedger::new(clock.clone())),
    };
    let metrics = Metrics::new()?;
    metrics.prepare(&loaded.catalog);
    let app = Arc::new(App {
        catalog: Arc::new(loaded.catalog),
        ledger,
        clock,
        transport: Transport::new(),
        metrics,
        running: Running::new(),
        draining: AtomicBool::new(false),
    });
    Ok(Parts { app, redis })
}

/// Resolves when the process is told to end; readiness turns 503 at that moment.
fn stopped(app: Arc<App>) -> Result<impl Future<Output = ()> + Send + 'static, Failed> {
    let (mut term, mut int) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    Ok(async move {
        tokio::select! { _ = term.recv() => {}, _ = int.recv() => {} }
        app.draining.store(true, Ordering::Relaxed);
        tracing::info!("told to end: finishing what runs (Ctrl-C ends it at once)");
    })
}
