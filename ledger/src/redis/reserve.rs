//! Reservations: three candidates of the ranking a call, in one round trip. Where Redis gives no answer in
//! time, the outage policy decides.
use super::Shared;
use super::awaited::permit;
use super::connect::{Lines, missed};
use super::keys::Counter;
use super::local::Local;
use super::outage::Line;
use super::policy;
use super::probes::PROBE_MS;
use crate::book::PROBING_WAIT_MS;
use crate::clock::Minute;
use crate::ledger::{Denial, Hold, Passed, Probe, Reserve, Reserved, Want};
use redis::{Cmd, ErrorKind, RedisError, RedisResult};
use tokio::time::timeout_at;

/// Candidates a call: most requests get the first, and reading ten costs Redis four times as much.
const CALL_WANTS_MAX: usize = 3;
const KEYS_PER_WANT: usize = 5;
/// How often a call is repeated with the server's minute. Twice disagreeing means that its clock jumps.
const TURNS_MAX: usize = 2;

/// A place among the wants, and the want.
pub(super) type Placed<'a> = (usize, &'a Want);

/// What one call found.
enum Answer {
    Granted {
        index: usize,
        hold: Hold,
        rpm: u64,
        tpm: u64,
        passed: Vec<Passed>,
    },
    Refused {
        passed: Vec<Passed>,
    },
    /// The minute has turned by the server's clock, which now shows so many milliseconds.
    Turned {
        now_ms: u64,
    },
}

/// Takes one slot at the first want that has room.
pub(super) async fn reserve(shared: &Shared, reserve: Reserve) -> Reserved {
    let (mut passed, open) = sort_out(shared, &reserve);
    let permit = permit(shared).await;
    let deadline = shared.clock.instant() + shared.deadline;
    let (mut asked, mut is_alone) = (0, false);
    if let (Some(_permit), Some(lines)) = (permit, shared.lines()) {
        // No call may span two masters of a cluster.
        let call_wants = if shared.home.is_sharded() { 1 } else { CALL_WANTS_MAX };
        for wants in open.chunks(call_wants) {
            let call = ask(shared, &lines, wants, reserve.ignore_cooldown);
            match timeout_at(deadline, call).await.unwrap_or_else(|_| Err(missed())) {
                Ok(Answer::Granted { index, hold, rpm, tpm, passed: refused }) => {
                    shared.breaker.answered(Line::Reserve);
                    let mut local = shared.local();
                    local.granted(&hold, shared.now_ms());
                    let ours = local.written(hold.minute, &hold.member);
                    local.saw(hold.minute, &hold.member, (Some(rpm), Some(tpm)), ours);
                    see_refused(shared, &mut local, &reserve, &refused);
                    drop(local);
                    return granted(index, hold, rpm, tpm, passed, refused);
                }
                Ok(Answer::Refused { passed: refused }) => {
                    see_refused(shared, &mut shared.local(), &reserve, &refused);
                    passed.extend(refused);
                }
                // Two different minutes running: only the share is certain then.
                Ok(Answer::Turned { .. }) => break,
                Err(error) => {
                    shared.breaker.doubt(Line::Reserve, &error);
                    if !shared.home.is_sharded() || shared.clock.instant() >= deadline {
                        break;
                    }
                    // Only this one's master is away; the next may have one that answers.
                    is_alone = true;
                    match alone(shared, wants, reserve.ignore_cooldown, passed) {
                        Reserved::Refused { passed: refused } => passed = refused,
                        granted => {
                            shared.breaker.counts.by_policy.up();
                            return granted;
                        }
                    }
                }
            }
            asked += wants.len();
        }
    }
    if asked < open.len() || is_alone {
        shared.breaker.counts.by_policy.up();
    }
    if asked == open.len() {
        passed.sort_unstable_by_key(|&(index, _)| index);
        return Reserved::Refused { passed };
    }
    alone(shared, &open[asked..], reserve.ignore_cooldown, passed)
}

