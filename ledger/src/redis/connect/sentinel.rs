//! Sentinels: they are asked anew for the master whenever lines are opened, and with every beat. What the majority of
//! those that answer says comes first, so that one that was cut off cannot send us back to a master of yesterday.
use super::address::RedisEndpoint;
use super::client;
use super::lines::within;
use futures_util::future::join_all;
use redis::aio::ConnectionManager;
use redis::{Client, ErrorKind, RedisError, RedisResult};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

/// Those who watch a master.
pub(in crate::redis) struct Sentinels {
    clients: Vec<Client>,
    /// Opened when first used, for that needs a runtime.
    lines: OnceLock<Vec<ConnectionManager>>,
    master: String,
    /// The last master that took writes. It is asked, and only asked, when no sentinel answers.
    last: Mutex<Option<RedisEndpoint>>,
}

impl Sentinels {
    pub(super) fn new(clients: Vec<Client>, master: String) -> Self {
        Self { clients, lines: OnceLock::new(), master, last: Mutex::default() }
    }

    /// The master's name and the sentinels, for messages.
    pub(super) fn address(&self) -> String {
        let sentinels: Vec<String> = self.clients.iter().map(client::place_of).collect();
        format!("{} by the sentinels {}", self.master, sentinels.join(", "))
    }

    /// Where the master is, by the sentinels that answer in time: every place that one names, the most named first.
    ///
    /// # Errors
    /// None of them knows one.
    pub(super) async fn masters(&self, deadline: Duration) -> RedisResult<Vec<RedisEndpoint>> {
        let ask = async |line: &ConnectionManager| {
            let mut question = redis::cmd("SENTINEL");
            question.arg("GET-MASTER-ADDR-BY-NAME").arg(&self.master);
            let mut line = line.clone();
            let answer = question.query_async::<Option<(String, u16)>>(&mut line);
            // A line that was lost is opened anew within the call, so it may take longer than an answer alone.
            within(deadline * 2, answer).await
        };
        let mut named: Vec<(usize, RedisEndpoint)> = Vec::new();
        let mut failed = None;
        for answer in join_all(self.lines(deadline)?.iter().map(ask)).await {
            match answer {
                Ok(Some((host, port))) => {
                    let at = RedisEndpoint { host, port };
                    match named.iter_mut().find(|(_, known)| *known == at) {
                        Some((times, _)) => *times += 1,
                        None => named.push((1, at)),
                    }
                }
                Ok(None) => {}
                Err(error) => failed = Some(error),
            }
        }
        if named.is_empty() && failed.is_some() {
            let last = self.last.lock().unwrap_or_else(PoisonError::into_inner).clone();
            named.extend(last.map(|at| (1, at)));
        }
        if named.is_empty() {
            let unknown = || {
                let what = "no sentinel knows a master of this name";
                RedisError::from((ErrorKind::MasterNameNotFoundBySentinel, what))
            };
            return Err(failed.unwrap_or_else(unknown));
        }
        named.sort_by_key(|(times, _)| std::cmp::Reverse(*times));
        Ok(named.into_iter().map(|(_, at)| at).collect())
    }

    /// This one takes writes.
    pub(super) fn found(&self, at: &RedisEndpoint) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(at.clone());
    }

    fn lines(&self, deadline: Duration) -> RedisResult<&[ConnectionManager]> {
        if let Some(lines) = self.lines.get() {
            return Ok(lines);
        }
        let open = |client: &Client| {
            ConnectionManager::new_lazy_with_config(client.clone(), client::lasting(deadline))
        };
        let lines = self.clients.iter().map(open).collect::<RedisResult<_>>()?;
        Ok(self.lines.get_or_init(|| lines))
    }
}
