//! The scripts of `lua/`, called by their SHA. A server that has lost them gets them again, and the call that
//! found out is repeated: it had not run, so nothing is lost or counted twice.
use super::connect::Lines;
use redis::aio::ConnectionManager;
use redis::{Cmd, ErrorKind, Pipeline, RedisError, RedisResult, Script, ServerErrorKind, Value};

/// The ledger's scripts.
#[derive(Debug)]
pub(super) struct Scripts {
    pub(super) reserve: Script,
    pub(super) settle: Script,
    pub(super) cool: Script,
    pub(super) heartbeat: Script,
}

impl Scripts {
    pub(super) fn new() -> Self {
        Self {
            reserve: Script::new(include_str!("../../../lua/reserve.lua")),
            settle: Script::new(include_str!("../../../lua/settle.lua")),
            cool: Script::new(include_str!("../../../lua/cool.lua")),
            heartbeat: Script::new(include_str!("../../../lua/heartbeat.lua")),
        }
    }

    /// Gives the server all scripts, so that the first calls need no healing.
    pub(super) async fn load(&self, line: &mut ConnectionManager) -> RedisResult<()> {
        for script in [&self.reserve, &self.settle, &self.cool, &self.heartbeat] {
            script.load_async(line).await?;
        }
        Ok(())
    }

    /// Sends all calls in one write and answers for each, in order. `Err`: it is unknown which of them ran.
    pub(super) async fn send_all(
        &self,
        lines: &Lines,
        calls: &[Cmd],
    ) -> RedisResult<Vec<RedisResult<Value>>> {
        let mut line = lines.rest.clone();
        let mut answers = send(&mut line, calls.iter()).await?;
        let unknown: Vec<usize> = (0..calls.len()).filter(|&i| is_unknown_script(&answers[i])).collect();
        if unknown.is_empty() {
            return Ok(answers);
        }
        self.load(&mut line).await?;
        let healed = send(&mut line, unknown.iter().map(|&i| &calls[i])).await?;
        for (i, answer) in unknown.into_iter().zip(healed) {
            answers[i] = answer;
        }
        Ok(answers)
    }
}

/// A call of a script for a pipeline, which `Script` itself cannot be put into.
pub(super) fn call(script: &Script, keys: &[String], args: &[String]) -> Cmd {
    let mut call = redis::cmd("EVALSHA");
    call.arg(script.get_hash()).arg(keys.len()).arg(keys).arg(args);
    call
}

async fn send<'a>(
    line: &mut ConnectionManager,
    calls: impl Iterator<Item = &'a Cmd>,
) -> RedisResult<Vec<RedisResult<Value>>> {
    let mut pipeline = Pipeline::new();
    pipeline.ignore_errors();
    for call in calls {
        pipeline.add_command(call.clone());
    }
    let answers: Vec<RedisResult<Value>> = pipeline.query_async(line).await?;
    if answers.len() == pipeline.len() {
        Ok(answers)
    } else {
        Err(RedisError::from((ErrorKind::UnexpectedReturnType, "a pipeline was answered in part")))
    }
}

fn is_unknown_script(answer: &RedisResult<Value>) -> bool {
    matches!(answer, Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript))
}