/// A refusal tells what the fleet has used; the share must know it if Redis goes away.
fn see_refused(shared: &Shared, local: &mut Local, reserve: &Reserve, refused: &[Passed]) {
    let minute = Minute::of(shared.now_ms());
    for &(index, denial) in refused {
        let counts = match denial {
            Denial::Rpm { used, .. } => (Some(used), None),
            Denial::Tpm { used, .. } => (None, Some(used)),
            Denial::Cooling { .. } | Denial::Probing { .. } | Denial::Share { .. } | Denial::Away { .. } => {
                continue;
            }
        };
        let Some(want) = reserve.wants.get(index) else { continue };
        let ours = local.written(minute, &want.member);
        local.saw(minute, &want.member, counts, ours);
    }
}

/// Sets aside what cools down by a cooldown that Redis has not got yet, and what this replica itself is trying.
fn sort_out<'a>(shared: &Shared, reserve: &'a Reserve) -> (Vec<Passed>, Vec<Placed<'a>>) {
    let now_ms = shared.now_ms();
    let local = shared.local();
    let (mut passed, mut open) = (Vec::new(), Vec::with_capacity(reserve.wants.len()));
    for (index, want) in reserve.wants.iter().enumerate() {
        match local.unsent_cooling(&want.member.id, now_ms) {
            Some(cooling) if !reserve.ignore_cooldown => {
                passed.push((index, Denial::Cooling { wait_ms: cooling.until_ms - now_ms }));
            }
            Some(_) | None if !reserve.ignore_cooldown && local.is_trying(&want.member.id, now_ms) => {
                passed.push((index, Denial::Probing { wait_ms: PROBING_WAIT_MS }));
            }
            Some(_) | None => open.push((index, want)),
        }
    }
    (passed, open)
}

