//! Makes the connections of the client and remembers of each whether it has answered before, and whether it has
//! answered since the last request: that tells a connection that was closed while idle from a failed call.
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder, MaybeHttpsStream};
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::rt::TokioIo;
use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tower_service::Service;

type Tcp = TokioIo<TcpStream>;
type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Connects over TCP, with TLS for `https`.
#[derive(Clone, Debug)]
pub(super) struct Connector {
    plain: HttpConnector,
    /// `None`: this system has no root certificates.
    secure: Option<HttpsConnector<HttpConnector>>,
}

impl Connector {
    /// Reads the system's root certificates, once.
    pub(super) fn new(connect_timeout: Duration) -> Self {
        let mut plain = HttpConnector::new();
        plain.set_nodelay(true);
        plain.set_connect_timeout(Some(connect_timeout));
        plain.enforce_http(false);
        let roots = HttpsConnectorBuilder::new().with_native_roots();
        let secure =
            roots.ok().map(|builder| builder.https_or_http().enable_http1().wrap_connector(plain.clone()));
        Self { plain, secure }
    }
}

impl Service<http::Uri> for Connector {
    type Response = TokioIo<Tracked>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        // Neither connector has a capacity of its own.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: http::Uri) -> Self::Future {
        let tracked = |stream| TokioIo::new(Tracked { io: TokioIo::new(stream), log: Arc::default() });
        match &mut self.secure {
            Some(secure) => {
                let connecting = secure.call(uri);
                Box::pin(async move { connecting.await.map(tracked) })
            }
            None if uri.scheme() == Some(&http::uri::Scheme::HTTPS) => {
                Box::pin(async { Err("this system has no root certificates, https cannot be used".into()) })
            }
            None => {
                let connecting = self.plain.call(uri);
                Box::pin(async move { Ok(tracked(MaybeHttpsStream::Http(connecting.await?))) })
            }
        }
    }
}

/// What a connection has seen.
#[derive(Debug, Default)]
pub(super) struct Log {
    /// Something was received at some time.
    answered: AtomicBool,
    /// Nothing was received since the last byte was sent.
    silent: AtomicBool,
}

/// The log of a connection, as it travels with errors.
#[derive(Debug, Clone)]
pub(super) struct LogOf(Arc<Log>);

impl LogOf {
    /// Whether the connection had served a request before and then ended without a byte in answer to this one.
    pub(super) fn was_closed_while_idle(&self) -> bool {
        self.0.answered.load(Ordering::Acquire) && self.0.silent.load(Ordering::Acquire)
    }
}

/// A connection with its log.
pub(super) struct Tracked {
    io: TokioIo<MaybeHttpsStream<Tcp>>,
    log: Arc<Log>,
}

impl Connection for Tracked {
    fn connected(&self) -> Connected {
        Connected::new().extra(LogOf(self.log.clone()))
    }
}

impl AsyncRead for Tracked {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.io).poll_read(context, buffer))?;
        if buffer.filled().len() > before {
            self.log.silent.store(false, Ordering::Release);
            self.log.answered.store(true, Ordering::Release);
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Tracked {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.log.silent.store(true, Ordering::Release);
        Pin::new(&mut self.io).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.log.silent.store(true, Ordering::Release);
        Pin::new(&mut self.io).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }
}
