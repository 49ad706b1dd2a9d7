//! A cluster: which master has a key, and one breaker for each of them.
//!
//! The client library's own cluster connection stops all calls while it learns the topology anew, and learns it anew
//! with every call to a master that is dead: one frozen master would hold up the others. So each master has lines of
//! its own here. One that misses an answer is out: its calls fail at once, so that they go by the replica's share,
//! until a check of it succeeds; nobody else notices.
use super::super::outage::refuses_everything;
use super::address::{RedisAddress, RedisEndpoint, RedisLogin};
use super::client;
use super::heart::{self, Beat};
use super::home::{Terms, ask};
use super::lines::{batch, missed, pair, within};
use super::slots::{Topology, slot_of};
use futures_util::future::join_all;
use redis::aio::{ConnectionLike, ConnectionManager};
use redis::{Client, Cmd, ErrorKind, RedisError, RedisResult, Value};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

/// Without any trouble the topology is read with every so manieth beat.
const BEATS_PER_LOOK: u32 = 10;

/// Which of a master's two lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::redis) enum Lane {
    Reserve,
    Rest,
}

/// The whole cluster, as far as it is known.
pub(in crate::redis) struct Cluster {
    start: Vec<RedisEndpoint>,
    login: RedisLogin,
    map: RwLock<Arc<Map>>,
    beats: AtomicU32,
    /// A little less than the deadline, so that a miss is seen here, before the caller gives up.
    patience: Duration,
}

#[derive(Default)]
struct Map {
    topology: Topology,
    masters: Vec<Arc<Master>>,
}

/// One master and what this replica believes of it.
struct Master {
    at: RedisEndpoint,
    /// The name of its part of the ledger: it lies in one of its slots.
    part: String,
    client: Client,
    state: RwLock<State>,
}

enum State {
    Out,
    /// It is back. What piled up is written before reservations rely on its counters.
    Returning(Pair),
    In(Pair),
}

type Pair = (ConnectionManager, ConnectionManager);

impl Cluster {
    pub(super) fn new(start: Vec<RedisEndpoint>, login: RedisLogin, deadline: Duration) -> Self {
        let patience = deadline * 4 / 5;
        Self { start, login, map: RwLock::default(), beats: AtomicU32::new(0), patience }
    }

    /// Learns the topology and asks every master over a connection of its own.
    pub(super) async fn check(&self, terms: Terms<'_>) -> RedisResult<Beat> {
        self.look(terms.deadline).await?;
        let map = self.map();
        merged(join_all(map.masters.iter().map(|master| master.check(terms))).await)
    }

    /// Beats on every master; one that is out is asked whether it is back.
    pub(super) async fn beat(&self, terms: Terms<'_>) -> RedisResult<Beat> {
        if self.beats.fetch_add(1, Ordering::Relaxed).is_multiple_of(BEATS_PER_LOOK) || self.lacks_a_part() {
            // The old map will do if nobody can tell a new one.
            let _ = self.look(terms.deadline).await;
        }
        let map = self.map();
        merged(join_all(map.masters.iter().map(|master| master.beat(terms))).await)
    }

    /// Every master, and a text that lies in one of its slots: it begins with `lead`.
    pub(super) async fn servers(&self, lead: &str, deadline: Duration) -> RedisResult<Vec<(Client, String)>> {
        self.look(deadline).await?;
        let map = self.map();
        let tag = |master: &Arc<Master>| map.topology.tag_in(&master.at, lead).unwrap_or_default();
        Ok(map.masters.iter().map(|master| (master.client.clone(), tag(master))).collect())
    }

    /// The nodes to begin with, for messages.
    pub(super) fn address(&self) -> String {
        let nodes: Vec<String> = self.start.iter().map(ToString::to_string).collect();
        nodes.join(", ")
    }

    /// One command, to the master that has its first key.
    pub(super) async fn send(&self, lane: Lane, command: &Cmd) -> RedisResult<Value> {
        let master = self.master_of(command)?;
        let answer = master.send(lane, command, self.patience).await;
        let Err(error) = &answer else { return answer };
        // The slot has moved: nothing ran there. The error is told all the same if the new master is not known yet.
        let moved_to = error.redirect_node().filter(|_| error.kind() == moved()).map(|(at, _)| at.to_owned());
        let map = self.map();
        match moved_to.and_then(|at| map.masters.iter().find(|master| master.at.to_string() == at)) {
            Some(other) => other.send(lane, command, self.patience).await,
            None => answer,
        }
    }