/// One call, repeated where that is right: with the server's minute if ours has passed, and once if the
/// connection broke, for then it is unknown whether it ran and a counter may be too high but never too low.
async fn ask(
    shared: &Shared,
    lines: &Lines,
    wants: &[Placed<'_>],
    ignore_cooldown: bool,
) -> RedisResult<Answer> {
    let mut now_ms = shared.now_ms();
    let mut may_repeat = true;
    let mut turns = 0;
    loop {
        match call(shared, lines, wants, ignore_cooldown, now_ms).await {
            Ok(Answer::Turned { now_ms: server_ms }) if turns < TURNS_MAX => {
                now_ms = server_ms;
                turns += 1;
            }
            Err(error) if may_repeat && error.is_unrecoverable_error() => {
                may_repeat = false;
                // The master of a cluster that failed once is out until it was checked, so the second answer hides
                // why.
                if shared.home.is_sharded() {
                    shared.breaker.doubt(Line::Reserve, &error);
                }
            }
            answer => return answer,
        }
    }
}

async fn call(
    shared: &Shared,
    lines: &Lines,
    wants: &[Placed<'_>],
    ignore_cooldown: bool,
    now_ms: u64,
) -> RedisResult<Answer> {
    let minute = Minute::of(now_ms);
    let token = shared.next_token();
    let fill = |call: &mut Cmd| {
        for (_, Want { member, .. }) in wants {
            call.arg(shared.keys.counter(Counter::Rpm, member, minute))
                .arg(shared.keys.counter(Counter::Tpm, member, minute))
                .arg(shared.keys.cooldown(&member.id))
                .arg(shared.keys.trips(&member.id))
                .arg(shared.keys.probe(&member.id));
        }
        call.arg(i64::from(ignore_cooldown));
        if shared.trusts_clock {
            call.arg(-1)
        } else {
            call.arg(minute.index())
        };
        call.arg(&token).arg(PROBE_MS);
        for (_, want) in wants {
            call.arg(limit(want.rpm_limit)).arg(limit(want.tpm_bound())).arg(want.tpm_hold);
        }
    };
    let mut line = lines.reserve.clone();
    let answer: Vec<i64> = shared.scripts.reserve.call(&mut line, wants.len() * KEYS_PER_WANT, fill).await?;
    read(&answer, wants, now_ms, &token).ok_or_else(|| {
        RedisError::from((ErrorKind::UnexpectedReturnType, "the reserve script answered nonsense"))
    })
}

/// A limit as the script takes it; -1 is none, and what no counter can reach is none too.
fn limit(limit: Option<u64>) -> i64 {
    limit.and_then(|limit| i64::try_from(limit).ok()).unwrap_or(-1)
}

fn read(answer: &[i64], wants: &[Placed<'_>], now_ms: u64, token: &str) -> Option<Answer> {
    if let [-1, now_ms] = *answer {
        return Some(Answer::Turned { now_ms: u64::try_from(now_ms).ok()? });
    }
    let (&[chosen, rpm, tpm, trips], refused) = answer.split_first_chunk::<4>()?;
    let minute = Minute::of(now_ms);
    let wait_ms = minute.left_ms(now_ms);
    let mut passed = Vec::with_capacity(refused.len() / 2);
    for (&(index, want), pair) in wants.iter().zip(refused.chunks_exact(2)) {
        let &[kind, number] = pair else { return None };
        let used = u64::try_from(number).unwrap_or(0);
        let denial = match kind {
            1 => Denial::Cooling { wait_ms: used },
            2 => Denial::Rpm { used, limit: want.rpm_limit?, wait_ms },
            3 => Denial::Tpm { used, limit: want.tpm_limit?, wait_ms },
            4 => Denial::Probing { wait_ms: PROBING_WAIT_MS },
            _ => return None,
        };
        passed.push((index, denial));
    }
    if chosen == 0 {
        return Some(Answer::Refused { passed });
    }
    let &(index, want) = wants.get(usize::try_from(chosen - 1).ok()?)?;
    let trips = u64::try_from(trips).unwrap_or(0);
    let probe = (trips > 0).then(|| Probe { token: token.into(), trips });
    let (member, tpm_hold) = (want.member.clone(), want.tpm_hold);
    let hold = Hold { member, minute, began_ms: now_ms, rpm: 1, tpm: tpm_hold, probe };
    let (rpm, tpm) = (u64::try_from(rpm).unwrap_or(0), u64::try_from(tpm).unwrap_or(0));
    Some(Answer::Granted { index, hold, rpm, tpm, passed })
}

/// Those that Redis was not heard on, by the outage policy: denied, or by what this replica knows alone.
fn alone(shared: &Shared, open: &[Placed<'_>], ignore_cooldown: bool, mut passed: Vec<Passed>) -> Reserved {
    let (denied, left) = policy::sort(shared.on_outage, open);
    passed.extend(denied);
    let (places, wants): (Vec<usize>, Vec<Want>) = left.into_iter().unzip();
    let reserve = Reserve { wants, ignore_cooldown };
    let reserved = shared.local().reserve_share(reserve, shared.breaker.replicas(), shared.now_ms());
    let placed =
        |refused: Vec<Passed>| refused.into_iter().map(|(at, denial)| (places[at], denial)).collect();
    match reserved {
        Reserved::Granted { index, hold, rpm, tpm, passed: refused } => {
            granted(places[index], hold, rpm, tpm, passed, placed(refused))
        }
        Reserved::Refused { passed: refused } => {
            passed.extend(placed(refused));
            passed.sort_unstable_by_key(|&(index, _)| index);
            Reserved::Refused { passed }
        }
    }
}

/// The answer for the want at `index`; only those before it in the order were passed over.
fn granted(
    index: usize,
    hold: Hold,
    rpm: u64,
    tpm: u64,
    mut passed: Vec<Passed>,
    refused: Vec<Passed>,
) -> Reserved {
    passed.extend(refused);
    passed.retain(|&(at, _)| at < index);
    passed.sort_unstable_by_key(|&(at, _)| at);
    Reserved::Granted { index, hold, rpm, tpm, passed }
}
