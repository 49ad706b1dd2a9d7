//! The write-behind: every 100 ms what is unsent goes out in one pipeline, folded to one change a key. A
//! cooldown or a void does not wait for the time to pass.
use super::Shared;
use super::connect::{Lines, within};
use super::cooldown_value;
use super::delta::{Delta, Unsent};
use super::keys::Counter;
use super::local::{After, Window};
use super::outage::Line;
use super::probes::{Ended, PROBE_MS};
use super::samples::{self, UnsentOfOne};
use super::scripts::{Call, send_all};
use super::{slots, spend};
use crate::book::PROBATION_OUTLIVES_MS;
use crate::samples::{Kind, Latency, Sizes};
use redis::{RedisResult, Value};
use std::sync::Arc;
use std::time::Duration;

const PERIOD: Duration = Duration::from_millis(100);
/// Members a call. Bounds the time that one script holds the server.
const CALL_MEMBERS_MAX: usize = 50;
/// Attempts of a drain, each bounded by the deadline.
const DRAIN_TRIES: usize = 3;

/// Writes whenever the period has passed or someone cannot wait. Ends when its ledger is dropped.
pub(super) async fn run(shared: Arc<Shared>) {
    loop {
        tokio::select! {
            () = tokio::time::sleep(PERIOD) => {}
            () = shared.flush_now.notified() => {}
        }
        // While it is in doubt whether Redis answers, a second unknown outcome would lose what the first kept.
        match shared.lines() {
            Some(lines) if !shared.breaker.is_away() && !shared.breaker.in_doubt() => {
                flush(&shared, &lines).await;
            }
            _ => shared.local().forget(shared.now_ms()),
        }
    }
}

/// Writes until nothing is left or Redis is away.
pub(super) async fn drain(shared: &Shared) {
    shared.left.end(shared).await;
    for _ in 0..DRAIN_TRIES {
        let Some(lines) = shared.lines().filter(|_| !shared.breaker.is_away()) else { return };
        // Waits for a flush that is under way even when it took the last change.
        flush(shared, &lines).await;
        if !shared.local().has_unsent() && !spend::has_unsent(shared) && !slots::has_unsent(shared) {
            return;
        }
    }
}

/// One call of a script and what it carries, so that it can be put back.
enum Load {
    Changes(Vec<(Window, Unsent)>),
    Cooldown {
        id: Arc<str>,
        until_ms: u64,
    },
    /// A try that ended, or a call that may end a probation.
    Ended(Arc<str>, Ended),
    /// Is asked for again when it is due again.
    Renewal,
    Samples(Vec<(Arc<str>, UnsentOfOne)>),
}