    /// Many commands, those for one master in one write, all masters at the same time.
    pub(super) async fn send_each(&self, lane: Lane, commands: &[Cmd]) -> Vec<RedisResult<Value>> {
        let mut answers: Vec<RedisResult<Value>> = commands.iter().map(|_| Err(out())).collect();
        let mut parts: Vec<(Arc<Master>, Vec<usize>)> = Vec::new();
        for (at, command) in commands.iter().enumerate() {
            let Ok(master) = self.master_of(command) else { continue };
            match parts.iter_mut().find(|(known, _)| Arc::ptr_eq(known, &master)) {
                Some((_, places)) => places.push(at),
                None => parts.push((master, vec![at])),
            }
        }
        let sent = parts.iter().map(async |(master, places)| {
            let commands = places.iter().filter_map(|&at| commands.get(at)).cloned();
            (places, master.send_each(lane, commands, self.patience).await)
        });
        for (places, answered) in join_all(sent).await {
            let each = match answered {
                Ok(each) => each,
                Err(error) => places.iter().map(|_| Err(error.clone())).collect(),
            };
            for (&at, answer) in places.iter().zip(each) {
                if let Some(place) = answers.get_mut(at) {
                    *place = answer;
                }
            }
        }
        answers
    }

    pub(super) fn lacks_a_part(&self) -> bool {
        self.map().masters.iter().any(|master| !matches!(*master.state(), State::In(_)))
    }

    pub(super) fn waits_for_flush(&self) -> bool {
        let is_returning = |master: &Arc<Master>| matches!(*master.state(), State::Returning(_));
        self.map().masters.iter().any(is_returning)
    }

    pub(super) fn open(&self) {
        self.map().masters.iter().for_each(|master| master.open());
    }

    /// Whether two keys have the same master.
    pub(super) fn are_together(&self, one: &str, other: &str) -> bool {
        let map = self.map();
        let [one, other] = [one, other].map(|key| map.topology.master(slot_of(key.as_bytes())));
        one.is_some() && one == other
    }

    fn master_of(&self, command: &Cmd) -> RedisResult<Arc<Master>> {
        let map = self.map();
        let master = first_key(command).and_then(|key| map.topology.master(slot_of(key)));
        let known = master.and_then(|at| map.masters.iter().find(|master| master.at == *at));
        known.cloned().ok_or_else(out)
    }

