//! Where a shared ledger is and how to get in: one server, a master behind sentinels, or a cluster. Values only,
//! and a URL's way to them; nothing here connects.
use super::super::LedgerError;
use crate::ledger::OnOutage;
use std::fmt;
use std::path::PathBuf;

/// Redis' own port.
const PORT: u16 = 6379;

/// Where the shared ledger is.
#[derive(Debug, Clone)]
pub struct RedisSettings {
    /// The server or servers.
    pub place: RedisPlace,
    /// Leads every key as `<namespace>:`; empty for none.
    pub namespace: String,
    /// What is done about limits while it is away.
    pub on_outage: OnOutage,
}

/// The kinds of Redis.
#[derive(Debug, Clone)]
pub enum RedisPlace {
    /// One server, or one name that leads to whoever is the master.
    Single {
        /// Where it listens.
        address: RedisAddress,
        /// How to get in.
        login: RedisLogin,
    },
    /// A master that sentinels watch and replace.
    Sentinel {
        /// The sentinels; one that answers is enough.
        sentinels: Vec<RedisEndpoint>,
        /// How to get in with them; the database plays no part.
        sentinel_login: RedisLogin,
        /// The name by which they know the master.
        master: String,
        /// How to get in with the master.
        login: RedisLogin,
    },
    /// Masters that share the slots of a cluster.
    Cluster {
        /// Nodes to ask for the others.
        nodes: Vec<RedisEndpoint>,
        /// How to get in, the same everywhere. A cluster has database 0 only.
        login: RedisLogin,
    },
}

/// Where a server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RedisAddress {
    /// Over the network.
    Tcp(RedisEndpoint),
    /// By a socket of this machine.
    Unix(PathBuf),
}

/// A host and a port.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RedisEndpoint {
    /// A name or an address; of version 6 without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
}

impl fmt::Display for RedisEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// How to get in.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct RedisLogin {
    /// The ACL user; `None` for the default one.
    pub username: Option<String>,
    /// Its password. A secret.
    pub password: Option<String>,
    /// The database to select.
    pub database: u32,
    /// `None`: not encrypted.
    pub tls: Option<RedisTls>,
}

impl fmt::Debug for RedisLogin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisLogin")
            .field("username", &self.username)
            .field("database", &self.database)
            .field("tls", &self.tls)
            .finish_non_exhaustive()
    }
}

/// An encrypted connection.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct RedisTls {
    /// Certificates, as PEM, that alone are believed; `None`: those that the system believes.
    pub ca: Option<Vec<u8>>,
    /// Our own certificate and its key, as PEM, for a server that asks for one.
    pub client: Option<(Vec<u8>, Vec<u8>)>,
    /// What is asked of the server's certificate.
    pub trust: RedisTrust,
}

impl fmt::Debug for RedisTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (own_ca, own_certificate) = (self.ca.is_some(), self.client.is_some());
        f.debug_struct("RedisTls")
            .field("own_ca", &own_ca)
            .field("own_certificate", &own_certificate)
            .field("trust", &self.trust)
            .finish_non_exhaustive()
    }
}

/// What is asked of a server's certificate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RedisTrust {
    /// Signed by someone we believe, for the name that we called.
    #[default]
    Full,
    /// Signed by someone we believe, for whatever name.
    AnyName,
    /// Nothing: encrypted, but to whoever answers.
    Anyone,
}

impl RedisSettings {
    /// One server by its URL: `redis://` or `rediss://` with `[user][:password@]host[:port][/database]`, or
    /// `unix://` and `redis+unix://` with `[user][:password@]/path[?db=N]`. What would mean something else in a URL is percent-encoded.
    ///
    /// # Errors
    /// It is none of these. The reason does not repeat the URL.
    pub fn of_url(url: &str, namespace: &str) -> Result<Self, LedgerError> {
        let place = RedisPlace::of_url(url)?;
        Ok(Self { place, namespace: namespace.to_owned(), on_outage: OnOutage::default() })
    }
}

impl RedisPlace {
    /// See [`RedisSettings::of_url`].
    ///
    /// # Errors
    /// As there.
    pub fn of_url(url: &str) -> Result<Self, LedgerError> {
        let (address, login) =
            read(url).map_err(|reason| LedgerError::Address { reason: reason.to_owned() })?;
        Ok(Self::Single { address, login })
    }
}

