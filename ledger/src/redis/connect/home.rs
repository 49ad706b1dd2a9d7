//! What a ledger asks of its Redis, whatever kind it is: is it there, open lines to it, beat.
use super::super::keys::Keys;
use super::super::scripts::Scripts;
use super::address::{RedisAddress, RedisEndpoint, RedisLogin, RedisPlace};
use super::client;
use super::cluster::Cluster;
use super::heart::{self, Beat, Heart};
use super::lines::{Lines, missed, within};
use super::sentinel::Sentinels;
use redis::{Client, RedisResult};
use std::sync::Arc;
use std::time::Duration;

/// By what a server is asked.
#[derive(Clone, Copy)]
pub(in crate::redis) struct Terms<'a> {
    pub(in crate::redis) scripts: &'a Scripts,
    pub(in crate::redis) heart: &'a Heart,
    pub(in crate::redis) deadline: Duration,
}

/// The kind of Redis.
pub(in crate::redis) enum Home {
    Single(Client),
    Sentinel(Sentinels, RedisLogin),
    Cluster(Arc<Cluster>),
}

/// A Redis that is there and takes writes.
pub(in crate::redis) struct Checked {
    pub(in crate::redis) beat: Beat,
    /// The server that answered; `None` for a cluster.
    server: Option<Client>,
}

impl Home {
    /// Opens nothing yet.
    ///
    /// # Errors
    /// It can never work.
    pub(in crate::redis) fn new(place: RedisPlace, deadline: Duration) -> RedisResult<Self> {
        let tcp =
            |at: &RedisEndpoint, login: &RedisLogin| client::client(&RedisAddress::Tcp(at.clone()), login);
        Ok(match place {
            RedisPlace::Single { address, login } => Self::Single(client::client(&address, &login)?),
            RedisPlace::Sentinel { sentinels, sentinel_login, master, login } => {
                let sentinel_login = RedisLogin { database: 0, ..sentinel_login };
                let clients =
                    sentinels.iter().map(|at| tcp(at, &sentinel_login)).collect::<RedisResult<_>>()?;
                // Whatever is wrong with the login shows now, not when the first master is found.
                sentinels.first().map(|at| tcp(at, &login)).transpose()?;
                Self::Sentinel(Sentinels::new(clients, master), login)
            }
            RedisPlace::Cluster { nodes, login } => {
                let login = RedisLogin { database: 0, ..login };
                nodes.first().map(|at| tcp(at, &login)).transpose()?;
                Self::Cluster(Arc::new(Cluster::new(nodes, login, deadline)))
            }
        })
    }

    /// Whether keys of different deployments may lie on different servers, so that no call may span them.
    pub(in crate::redis) fn is_sharded(&self) -> bool {
        matches!(self, Self::Cluster(_))
    }

    /// Where it is, for messages: nothing secret.
    pub(in crate::redis) fn address(&self) -> String {
        match self {
            Self::Single(client) => client::place_of(client),
            Self::Sentinel(sentinels, _) => sentinels.address(),
            Self::Cluster(cluster) => cluster.address(),
        }
    }

    /// The servers that carry the ledger now: one, or every master of a cluster. Beside each a text that begins with
    /// `lead` and, as an id, makes keys that lie there.
    ///
    /// # Errors
    /// Nobody can tell where they are.
    pub(in crate::redis) async fn servers(
        &self,
        lead: &str,
        deadline: Duration,
    ) -> RedisResult<Vec<(Client, String)>> {
        match self {
            Self::Single(client) => Ok(vec![(client.clone(), lead.to_owned())]),
            Self::Sentinel(sentinels, login) => {
                // The most named one: this looks at what they say, and finds out if it is no master.
                let at = sentinels.masters(deadline).await?.into_iter().next().ok_or_else(missed)?;
                Ok(vec![(client::client(&RedisAddress::Tcp(at), login)?, lead.to_owned())])
            }
            Self::Cluster(cluster) => cluster.servers(lead, deadline).await,
        }
    }