    fn map(&self) -> Arc<Map> {
        Arc::clone(&self.map.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes over the topology that most nodes tell. One node alone may be of yesterday.
    async fn look(&self, deadline: Duration) -> RedisResult<()> {
        let map = self.map();
        let known: BTreeSet<&RedisEndpoint> = self.start.iter().chain(&map.topology.nodes).collect();
        let mut told: Vec<(usize, Topology)> = Vec::new();
        let mut failed = None;
        for answer in join_all(known.into_iter().map(|at| topology(at, &self.login, deadline))).await {
            match answer {
                Ok(topology) => match told.iter_mut().find(|(_, known)| *known == topology) {
                    Some((times, _)) => *times += 1,
                    None => told.push((1, topology)),
                },
                Err(error) => failed = Some(error),
            }
        }
        let told = told.into_iter().filter(|(_, topology)| !topology.ranges.is_empty());
        let Some((_, topology)) = told.max_by_key(|(times, _)| *times) else {
            return Err(failed.unwrap_or_else(missed));
        };
        if topology != map.topology {
            let map = Arc::new(self.redrawn(&map, topology)?);
            *self.map.write().unwrap_or_else(PoisonError::into_inner) = map;
        }
        Ok(())
    }

    /// Masters that stay keep their lines.
    fn redrawn(&self, old: &Map, topology: Topology) -> RedisResult<Map> {
        let at: BTreeSet<&RedisEndpoint> = topology.ranges.iter().map(|(.., master)| master).collect();
        let mut masters = Vec::with_capacity(at.len());
        for at in at {
            let part = topology.tag_in(at, "onegate").unwrap_or_default();
            let stays = old.masters.iter().find(|master| master.at == *at && master.part == part);
            masters.push(match stays {
                Some(master) => Arc::clone(master),
                None => {
                    let client = client::client(&RedisAddress::Tcp(at.clone()), &self.login)?;
                    Arc::new(Master { at: at.clone(), part, client, state: RwLock::new(State::Out) })
                }
            });
        }
        Ok(Map { topology, masters })
    }
}

impl Master {
    async fn check(&self, terms: Terms<'_>) -> RedisResult<Beat> {
        let asked = match ask(&self.client, terms, &self.part).await {
            Ok(beat) if self.is_out() => pair(&self.client, terms).await.map(|pair| (beat, Some(pair))),
            asked => asked.map(|beat| (beat, None)),
        };
        let (beat, pair) = asked.inspect_err(|error| self.fail(error))?;
        if let Some(pair) = pair {
            *self.state.write().unwrap_or_else(PoisonError::into_inner) = State::Returning(pair);
        }
        Ok(beat)
    }

    async fn beat(&self, terms: Terms<'_>) -> RedisResult<Beat> {
        if let Ok(mut line) = self.line(Lane::Rest) {
            let beat = heart::beat(&mut line, terms.scripts, terms.heart, &self.part);
            match within(terms.deadline, beat).await {
                Ok(beat) => return Ok(beat),
                Err(error) => self.fail(&error),
            }
        }
        self.check(terms).await
    }

    async fn send(&self, lane: Lane, command: &Cmd, patience: Duration) -> RedisResult<Value> {
        let mut line = self.line(lane)?;
        let answer = within(patience, line.req_packed_command(command)).await;
        answer.and_then(Value::extract_error).inspect_err(|error| self.judge(error))
    }

    async fn send_each(
        &self,
        lane: Lane,
        commands: impl Iterator<Item = Cmd>,
        patience: Duration,
    ) -> RedisResult<Vec<RedisResult<Value>>> {
        let mut line = self.line(lane)?;
        let answers = within(patience, batch(&mut line, commands)).await;
        let answers = answers.inspect_err(|error| self.judge(error))?;
        answers.iter().filter_map(|answer| answer.as_ref().err()).for_each(|error| self.judge(error));
        Ok(answers)
    }

    fn line(&self, lane: Lane) -> RedisResult<ConnectionManager> {
        match (&*self.state(), lane) {
            (State::In((reserve, _)), Lane::Reserve) => Ok(reserve.clone()),
            (State::In((_, rest)) | State::Returning((_, rest)), Lane::Rest) => Ok(rest.clone()),
            (State::Out, _) | (State::Returning(_), Lane::Reserve) => Err(out()),
        }
    }

    /// Whether an error says that this master is of no use, and not that one key or slot is.
    fn judge(&self, error: &RedisError) {
        let is_useless = error.is_io_error()
            || error.is_unrecoverable_error()
            || error.code().is_some_and(refuses_everything);
        if is_useless {
            self.fail(error);
        }
    }

    fn fail(&self, error: &RedisError) {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        if !matches!(*state, State::Out) {
            let (at, error) = (&self.at, error.category());
            tracing::warn!(%at, error, "a master of the redis cluster does not answer: its deployments go by this replica's share");
        }
        *state = State::Out;
    }

    fn open(&self) {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        *state = match std::mem::replace(&mut *state, State::Out) {
            State::Returning(pair) => {
                tracing::info!(at = %self.at, "a master of the redis cluster answers: its deployments are shared");
                State::In(pair)
            }
            state => state,
        };
    }

    fn is_out(&self) -> bool {
        matches!(*self.state(), State::Out)
    }

    fn state(&self) -> std::sync::RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Nothing was sent: the key's master is out, or nobody knows it.
fn out() -> RedisError {
    RedisError::from((ErrorKind::Client, "the master of this slot is away"))
}

fn moved() -> ErrorKind {
    ErrorKind::Server(redis::ServerErrorKind::Moved)
}

/// The first key: behind the number of keys for scripts, else the first argument.
fn first_key(command: &Cmd) -> Option<&[u8]> {
    let mut words = command.args_iter().map(|arg| match arg {
        redis::Arg::Simple(word) => word,
        _ => b"0".as_slice(),
    });
    let name = words.next()?;
    let is_script = [b"EVALSHA".as_slice(), b"EVAL"].contains(&name);
    words.nth(if is_script { 2 } else { 0 })
}

async fn topology(at: &RedisEndpoint, login: &RedisLogin, deadline: Duration) -> RedisResult<Topology> {
    let client = client::client(&RedisAddress::Tcp(at.clone()), login)?;
    let mut line = client::brief(&client, deadline).await?;
    let answer: Value = within(deadline, redis::cmd("CLUSTER").arg("SLOTS").query_async(&mut line)).await?;
    let nonsense =
        || RedisError::from((ErrorKind::UnexpectedReturnType, "CLUSTER SLOTS was answered with nonsense"));
    Topology::read(&answer, at).ok_or_else(nonsense)
}

/// What all masters together say; an error only if none answers.
fn merged(beats: Vec<RedisResult<Beat>>) -> RedisResult<Beat> {
    let mut whole: Option<Beat> = None;
    let mut failed = None;
    for beat in beats {
        match (beat, &mut whole) {
            (Ok(beat), Some(whole)) => {
                let unknown =
                    beat.alive.into_iter().filter(|id| !whole.alive.contains(id)).collect::<Vec<_>>();
                whole.alive.extend(unknown);
                whole.epochs.extend(beat.epochs);
            }
            (Ok(beat), None) => whole = Some(beat),
            (Err(error), _) => failed = Some(error),
        }
    }
    whole.ok_or_else(|| failed.unwrap_or_else(missed))
}
