//! Spending, shared: a hold is one awaited call; its renewals and its end are written behind. Where Redis gives no
//! answer in time, what this replica last saw and did decides.
mod calls;
mod unsent;

use super::Shared;
use super::awaited::awaited;
use super::connect::{Lines, within};
use super::outage::{Line, refuses_everything};
use super::scripts::{Call, send_all};
use crate::budget::{
    Account, AddSpend, Claim, HeldSpend, HoldSpend, RenewSpend, SpendHold, SpendRefusal, Spending,
};
use crate::ledger::OnOutage;
use crate::money::MicroDollars;
use calls::{Terms, calls, kept, read, stands, taking};
use redis::{Cmd, ErrorKind, FromRedisValue, RedisError, RedisResult, Value};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use unsent::{Change, Unsent, What};

/// Changes in one write. Bounds the time that one flush holds the line.
const WRITE_CHANGES_MAX: usize = 200;

/// What this replica has told of spending, and whether scopes may share a call.
#[derive(Debug, Default)]
pub(super) struct Spends {
    unsent: Mutex<Unsent>,
    /// Held by the one that writes.
    writing: tokio::sync::Mutex<()>,
    /// Scopes lie on different servers (Redis Cluster), so each is asked by a call of its own.
    apart: AtomicBool,
}

impl Spends {
    /// `apart`: scopes lie on different servers, or may.
    pub(super) fn new(apart: bool) -> Self {
        Self { apart: AtomicBool::new(apart), ..Self::default() }
    }

    #[cfg(feature = "scenario")]
    pub(super) fn set_apart(&self) {
        self.apart.store(true, Ordering::Relaxed);
    }

    fn unsent(&self) -> MutexGuard<'_, Unsent> {
        self.unsent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The one place that decides which claims share a call.
    fn parts<'a>(&self, claims: &'a [Claim]) -> Vec<&'a [Claim]> {
        if claims.is_empty() {
            return Vec::new();
        }
        if self.apart.load(Ordering::Relaxed) { claims.chunks(1).collect() } else { vec![claims] }
    }
}

/// Holds on all accounts or on none.
pub(super) async fn hold(shared: &Shared, ask: HoldSpend) -> HeldSpend {
    let now_ms = shared.now_ms();
    let hold = SpendHold::of(&ask, now_ms);
    if shared.breaker.is_away() {
        return by_outage(shared, &ask, hold, now_ms);
    }
    let mut asking = Asking { shared, hold: Some(hold.clone()) };
    let mut spendings = Vec::with_capacity(hold.claims.len());
    let terms = Terms { lease_ms: ask.lease_ms, sent: false, fit: ask.fit, checks: true };
    for part in shared.spends.parts(&hold.claims) {
        let kept: Vec<&Claim> = kept(part, now_ms).map(|(claim, _)| claim).collect();
        let found = match taking(shared, &hold, part, &terms, now_ms) {
            Some(call) => awaited::<Vec<i64>>(shared, &call).await.as_deref().and_then(read),
            None => Some((0, Vec::new())),
        };
        let Some((refused, found)) = found else {
            let answer = by_outage(shared, &ask, hold, now_ms);
            if matches!(answer, HeldSpend::Granted { .. }) {
                asking.hold = None;
            }
            return answer;
        };
        shared.spends.unsent().saw(kept.iter().map(|claim| &claim.account).zip(&found), now_ms);
        if let Some(at) = refused.checked_sub(1) {
            let before: Vec<Claim> = hold.claims.iter().take(spendings.len()).cloned().collect();
            asking.hold = (!before.is_empty()).then(|| SpendHold { claims: before.into(), ..hold });
            return refusal(&kept, &found, at);
        }
        let mut found = found.into_iter();
        let stands = |claim: &Claim| claim.account.kept_ms(now_ms).and_then(|_| found.next());
        spendings.extend(part.iter().map(stands).map(Option::unwrap_or_default));
    }
    asking.hold = None;
    HeldSpend::Granted { hold, spendings }
}

/// Calls under way. What they hold is given back if nobody waits for them to the end, or not all of them hold.
struct Asking<'a> {
    shared: &'a Shared,
    hold: Option<SpendHold>,
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        if let Some(hold) = self.hold.take() {
            void(self.shared, &hold);
        }
    }
}