    /// Asks over connections of its own whether Redis answers and takes writes. Names are resolved anew.
    ///
    /// # Errors
    /// It does not. Of a cluster: no master does.
    pub(in crate::redis) async fn check(&self, terms: Terms<'_>) -> RedisResult<Checked> {
        match self {
            Self::Single(client) => check(client, terms, "").await,
            Self::Sentinel(sentinels, login) => {
                let mut failed = None;
                for at in sentinels.masters(terms.deadline).await? {
                    let client = client::client(&RedisAddress::Tcp(at.clone()), login)?;
                    match check(&client, terms, "").await {
                        Ok(checked) => {
                            sentinels.found(&at);
                            return Ok(checked);
                        }
                        // The most named comes first, so its error tells the most.
                        Err(error) => failed = failed.or(Some(error)),
                    }
                }
                Err(failed.unwrap_or_else(missed))
            }
            Self::Cluster(cluster) => {
                let beat = cluster.check(terms).await?;
                Ok(Checked { beat, server: None })
            }
        }
    }

    /// Opens lines to what was just checked.
    pub(in crate::redis) async fn lines(&self, checked: &Checked, terms: Terms<'_>) -> RedisResult<Lines> {
        match (self, &checked.server) {
            (Self::Cluster(cluster), _) => Ok(Lines::of_cluster(cluster)),
            (_, Some(server)) => Lines::open(server, terms).await,
            (_, None) => Err(missed()),
        }
    }

    /// Whether these lines lead to another server than the one that was just checked.
    pub(in crate::redis) fn has_moved(&self, lines: Option<&Lines>, checked: &Checked) -> bool {
        let place = checked.server.as_ref().map(client::place_of);
        place.is_some_and(|place| lines.is_none_or(|lines| lines.place != place))
    }

    /// One beat, over the lines that are there.
    ///
    /// # Errors
    /// It was not answered in time, or the master is another one by now.
    pub(in crate::redis) async fn beat(&self, lines: &Lines, terms: Terms<'_>) -> RedisResult<Beat> {
        let mut line = lines.rest.clone();
        let beat = within(terms.deadline, heart::beat(&mut line, terms.scripts, terms.heart, ""));
        match self {
            Self::Single(_) => beat.await,
            Self::Sentinel(sentinels, _) => {
                // A master that was cut off from the sentinels may go on answering us. That no sentinel answers is
                // no reason to leave one that does.
                let (beat, masters) = tokio::join!(beat, sentinels.masters(terms.deadline));
                match masters.ok().and_then(|masters| masters.into_iter().next()) {
                    Some(master) if master.to_string() != lines.place => Err(missed()),
                    _ => beat,
                }
            }
            Self::Cluster(cluster) => cluster.beat(terms).await,
        }
    }

    /// Whether a part of it is away while the rest is there.
    pub(in crate::redis) fn lacks_a_part(&self) -> bool {
        matches!(self, Self::Cluster(cluster) if cluster.lacks_a_part())
    }

    /// Whether a part has come back that waits for what piled up to be written, see [`Self::open`].
    pub(in crate::redis) fn waits_for_flush(&self) -> bool {
        matches!(self, Self::Cluster(cluster) if cluster.waits_for_flush())
    }

    /// Lets reservations reach the parts that came back.
    pub(in crate::redis) fn open(&self) {
        if let Self::Cluster(cluster) = self {
            cluster.open();
        }
    }

    /// Whether a deployment's keys lie in the part of this name.
    pub(in crate::redis) fn keeps(&self, part: &str, id: &str, keys: &Keys) -> bool {
        match self {
            Self::Single(_) | Self::Sentinel(..) => true,
            Self::Cluster(cluster) => cluster.are_together(&keys.cooldown(id), &keys.epoch(part)),
        }
    }
}

/// One server: it answers, and it takes writes.
async fn check(client: &Client, terms: Terms<'_>, part: &str) -> RedisResult<Checked> {
    let beat = ask(client, terms, part).await?;
    Ok(Checked { beat, server: Some(client.clone()) })
}

/// A beat on a connection of its own.
pub(super) async fn ask(client: &Client, terms: Terms<'_>, part: &str) -> RedisResult<Beat> {
    let mut line = client::brief(client, terms.deadline).await?;
    within(terms.deadline, redis::cmd("PING").exec_async(&mut line)).await?;
    within(terms.deadline, heart::beat(&mut line, terms.scripts, terms.heart, part)).await
}
