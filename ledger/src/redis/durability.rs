//! Looks whether a Redis can carry a ledger: whether it may forget what the ledger must remember, and whether we may
//! do there what we need. Answers plain findings; what to say of them is up to the caller.
mod grants;

use super::LedgerError;
use super::connect::Home;
use super::keys::Keys;
use super::reason::reason;
use super::scripts::Scripts;
use crate::clock::Clock;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, RedisResult};
use std::time::Duration;

/// A look is not on any request's way, and a Redis that answers slowly can still be looked at.
const PATIENCE: Duration = Duration::from_secs(2);
/// Tested by hand; before 5.0 a script that had asked for the time could not write.
const OLDEST: (u64, u64) = (6, 2);
/// Clocks further apart are worth a word. The ledger lives by the server's, so they do no harm.
const CLOCKS_APART_MS: u64 = 5_000;

/// What a look at a Redis found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inspection {
    /// Host and port: nothing secret.
    pub address: String,
    /// `redis 7.0.15`; `None` if it does not say.
    pub product: Option<String>,
    /// The worst first; empty if all is well.
    pub findings: Vec<Finding>,
}

/// Something that whoever runs a Redis should know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finding {
    /// It takes no writes.
    TakesNoWrites {
        /// What it says, in words.
        reason: String,
    },
    /// The user may not run these commands or touch these keys, and the ledger needs them all.
    Denied {
        /// Lower-case names of commands.
        commands: Vec<String>,
        /// Patterns of keys, namespace included.
        keys: Vec<String>,
    },
    /// It is a replica of another server.
    Replica {
        /// Its primary's host and port, if it says.
        primary: Option<String>,
    },
    /// When it is full it throws keys away, and all of ours may be among them.
    Evicts {
        /// `maxmemory-policy`.
        policy: String,
        /// `maxmemory`, in bytes.
        maxmemory: u64,
    },
    /// It keeps neither an append-only file nor snapshots: a restart loses everything.
    Forgets,
    /// Older than what we know to work.
    Old {
        /// Its version.
        version: String,
        /// The oldest that is known to work.
        oldest: String,
    },
    /// Its clock differs from this machine's.
    ClockDiffers {
        /// How much the server's is ahead; behind, if negative.
        ahead_ms: i64,
    },
    /// It did not let us see this; managed ones often do not.
    Unchecked {
        /// What could not be checked.
        what: Vec<&'static str>,
    },
}

/// How much a finding matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The ledger cannot be shared there.
    Fault,
    /// It can, and something may be lost.
    Warning,
    /// Good to know.
    Note,
}

impl Finding {
    /// How much it matters.
    #[must_use]
    pub fn severity(&self) -> Severity {
        match self {
            Self::TakesNoWrites { .. } | Self::Denied { .. } => Severity::Fault,
            Self::Replica { .. } | Self::Evicts { .. } | Self::Forgets | Self::Old { .. } => {
                Severity::Warning
            }
            Self::ClockDiffers { .. } | Self::Unchecked { .. } => Severity::Note,
        }
    }
}

/// Looks at every server that carries the ledger, over a connection of its own.
pub(super) async fn inspect(
    home: &Home,
    keys: &Keys,
    scripts: &Scripts,
    clock: &dyn Clock,
) -> Result<Vec<Inspection>, LedgerError> {
    let unreachable =
        |address: String| move |error| LedgerError::Unreachable { address, reason: reason(&error) };
    let lead = format!("onegate-check-{}", uuid::Uuid::now_v7());
    let servers = home.servers(&lead, PATIENCE).await.map_err(unreachable(home.address()))?;
    let mut found = Vec::with_capacity(servers.len());
    for (client, id) in servers {
        let address = client.get_connection_info().addr().to_string();
        let looked = look(&client, &id, keys, scripts, clock).await;
        let (product, mut findings) = looked.map_err(unreachable(address.clone()))?;
        findings.sort_by_key(Finding::severity);
        found.push(Inspection { address, product, findings });
    }
    Ok(found)
}

/// `id` is nobody's, and keys with it lie on this server.
async fn look(
    client: &Client,
    id: &str,
    keys: &Keys,
    scripts: &Scripts,
    clock: &dyn Clock,
) -> RedisResult<(Option<String>, Vec<Finding>)> {
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(PATIENCE))
        .set_response_timeout(Some(PATIENCE));
    let mut line = client.get_multiplexed_async_connection_with_config(&config).await?;
    let mut findings = grants::check(&mut line, (id, keys), scripts, clock.unix_ms()).await?;
    findings.extend(clocks(&mut line, clock).await?);
    let info = allowed(redis::cmd("INFO").query_async::<String>(&mut line).await)?;
    let saves = saves(&mut line).await?;
    let info = info.as_deref().map(Info);
    if let Some(info) = &info {
        findings.extend([info.role(), info.eviction(), info.age()].into_iter().flatten());
    }
    let is_durable = info.as_ref().and_then(Info::appends).filter(|&appends| appends).or(saves);
    findings.extend((is_durable == Some(false)).then_some(Finding::Forgets));
    let unchecked = [
        (info.is_none(), "its version"),
        (info.is_none(), "whether it may evict keys"),
        (is_durable.is_none(), "whether it persists"),
    ];
    let what: Vec<_> = unchecked.into_iter().filter_map(|(is_open, what)| is_open.then_some(what)).collect();
    findings.extend((!what.is_empty()).then_some(Finding::Unchecked { what }));
    Ok((info.as_ref().and_then(Info::product), findings))
}