fn refusal(kept: &[&Claim], found: &[Spending], at: usize) -> HeldSpend {
    match (kept.get(at), found.get(at)) {
        (Some(claim), Some(&Spending { spent, held, .. })) => HeldSpend::Refused(SpendRefusal {
            account: claim.account.clone(),
            spent,
            held,
            limit: claim.limit.unwrap_or_default(),
        }),
        // The script names an account that it was asked for.
        _ => HeldSpend::Away,
    }
}

/// Decides without Redis.
fn by_outage(shared: &Shared, ask: &HoldSpend, hold: SpendHold, now_ms: u64) -> HeldSpend {
    let mut unsent = shared.spends.unsent();
    match ask.on_outage {
        OnOutage::Deny => return HeldSpend::Away,
        OnOutage::Local => {
            let refusal = unsent.refusal(&hold, ask.fit, now_ms);
            if let Some(refusal) = refusal {
                return HeldSpend::Refused(refusal);
            }
        }
        OnOutage::Allow => {}
    }
    unsent.take(&hold, now_ms.saturating_add(ask.lease_ms));
    let spendings = hold.claims.iter().map(|claim| unsent.spending(&claim.account)).collect();
    HeldSpend::Granted { hold, spendings }
}

/// Extends a lease.
pub(super) fn renew(shared: &Shared, renew: RenewSpend) {
    let RenewSpend { hold, lease_ms, sent } = renew;
    shared.spends.unsent().renew(&hold, shared.now_ms().saturating_add(lease_ms), sent);
    if sent {
        // Until Redis knows, the death of this replica would give the money back.
        shared.flush_now.notify_one();
    }
}

/// Ends a hold at a cost.
pub(super) fn settle(shared: &Shared, hold: &SpendHold, cost: MicroDollars) {
    shared.spends.unsent().end(hold, cost);
    if hold.claims.iter().any(|claim| claim.amount < cost) {
        // More was spent than anybody sees held: until it is written, others are admitted by too little.
        shared.flush_now.notify_one();
    }
}

/// Ends a hold at nothing.
pub(super) fn void(shared: &Shared, hold: &SpendHold) {
    shared.spends.unsent().end(hold, MicroDollars::ZERO);
    // Nobody should be refused for it a moment longer than needed.
    shared.flush_now.notify_one();
}

/// Counts what nothing was held for.
pub(super) fn add(shared: &Shared, add: AddSpend) {
    let cost = add.cost;
    settle(shared, &add.into_hold(), cost);
}

/// What accounts stand at; where Redis does not tell, as far as this replica knows.
pub(super) async fn spendings(shared: &Shared, accounts: &[Account]) -> Vec<Spending> {
    let lines = shared.lines().filter(|_| !shared.breaker.is_away() && !accounts.is_empty());
    let told = match lines {
        Some(lines) => ask(shared, lines, accounts).await,
        None => Vec::new(),
    };
    let mut unsent = shared.spends.unsent();
    let found = accounts.iter().zip(&told).filter_map(|(account, told)| Some((account, told.as_ref()?)));
    let (known, figures): (Vec<&Account>, Vec<Spending>) =
        found.map(|(account, told)| (account, *told)).unzip();
    unsent.saw(known.into_iter().zip(&figures), shared.now_ms());
    let told = told.into_iter().chain(std::iter::repeat(None));
    accounts
        .iter()
        .zip(told)
        .map(|(account, told)| told.unwrap_or_else(|| unsent.spending(account)))
        .collect()
}