/// A URL in parts. It is read here and not by a general parser, whose errors and rules differ between schemes that it
/// knows and those that it does not.
fn read(url: &str) -> Result<(RedisAddress, RedisLogin), &'static str> {
    let (scheme, rest) = url.split_once("://").ok_or("it does not begin with a scheme such as redis://")?;
    let scheme = scheme.to_ascii_lowercase();
    let (rest, fragment) =
        rest.split_once('#').map_or((rest, None), |(rest, fragment)| (rest, Some(fragment)));
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
    let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
    let mut login = login(user)?;
    let address = match scheme.as_str() {
        "redis" | "valkey" => RedisAddress::Tcp(endpoint(host)?),
        "rediss" | "valkeys" => {
            login.tls = Some(RedisTls::default());
            RedisAddress::Tcp(endpoint(host)?)
        }
        "unix" | "redis+unix" | "valkey+unix" if host.is_empty() && path.len() > 1 => {
            RedisAddress::Unix(decoded(path)?.into())
        }
        "unix" | "redis+unix" | "valkey+unix" => {
            return Err("after the scheme comes the whole path of a socket");
        }
        _ => return Err("its scheme is none of redis, rediss, unix, redis+unix"),
    };
    if let (RedisAddress::Tcp(_), database) = (&address, path.trim_matches('/'))
        && !database.is_empty()
    {
        login.database = number(database)?;
    }
    for (name, value) in query.split('&').filter_map(|pair| pair.split_once('=')) {
        parameter(&mut login, name, &decoded(value)?)?;
    }
    match fragment {
        None | Some("") => {}
        Some("insecure") => trust(&mut login, RedisTrust::Anyone)?,
        Some(_) => return Err("what follows its # is not understood; in a password it is written %23"),
    }
    Ok((address, login))
}

fn login(user: &str) -> Result<RedisLogin, &'static str> {
    let (name, password) = user.split_once(':').unwrap_or((user, ""));
    let some = |text: String| (!text.is_empty()).then_some(text);
    let (username, password) = (some(decoded(name)?), some(decoded(password)?));
    Ok(RedisLogin { username, password, ..RedisLogin::default() })
}

/// What Python's client takes behind the question mark, as far as it changes the connection.
fn parameter(login: &mut RedisLogin, name: &str, value: &str) -> Result<(), &'static str> {
    match (name, value) {
        ("db", database) => login.database = number(database)?,
        ("user" | "username", user) => login.username = Some(user.to_owned()),
        ("pass" | "password", password) => login.password = Some(password.to_owned()),
        ("ssl_cert_reqs", "none") => trust(login, RedisTrust::Anyone)?,
        ("ssl_check_hostname", "false" | "False" | "0") => trust(login, RedisTrust::AnyName)?,
        ("ssl_cert_reqs", "required") | ("ssl_check_hostname", "true" | "True" | "1") => {}
        (name, _) if name.starts_with("ssl") => {
            return Err("an ssl parameter of it has to be given as a key of its own");
        }
        // Time-outs, encodings and the like are ours to choose.
        _ => {}
    }
    Ok(())
}

fn trust(login: &mut RedisLogin, trust: RedisTrust) -> Result<(), &'static str> {
    let tls = login.tls.as_mut().ok_or("it speaks of certificates, but is not encrypted: write rediss://")?;
    if tls.trust != RedisTrust::Anyone {
        tls.trust = trust;
    }
    Ok(())
}

fn endpoint(text: &str) -> Result<RedisEndpoint, &'static str> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => rest.split_once(']').ok_or("a [ before an address of version 6 needs its ]")?,
        None => text.find(':').map_or((text, ""), |at| text.split_at(at)),
    };
    if host.is_empty() {
        return Err("the host is missing");
    }
    let port = match port.strip_prefix(':') {
        None if port.is_empty() => PORT,
        Some(port) => {
            port.parse().ok().filter(|&port| port > 0).ok_or("the port is no number from 1 to 65535")?
        }
        None => return Err("the port is no number from 1 to 65535"),
    };
    Ok(RedisEndpoint { host: decoded(host)?, port })
}