/// What was answered, or `None` if the server only does not want to tell. An error is a broken connection.
fn allowed<T>(answer: RedisResult<T>) -> RedisResult<Option<T>> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(error) if error.is_timeout() || error.is_unrecoverable_error() => Err(error),
        Err(_) => Ok(None),
    }
}

/// Whether it takes snapshots; `None` if it does not tell.
async fn saves(line: &mut MultiplexedConnection) -> RedisResult<Option<bool>> {
    let answer = redis::cmd("CONFIG").arg("GET").arg("save").query_async::<Vec<String>>(line).await;
    Ok(allowed(answer)?.and_then(|pair| pair.get(1).map(|times| !times.trim().is_empty())))
}

async fn clocks(line: &mut MultiplexedConnection, clock: &dyn Clock) -> RedisResult<Option<Finding>> {
    let before_ms = clock.unix_ms();
    let time = allowed(redis::cmd("TIME").query_async::<(u64, u64)>(line).await)?;
    let Some((seconds, micros)) = time else { return Ok(None) };
    let ours_ms = before_ms + clock.unix_ms().saturating_sub(before_ms) / 2;
    let server_ms = seconds * 1_000 + micros / 1_000;
    let apart_ms = i64::try_from(server_ms.abs_diff(ours_ms)).unwrap_or(i64::MAX);
    let ahead_ms = if server_ms < ours_ms { -apart_ms } else { apart_ms };
    Ok((server_ms.abs_diff(ours_ms) > CLOCKS_APART_MS).then_some(Finding::ClockDiffers { ahead_ms }))
}

/// What `INFO` answered.
struct Info<'a>(&'a str);

impl Info<'_> {
    fn get(&self, name: &str) -> Option<&str> {
        self.0.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
    }

    fn product(&self) -> Option<String> {
        let valkey = self.get("valkey_version").map(|version| format!("valkey {version}"));
        valkey.or_else(|| self.get("redis_version").map(|version| format!("redis {version}")))
    }

    fn role(&self) -> Option<Finding> {
        let primary = self.get("master_host").zip(self.get("master_port"));
        let primary = primary.map(|(host, port)| format!("{host}:{port}"));
        (self.get("role") == Some("slave")).then_some(Finding::Replica { primary })
    }

    fn eviction(&self) -> Option<Finding> {
        let maxmemory = self.get("maxmemory")?.parse().ok().filter(|&bytes: &u64| bytes > 0)?;
        let policy = self.get("maxmemory_policy").filter(|&policy| policy != "noeviction")?.to_owned();
        Some(Finding::Evicts { policy, maxmemory })
    }

    fn age(&self) -> Option<Finding> {
        // Valkey calls itself a Redis 7.2 and began there.
        let version = self.get("redis_version")?;
        let mut parts = version.split('.').map_while(|part| part.parse::<u64>().ok());
        let found = (parts.next()?, parts.next().unwrap_or(0));
        let oldest = format!("{}.{}", OLDEST.0, OLDEST.1);
        (found < OLDEST).then(|| Finding::Old { version: version.to_owned(), oldest })
    }

    fn appends(&self) -> Option<bool> {
        self.get("aof_enabled").map(|enabled| enabled == "1")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INFO: &str = "# Server\r\nredis_version:6.0.16\r\n# Memory\r\nmaxmemory:104857600\r\n\
        maxmemory_policy:volatile-lru\r\n# Persistence\r\naof_enabled:0\r\n# Replication\r\nrole:slave\r\n\
        master_host:10.0.0.7\r\nmaster_port:6380\r\n";

    #[test]
    fn an_info_is_read_as_it_is_written() {
        let info = Info(INFO);
        assert_eq!(info.product().as_deref(), Some("redis 6.0.16"));
        assert_eq!(info.role(), Some(Finding::Replica { primary: Some("10.0.0.7:6380".to_owned()) }));
        let (policy, maxmemory) = ("volatile-lru".to_owned(), 104_857_600);
        assert_eq!(info.eviction(), Some(Finding::Evicts { policy, maxmemory }));
        let (version, oldest) = ("6.0.16".to_owned(), "6.2".to_owned());
        assert_eq!(info.age(), Some(Finding::Old { version, oldest }));
        assert_eq!(info.appends(), Some(false));
    }

    #[test]
    fn a_server_without_a_bound_evicts_nothing_whatever_its_policy() {
        assert_eq!(Info("maxmemory:0\r\nmaxmemory_policy:allkeys-lru\r\n").eviction(), None);
        assert_eq!(Info("maxmemory:5\r\nmaxmemory_policy:noeviction\r\n").eviction(), None);
    }

    #[test]
    fn newer_ones_and_valkey_are_not_old() {
        for version in ["6.2.0", "7.0.15", "8.2.1", "10.0"] {
            assert_eq!(Info(&format!("redis_version:{version}\r\n")).age(), None, "{version}");
        }
        let valkey = Info("redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.1.3\r\n");
        assert_eq!((valkey.age(), valkey.product().as_deref()), (None, Some("valkey 8.1.3")));
    }

    #[test]
    fn the_worst_is_told_first() {
        let mut findings = [Finding::Unchecked { what: vec![] }, Finding::Forgets, denied()];
        findings.sort_by_key(Finding::severity);
        assert_eq!(
            findings.map(|finding| finding.severity()),
            [Severity::Fault, Severity::Warning, Severity::Note]
        );
    }

    fn denied() -> Finding {
        Finding::Denied { commands: vec!["zadd".to_owned()], keys: vec![] }
    }
}
