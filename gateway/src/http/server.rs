//! Connections: accepted, bounded in time, and ended in good order.
use crate::running::Running;
use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};

/// A head that has not come by then never will: its connection is closed.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// After the last request is answered, so long for its bytes to leave; a client that reads on ends it sooner.
const LAST_BYTES: Duration = Duration::from_millis(500);
/// The pause after a failed accept: out of files, for one, mends itself only when connections end.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Serves until `stop`, then finishes the requests that run. A request that never arrived whole does not run.
pub async fn serve(listener: TcpListener, router: Router, running: Running, stop: impl Future<Output = ()>) {
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT);
    let graceful = GracefulShutdown::new();
    let accept = async {
        loop {
            match listener.accept().await {
                Ok((stream, _)) => connect(stream, &router, &builder, &graceful),
                Err(error) => {
                    tracing::debug!(%error, "a connection was not accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    };
    tokio::select! { () = accept => {}, () = stop => {} }
    drop(listener);
    tokio::select! {
        () = graceful.shutdown() => {}
        () = async {
            running.none().await;
            tokio::time::sleep(LAST_BYTES).await;
        } => {}
    }
}

fn connect(stream: TcpStream, router: &Router, builder: &http1::Builder, graceful: &GracefulShutdown) {
    // Events of a stream must not wait for each other in the kernel.
    let _ = stream.set_nodelay(true);
    let service = TowerToHyperService::new(router.clone());
    let connection = graceful.watch(builder.serve_connection(TokioIo::new(stream), service));
    #[expect(
        clippy::disallowed_methods,
        reason = "ends with its client, or with the runtime after the drain"
    )]
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "a connection broke");
        }
    });
}