/// Writes what is unsent now. Nothing else may be read or written by the same line meanwhile, so that a view
/// knows which changes it contains.
pub(super) async fn flush(shared: &Shared, lines: &Lines) {
    spend::flush(shared, lines).await;
    slots::flush(shared, lines).await;
    let _alone = shared.rest_order.write().await;
    if !answers_again(shared, lines).await {
        return;
    }
    let now_ms = shared.now_ms();
    let (loads, calls): (Vec<Load>, Vec<Call<'_>>) = pack(shared, now_ms).into_iter().unzip();
    if calls.is_empty() {
        return;
    }
    match within(shared.deadline, send_all(&mut lines.rest.clone(), &calls)).await {
        Ok(answers) => {
            let mut refused = None;
            for (load, answer) in loads.into_iter().zip(answers) {
                refused = acknowledge(shared, load, answer).err().or(refused);
            }
            match refused {
                Some(error) => shared.breaker.doubt(Line::Rest, &error),
                None => shared.breaker.answered(Line::Rest),
            }
        }
        Err(error) => {
            let ran_nothing = error.is_connection_refusal();
            loads.into_iter().for_each(|load| put_back(shared, load, ran_nothing));
            shared.breaker.doubt(Line::Rest, &error);
        }
    }
}

/// Whether the line may be trusted with changes. One that failed its last call has to answer something harmless
/// first: what is asked for twice in vain is lost, and a dead line shows only by its misses. A master of a cluster
/// that failed is out until it was checked, so nothing is sent to it anyway.
async fn answers_again(shared: &Shared, lines: &Lines) -> bool {
    if shared.home.is_sharded() || !shared.breaker.has_missed(Line::Rest) {
        return true;
    }
    match within(shared.deadline, redis::cmd("PING").exec_async(&mut lines.rest.clone())).await {
        Ok(()) => {
            shared.breaker.answered(Line::Rest);
            true
        }
        Err(error) => {
            shared.breaker.doubt(Line::Rest, &error);
            false
        }
    }
}

fn pack(shared: &Shared, now_ms: u64) -> Vec<(Load, Call<'_>)> {
    let mut local = shared.local();
    let changes = local.take_unsent(now_ms);
    let cooldowns = local.unsent_cooldowns();
    let (ended, renewals) = (local.probes().take_ended(), local.probes().renewals(now_ms));
    let samples = local.samples.take();
    drop(local);

    // A success that is untold came before the cooldown that is unsent, else it would not count. A right is given
    // back only after the cooldown that the try began, or another could try in between.
    let (succeeded, released): (Vec<_>, Vec<_>) =
        ended.into_iter().partition(|(_, ended)| ended.success_began_ms.is_some());
    let mut packed: Vec<_> =
        succeeded.into_iter().map(|(id, ended)| told(shared, id, ended, now_ms)).collect();
    for (id, unsent) in cooldowns {
        let until_ms = unsent.cooling.until_ms;
        let value = cooldown_value::write(&unsent.cooling, &unsent.reason, now_ms);
        let length_ms = until_ms.saturating_sub(now_ms).to_string();
        let after = match unsent.after {
            After::Nothing => "0",
            After::Probation => "1",
            After::Trip => "2",
        };
        let keys = vec![shared.keys.cooldown(&id), shared.keys.trips(&id), shared.keys.probe(&id)];
        let token = unsent.token.as_deref().unwrap_or_default().to_owned();
        let args = vec![value, length_ms, after.to_owned(), PROBATION_OUTLIVES_MS.to_string(), token];
        packed.push((Load::Cooldown { id, until_ms }, Call { script: &shared.scripts.cool, keys, args }));
    }
    packed.extend(released.into_iter().map(|(id, ended)| told(shared, id, ended, now_ms)));
    for (id, token) in renewals {
        let keys = vec![shared.keys.trips(&id), shared.keys.probe(&id)];
        let args = vec![token.to_string(), PROBE_MS.to_string()];
        packed.push((Load::Renewal, Call { script: &shared.scripts.probe, keys, args }));
    }
    // No call may span two masters of a cluster.
    let call_members = if shared.home.is_sharded() { 1 } else { CALL_MEMBERS_MAX };
    for members in changes.chunks(call_members) {
        let (keys, args) = members.iter().flat_map(|change| increments(shared, change)).unzip();
        let call = Call { script: &shared.scripts.settle, keys, args };
        if !call.keys.is_empty() {
            packed.push((Load::Changes(members.to_vec()), call));
        }
    }
    for deployments in samples.chunks(call_members) {
        packed.push((Load::Samples(deployments.to_vec()), appends(shared, deployments)));
    }
    packed
}

/// Tells of a try or a call that ended.
fn told(shared: &Shared, id: Arc<str>, ended: Ended, now_ms: u64) -> (Load, Call<'_>) {
    let keys = vec![shared.keys.cooldown(&id), shared.keys.trips(&id), shared.keys.probe(&id)];
    let token = ended.token.as_deref().unwrap_or_default().to_owned();
    let success = match ended.success_began_ms {
        None => "0",
        Some(_) if ended.passed => "2",
        Some(_) => "1",
    };
    let age_ms = now_ms.saturating_sub(ended.success_began_ms.unwrap_or(now_ms));
    let args = vec![token, success.to_owned(), age_ms.to_string(), PROBATION_OUTLIVES_MS.to_string()];
    (Load::Ended(id, ended), Call { script: &shared.scripts.probe_done, keys, args })
}

fn appends<'a>(shared: &'a Shared, deployments: &[(Arc<str>, UnsentOfOne)]) -> Call<'a> {
    let (mut keys, mut args) = (Vec::new(), Vec::new());
    for (id, unsent) in deployments {
        if !unsent.latency.is_empty() {
            keys.push(shared.keys.latency(id));
            args.extend([Latency::KEPT.to_string(), samples::write(&unsent.latency)]);
        }
        if !unsent.sizes.is_empty() {
            keys.push(shared.keys.sizes(id));
            args.extend([Sizes::KEPT.to_string(), samples::write(&unsent.sizes)]);
        }
    }
    Call { script: &shared.scripts.append, keys, args }
}

fn increments(shared: &Shared, ((minute, member), unsent): &(Window, Unsent)) -> Vec<(String, String)> {
    let Delta { rpm, tpm, calls, fails } = unsent.sum();
    Counter::ALL
        .into_iter()
        .zip([rpm, tpm, calls, fails])
        .filter(|&(_, change)| change != 0)
        .map(|(counter, change)| (shared.keys.counter(counter, member, *minute), change.to_string()))
        .collect()
}

/// The server answered this call. One that it refused has not run, so all of it is still to be written. Of a cluster
/// one master may have answered and another not.
fn acknowledge(shared: &Shared, load: Load, answer: RedisResult<Value>) -> RedisResult<()> {
    match answer {
        Ok(_) => {
            if let Load::Cooldown { id, until_ms } = load {
                shared.local().cooldown_written(&id, until_ms);
            }
            Ok(())
        }
        Err(error) => {
            put_back(shared, load, !error.is_io_error() || error.is_connection_refusal());
            Err(error)
        }
    }
}

/// Keeps what may be asked for again: all of it if it surely has not run; else what increases, and once only,
/// for a counter may be too high but never too low. Cooldowns were never taken out.
fn put_back(shared: &Shared, load: Load, ran_nothing: bool) {
    match load {
        Load::Changes(changes) => {
            let mut local = shared.local();
            for (window, unsent) in changes {
                let kept = if ran_nothing {
                    unsent
                } else {
                    Unsent { fresh: Delta::default(), again: unsent.fresh.increases() }
                };
                local.put_back(window, kept);
            }
        }
        Load::Ended(id, ended) => shared.local().probes().put_back(&id, ended),
        Load::Samples(samples) if ran_nothing => {
            let mut local = shared.local();
            samples.into_iter().for_each(|(id, unsent)| local.samples.put_back(id, unsent));
        }
        // A sample more or less is of no matter, so one whose fate is unknown is not asked for again.
        Load::Samples(_) | Load::Cooldown { .. } | Load::Renewal => {}
    }
}