/// What Redis tells of each account; `None` where it does not.
async fn ask(shared: &Shared, mut lines: Lines, accounts: &[Account]) -> Vec<Option<Spending>> {
    let get = |key: String| {
        let mut get = redis::cmd("GET");
        get.arg(key);
        get
    };
    let reads: Vec<Cmd> = accounts
        .iter()
        .map(|account| shared.keys.account(account))
        .flat_map(|keys| [keys.spent, keys.held, keys.estimated].map(get))
        .collect();
    // A line that broke since it was last used is new when it is asked again.
    let asked = async {
        match lines.rest.send_each(reads.clone()).await {
            Err(error) if error.is_unrecoverable_error() => lines.rest.send_each(reads).await,
            answer => answer,
        }
    };
    let mut refused = None;
    let answers = within(shared.deadline, asked).await.unwrap_or_else(|error| {
        refused = Some(error);
        Vec::new()
    });
    let (answers, _) = answers.as_chunks::<3>();
    let figure = |answer: &RedisResult<Value>| -> RedisResult<i64> {
        Ok(Option::<i64>::from_redis_value(answer.clone()?)?.unwrap_or_default())
    };
    let mut told = Vec::with_capacity(accounts.len());
    for answers in answers {
        match answers.iter().map(figure).collect::<RedisResult<Vec<i64>>>() {
            Ok(figures) => told.push(stands(&figures).pop()),
            Err(error) => {
                told.push(None);
                refused = Some(error);
            }
        }
    }
    match refused {
        Some(error) => shared.breaker.doubt(Line::Rest, &error),
        None => shared.breaker.answered(Line::Rest),
    }
    told
}

pub(super) fn has_unsent(shared: &Shared) -> bool {
    shared.spends.unsent().has_changes()
}

/// Writes what is unsent. Every change bears its id, so one whose outcome is unknown is asked for again until it is
/// answered: it counts once while Redis remembers the id (10 min after it ran), and is never missing.
pub(super) async fn flush(shared: &Shared, lines: &Lines) {
    let _alone = shared.spends.writing.lock().await;
    let now_ms = shared.now_ms();
    let changes = shared.spends.unsent().changes(now_ms);
    for changes in changes.chunks(WRITE_CHANGES_MAX) {
        let (owners, calls): (Vec<usize>, Vec<Call<'_>>) = changes
            .iter()
            .enumerate()
            .flat_map(|(at, change)| calls(shared, change, now_ms).into_iter().map(move |call| (at, call)))
            .unzip();
        match within(shared.deadline, send_all(&mut lines.rest.clone(), &calls)).await {
            Ok(answers) => acknowledge(shared, changes, owners.into_iter().zip(answers), now_ms),
            Err(error) => {
                shared.breaker.doubt(Line::Rest, &error);
                return;
            }
        }
    }
}

/// Forgets the changes that were written. A server that refuses everything has written none and is asked again; a
/// call that it refuses for itself (a key of a wrong type) would be refused for ever.
fn acknowledge(
    shared: &Shared,
    changes: &[Change],
    answers: impl Iterator<Item = (usize, RedisResult<Value>)>,
    now_ms: u64,
) {
    let mut open = vec![false; changes.len()];
    let mut refused = None;
    let mut unsent = shared.spends.unsent();
    for (owner, answer) in answers {
        let Some(change) = changes.get(owner) else { continue };
        match answer {
            Ok(answer) => see(&mut unsent, change, answer, now_ms),
            Err(error) => {
                if is_about_this_call(&error) {
                    tracing::warn!(error = error.category(), "redis cannot count the money of one call");
                } else {
                    open[owner] = true;
                    refused = Some(error);
                }
            }
        }
    }
    for (change, open) in changes.iter().zip(open) {
        if !open {
            unsent.told(change);
        }
    }
    drop(unsent);
    match refused {
        Some(error) => shared.breaker.doubt(Line::Rest, &error),
        None => shared.breaker.answered(Line::Rest),
    }
}

/// Whether the same call would be refused for ever, and not for what the server is up to now: a part of a cluster is
/// away, or a slot moves.
fn is_about_this_call(error: &RedisError) -> bool {
    let passes = matches!(error.kind(), ErrorKind::Io | ErrorKind::Client)
        || error.is_unrecoverable_error()
        || error.is_cluster_error()
        || error.code().is_some_and(refuses_everything);
    !passes
}

/// A call that took or ended a hold tells what its accounts stand at.
fn see(unsent: &mut Unsent, change: &Change, answer: Value, now_ms: u64) {
    if matches!(change.what, What::Renew { .. }) {
        return;
    }
    let figures = Vec::<i64>::from_redis_value(answer).unwrap_or_default();
    // Of scopes that were asked apart each answer tells a part only.
    if let Some((_, found)) = read(&figures).filter(|(_, found)| found.len() == change.hold.claims().len()) {
        unsent.saw(change.hold.claims().iter().map(|claim| &claim.account).zip(&found), now_ms);
    }
}
