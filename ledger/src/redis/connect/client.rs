//! From an address and a login to the client library's own terms, and its connections with our settings.
use super::address::{RedisAddress, RedisLogin, RedisTls, RedisTrust};
use redis::aio::{ConnectionManager, ConnectionManagerConfig, MultiplexedConnection};
use redis::io::tcp::TcpSettings;
use redis::{
    AsyncConnectionConfig, Client, ClientTlsConfig, ConnectionAddr, ErrorKind, IntoConnectionInfo,
    RedisConnectionInfo, RedisError, RedisResult, TlsCertificates,
};
use std::time::Duration;

/// A dead peer (no FIN, no RST) is given up after so long.
const PEER_SILENT_MAX: Duration = Duration::from_secs(3);
/// Calls that may queue before the socket; the library's 50 would make reservations wait for each other.
const QUEUE_MAX: usize = 1024;
const RETRY_MIN: Duration = Duration::from_millis(20);
const RETRY_MAX: Duration = Duration::from_millis(500);

/// Opens nothing yet; fails only where it can never work.
pub(super) fn client(address: &RedisAddress, login: &RedisLogin) -> RedisResult<Client> {
    let tcp = TcpSettings::default().set_nodelay(true);
    #[cfg(target_os = "linux")]
    let tcp = tcp.set_user_timeout(PEER_SILENT_MAX);
    let mut settings = RedisConnectionInfo::default().set_db(i64::from(login.database));
    if let Some(username) = &login.username {
        settings = settings.set_username(username);
    }
    // A user without a password has an empty one; without a user there is nobody to be let in.
    if let Some(password) = login.password.as_deref().or(login.username.as_ref().map(|_| "")) {
        settings = settings.set_password(password);
    }
    let (host, port) = match address {
        RedisAddress::Unix(path) => {
            let info = ConnectionAddr::Unix(path.clone()).into_connection_info()?;
            return Client::open(info.set_redis_settings(settings));
        }
        RedisAddress::Tcp(at) => (at.host.clone(), at.port),
    };
    let plain = |addr: ConnectionAddr| -> RedisResult<_> {
        Ok(addr.into_connection_info()?.set_tcp_settings(tcp.clone()).set_redis_settings(settings.clone()))
    };
    match &login.tls {
        None => Client::open(plain(ConnectionAddr::Tcp(host, port))?),
        Some(tls) => {
            let insecure = tls.trust == RedisTrust::Anyone;
            let info = plain(ConnectionAddr::TcpTls { host, port, insecure, tls_params: None })?;
            encrypted(Client::build_with_tls(info, certificates(tls)?)?, tls.trust)
        }
    }
}

fn certificates(tls: &RedisTls) -> RedisResult<TlsCertificates> {
    let is_pem = |pem: &[u8]| pem.windows(11).any(|window| window == b"-----BEGIN ");
    let client = tls.client.iter().flat_map(|(certificate, key)| [certificate, key]);
    if !tls.ca.iter().chain(client).all(|pem| is_pem(pem)) {
        return Err(RedisError::from((ErrorKind::InvalidClientConfig, "a certificate or key is not in PEM")));
    }
    let client_tls =
        tls.client.clone().map(|(client_cert, client_key)| ClientTlsConfig { client_cert, client_key });
    Ok(TlsCertificates { client_tls, root_cert: tls.ca.clone() })
}

fn encrypted(client: Client, trust: RedisTrust) -> RedisResult<Client> {
    // The same cryptography as for providers. That it is chosen already is no error.
    let _ = rustls::crypto::ring::default_provider().install_default();
    if trust != RedisTrust::AnyName {
        return Ok(client);
    }
    let info = client.get_connection_info().clone();
    let mut addr = info.addr().clone();
    addr.set_danger_accept_invalid_hostnames(true);
    Client::open(info.set_addr(addr))
}

/// Where a client's connections go.
pub(super) fn place_of(client: &Client) -> String {
    client.get_connection_info().addr().to_string()
}

/// How lines behave that live long.
pub(super) fn lasting(deadline: Duration) -> ConnectionManagerConfig {
    ConnectionManagerConfig::new()
        .set_number_of_retries(1)
        .set_min_delay(RETRY_MIN)
        .set_max_delay(RETRY_MAX)
        .set_connection_timeout(Some(deadline * 2))
        .set_response_timeout(Some(deadline))
        .set_pipeline_buffer_size(QUEUE_MAX)
}

/// Opens a line that lives long.
pub(super) async fn line(client: &Client, deadline: Duration) -> RedisResult<ConnectionManager> {
    ConnectionManager::new_with_config(client.clone(), lasting(deadline)).await
}

/// Opens a connection for a few questions: nothing that is stuck on another one can stand before them.
pub(super) async fn brief(client: &Client, deadline: Duration) -> RedisResult<MultiplexedConnection> {
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(deadline * 2))
        .set_response_timeout(Some(deadline));
    client.get_multiplexed_async_connection_with_config(&config).await
}
