//! The scripts of `lua/`, called by their SHA. A server that has lost one is sent its text in the call itself:
//! the first call had not run, so nothing is lost or counted twice, and however often scripts are lost the
//! second one runs.
use super::connect::Link;
use redis::aio::{ConnectionLike, ConnectionManager};
use redis::{Cmd, ErrorKind, FromRedisValue, Pipeline, RedisError, RedisResult, ServerErrorKind, Value};

/// One script.
#[derive(Debug)]
pub(super) struct Script {
    text: &'static str,
    sha: String,
}

impl Script {
    fn new(text: &'static str) -> Self {
        Self { text, sha: redis::Script::new(text).get_hash().to_owned() }
    }

    /// What it says.
    pub(super) fn text(&self) -> &'static str {
        self.text
    }

    /// Calls with so many keys; `fill` adds the keys, then the arguments.
    pub(super) async fn call<T: FromRedisValue>(
        &self,
        line: &mut impl ConnectionLike,
        keys: usize,
        fill: impl Fn(&mut Cmd),
    ) -> RedisResult<T> {
        let mut call = self.by_sha(keys);
        fill(&mut call);
        match call.query_async(line).await {
            Err(error) if is_unknown_script(&error) => {
                let mut call = self.whole(keys);
                fill(&mut call);
                call.query_async(line).await
            }
            answer => answer,
        }
    }

    fn by_sha(&self, keys: usize) -> Cmd {
        // Room for as many arguments as keys, so that filling it seldom grows it.
        let mut call = Cmd::with_capacity(3 + 2 * keys, 64 + 64 * keys);
        call.arg("EVALSHA").arg(&self.sha).arg(keys);
        call
    }

    fn whole(&self, keys: usize) -> Cmd {
        let mut call = redis::cmd("EVAL");
        call.arg(self.text).arg(keys);
        call
    }
}

/// The ledger's scripts.
#[derive(Debug)]
pub(super) struct Scripts {
    pub(super) reserve: Script,
    pub(super) settle: Script,
    pub(super) cool: Script,
    pub(super) probe: Script,
    pub(super) probe_done: Script,
    pub(super) heartbeat: Script,
    pub(super) spend_hold: Script,
    pub(super) spend_renew: Script,
    pub(super) spend_settle: Script,
    pub(super) slots_take: Script,
    pub(super) slots_keep: Script,
    pub(super) append: Script,
}

impl Scripts {
    pub(super) fn new() -> Self {
        Self {
            reserve: Script::new(include_str!("../../../lua/reserve.lua")),
            settle: Script::new(include_str!("../../../lua/settle.lua")),
            cool: Script::new(include_str!("../../../lua/cool.lua")),
            probe: Script::new(include_str!("../../../lua/probe.lua")),
            probe_done: Script::new(include_str!("../../../lua/probe_done.lua")),
            heartbeat: Script::new(include_str!("../../../lua/heartbeat.lua")),
            spend_hold: Script::new(include_str!("../../../lua/spend_hold.lua")),
            spend_renew: Script::new(include_str!("../../../lua/spend_renew.lua")),
            spend_settle: Script::new(include_str!("../../../lua/spend_settle.lua")),
            slots_take: Script::new(include_str!("../../../lua/slots_take.lua")),
            slots_keep: Script::new(include_str!("../../../lua/slots_keep.lua")),
            append: Script::new(include_str!("../../../lua/append.lua")),
        }
    }

    /// Gives the server all scripts, so that the first calls need no healing.
    pub(super) async fn load(&self, line: &mut ConnectionManager) -> RedisResult<()> {
        let mut loads = Pipeline::new();
        for script in [
            &self.reserve,
            &self.settle,
            &self.cool,
            &self.probe,
            &self.probe_done,
            &self.heartbeat,
            &self.append,
            &self.spend_hold,
            &self.spend_renew,
            &self.spend_settle,
            &self.slots_take,
            &self.slots_keep,
        ] {
            loads.cmd("SCRIPT").arg("LOAD").arg(script.text);
        }
        loads.exec_async(line).await
    }
}

/// A call that travels with others.
#[derive(Debug)]
pub(super) struct Call<'a> {
    pub(super) script: &'a Script,
    pub(super) keys: Vec<String>,
    pub(super) args: Vec<String>,
}

impl Call<'_> {
    /// Sends this call alone.
    pub(super) async fn send<T: FromRedisValue>(&self, line: &mut Link) -> RedisResult<T> {
        let fill = |call: &mut Cmd| {
            call.arg(&self.keys).arg(&self.args);
        };
        self.script.call(line, self.keys.len(), fill).await
    }

    fn by_sha(&self) -> Cmd {
        let mut call = self.script.by_sha(self.keys.len());
        call.arg(&self.keys).arg(&self.args);
        call
    }

    fn whole(&self) -> Cmd {
        let mut call = self.script.whole(self.keys.len());
        call.arg(&self.keys).arg(&self.args);
        call
    }
}

/// Sends all calls in one write a server and answers for each, in order. `Err`: it is unknown which of them ran.
pub(super) async fn send_all(line: &mut Link, calls: &[Call<'_>]) -> RedisResult<Vec<RedisResult<Value>>> {
    let mut answers = line.send_each(calls.iter().map(Call::by_sha).collect()).await?;
    let is_lost = |answer: &RedisResult<Value>| answer.as_ref().is_err_and(is_unknown_script);
    let lost: Vec<usize> = (0..calls.len()).filter(|&at| is_lost(&answers[at])).collect();
    if !lost.is_empty() {
        let healed = line.send_each(lost.iter().map(|&at| calls[at].whole()).collect()).await?;
        for (at, answer) in lost.into_iter().zip(healed) {
            answers[at] = answer;
        }
    }
    Ok(answers)
}

fn is_unknown_script(error: &RedisError) -> bool {
    error.kind() == ErrorKind::Server(ServerErrorKind::NoScript)
}
