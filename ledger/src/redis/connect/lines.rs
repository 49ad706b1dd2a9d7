//! The lines that requests and flushes take. A line leads to one server, or to whichever master of a cluster has the
//! key; who uses it need not know.
use super::client;
use super::cluster::{Cluster, Lane};
use super::home::Terms;
use redis::aio::{ConnectionLike, ConnectionManager};
use redis::{Client, Cmd, ErrorKind, Pipeline, RedisError, RedisFuture, RedisResult, Value};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// The two lines to Redis. A big read must never stand in front of a reservation, so they are apart.
#[derive(Clone)]
pub(in crate::redis) struct Lines {
    /// Reservations only.
    pub(in crate::redis) reserve: Link,
    /// Views, flushes, heartbeat.
    pub(in crate::redis) rest: Link,
    /// The server's address; empty for a cluster.
    pub(super) place: String,
}

/// One line.
#[derive(Clone)]
pub(in crate::redis) enum Link {
    One(ConnectionManager),
    Cluster(Arc<Cluster>, Lane),
}

impl Lines {
    /// Opens both lines to a server and gives it the scripts.
    pub(super) async fn open(client: &Client, terms: Terms<'_>) -> RedisResult<Self> {
        let (reserve, rest) = pair(client, terms).await?;
        Ok(Self { reserve: Link::One(reserve), rest: Link::One(rest), place: client::place_of(client) })
    }

    /// The lines of a cluster. Its masters have their own.
    pub(super) fn of_cluster(cluster: &Arc<Cluster>) -> Self {
        let link = |lane| Link::Cluster(Arc::clone(cluster), lane);
        Self { reserve: link(Lane::Reserve), rest: link(Lane::Rest), place: String::new() }
    }
}

/// A line for reservations and one for the rest, to a server that has the scripts.
pub(super) async fn pair(
    client: &Client,
    terms: Terms<'_>,
) -> RedisResult<(ConnectionManager, ConnectionManager)> {
    let reserve = client::line(client, terms.deadline).await?;
    let mut rest = client::line(client, terms.deadline).await?;
    within(terms.deadline, terms.scripts.load(&mut rest)).await?;
    Ok((reserve, rest))
}

impl Link {
    /// Sends all commands, those for one server in one write, and answers for each, in order. Every command has its
    /// keys in one slot. `Err`: it is unknown which of them ran.
    pub(in crate::redis) async fn send_each(
        &mut self,
        commands: Vec<Cmd>,
    ) -> RedisResult<Vec<RedisResult<Value>>> {
        match self {
            Self::One(line) => batch(line, commands.into_iter()).await,
            Self::Cluster(cluster, lane) => Ok(cluster.send_each(*lane, &commands).await),
        }
    }
}

/// One write of many commands to one server.
pub(super) async fn batch(
    line: &mut ConnectionManager,
    commands: impl Iterator<Item = Cmd>,
) -> RedisResult<Vec<RedisResult<Value>>> {
    let mut pipeline = Pipeline::new();
    pipeline.ignore_errors();
    for command in commands {
        pipeline.add_command(command);
    }
    let answers: Vec<RedisResult<Value>> = pipeline.query_async(line).await?;
    if answers.len() == pipeline.len() {
        Ok(answers)
    } else {
        Err(RedisError::from((ErrorKind::UnexpectedReturnType, "a pipeline was answered in part")))
    }
}

impl ConnectionLike for Link {
    fn req_packed_command<'a>(&'a mut self, command: &'a Cmd) -> RedisFuture<'a, Value> {
        match self {
            Self::One(line) => line.req_packed_command(command),
            Self::Cluster(cluster, lane) => Box::pin(cluster.send(*lane, command)),
        }
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        match self {
            Self::One(line) => line.req_packed_commands(pipeline, offset, count),
            // A transaction would have to lie in one slot, and everything else goes by `send_each`.
            Self::Cluster(..) => Box::pin(std::future::ready(Err(RedisError::from((
                ErrorKind::Client,
                "a pipeline cannot be sent to a cluster as a whole",
            ))))),
        }
    }

    fn get_db(&self) -> i64 {
        match self {
            Self::One(line) => line.get_db(),
            Self::Cluster(..) => 0,
        }
    }
}

/// The deadline of a call; its miss is an error like a broken connection.
pub(in crate::redis) async fn within<T>(
    deadline: Duration,
    call: impl Future<Output = RedisResult<T>>,
) -> RedisResult<T> {
    timeout(deadline, call).await.unwrap_or_else(|_| Err(missed()))
}

/// The error of a call whose deadline passed. Whether it ran is unknown.
pub(in crate::redis) fn missed() -> RedisError {
    RedisError::from(std::io::Error::from(std::io::ErrorKind::TimedOut))
}