fn number(text: &str) -> Result<u32, &'static str> {
    text.parse().map_err(|_| "the database is no number")
}

fn decoded(text: &str) -> Result<String, &'static str> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || rest.next().and_then(|digit| char::from(digit).to_digit(16));
        let (Some(high), Some(low)) = (digit(), digit()) else {
            return Err("a % is not followed by two hexadecimal digits; a % itself is written %25");
        };
        bytes.push(u8::try_from(high * 16 + low).unwrap_or_default());
    }
    String::from_utf8(bytes).map_err(|_| "its percent-encoded bytes are no UTF-8")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tcp(url: &str) -> (String, RedisLogin) {
        match read(url) {
            Ok((RedisAddress::Tcp(at), login)) => (at.to_string(), login),
            other => panic!("{url}: {other:?}"),
        }
    }

    #[test]
    fn a_url_names_host_port_user_password_and_database() {
        let (at, login) = tcp("redis://me:p%40ss%3Aw%2Fo%23r%25d@redis.example:6380/3");
        assert_eq!(at, "redis.example:6380");
        assert_eq!(login.username.as_deref(), Some("me"));
        assert_eq!(login.password.as_deref(), Some("p@ss:w/o#r%d"));
        assert_eq!((login.database, login.tls), (3, None));
    }

    #[test]
    fn what_a_url_leaves_out_is_as_usual() {
        assert_eq!(tcp("redis://h"), ("h:6379".to_owned(), RedisLogin::default()));
        let (at, login) = tcp("redis://:pw@[::1]/");
        assert_eq!((at.as_str(), login.username), ("::1:6379", None));
        assert_eq!(tcp("redis://h?db=4&socket_timeout=5").1.database, 4);
    }

    #[test]
    fn a_sign_that_only_separates_may_stand_raw_in_a_password() {
        assert_eq!(tcp("redis://:a@b:c@h:1").1.password.as_deref(), Some("a@b:c"));
    }

    #[test]
    fn an_encrypted_url_trusts_only_who_is_signed_unless_it_says_so() {
        let trust = |url: &str| tcp(url).1.tls.map(|tls| tls.trust);
        assert_eq!(trust("rediss://h"), Some(RedisTrust::Full));
        assert_eq!(trust("rediss://h?ssl_cert_reqs=required"), Some(RedisTrust::Full));
        assert_eq!(trust("rediss://h?ssl_check_hostname=false"), Some(RedisTrust::AnyName));
        assert_eq!(trust("rediss://h#insecure"), Some(RedisTrust::Anyone));
        assert_eq!(trust("rediss://h?ssl_cert_reqs=none&ssl_check_hostname=false"), Some(RedisTrust::Anyone));
        assert_eq!(trust("redis://h"), None);
    }

    #[test]
    fn a_socket_is_named_by_its_path() {
        for url in ["unix:///run/redis%20a.sock?db=2", "redis+unix://:pw@/run/redis%20a.sock?db=2"] {
            let (address, login) = read(url).unwrap();
            assert_eq!(address, RedisAddress::Unix("/run/redis a.sock".into()));
            assert_eq!(login.database, 2);
        }
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for url in [
            "",
            "nonsense",
            "http://h",
            "redis://",
            "redis://:pw@",
            "redis://h:port",
            "redis://h:0",
            "redis://h:99999",
            "redis://h/blue",
            "redis://h?db=-1",
            "redis://:p%ffw@h",
            "redis://:p%w@h",
            "redis://[::1",
            "redis://[::1]x",
            "unix://relative",
            "unix:///",
            "redis://h#insecure",
            "redis://h/0#x",
            "rediss://h?ssl_ca_certs=/x",
        ] {
            assert!(read(url).is_err(), "{url}");
        }
    }

    #[test]
    fn a_password_shows_nowhere() {
        let settings = RedisSettings::of_url("rediss://me:hunter2@h/1", "prod").unwrap();
        let shown = format!("{settings:?}");
        assert!(shown.contains("prod") && !shown.contains("hunter2"), "{shown}");
    }
}
