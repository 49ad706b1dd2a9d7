//! Slots, shared: taking one is an awaited call; freeing is written behind, and twice a second all that this replica
//! holds are renewed. While Redis is away each replica has an equal share of the slots.
use super::Shared;
use super::awaited::awaited;
use super::connect::{Lines, Link, within};
use super::outage::Line;
use super::scripts::{Call, send_all};
use super::share::{Seen, share};
use crate::book::slots::Slots as Held;
use crate::budget::Scope;
use crate::ledger::OnOutage;
use crate::slots::{Slot, TakeSlot, TakenSlot};
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A lease that its replica does not renew ends after so long.
const LEASE_MS: u64 = 10_000;
const RENEWAL_PERIOD_MS: u64 = 500;
/// Leases a call. Bounds the time that one script holds the server.
const CALL_LEASES_MAX: usize = 100;
/// Freed slots that wait to be told. Beyond that their leases end by themselves.
const FREED_MAX: usize = 10_000;

/// The slots that this replica holds, and those it has freed.
#[derive(Debug, Default)]
pub(super) struct Slots {
    ours: Mutex<Ours>,
    /// Held by the one that writes.
    writing: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct Ours {
    held: Held,
    /// Slots there are, as the last call said.
    max: HashMap<Scope, u64>,
    freed: HashSet<Slot>,
    renewed_at_ms: u64,
}

impl Slots {
    fn ours(&self) -> MutexGuard<'_, Ours> {
        self.ours.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is told of one scope in one call.
struct Telling {
    scope: Scope,
    max: u64,
    freed: Vec<Arc<str>>,
    renewed: Vec<Arc<str>>,
}

impl Ours {
    /// Notes a slot that was granted, by whomever.
    fn hold(&mut self, ask: &TakeSlot) {
        self.held.take(&TakeSlot { max: u64::MAX, ..ask.clone() });
        self.max.insert(ask.scope.clone(), ask.max);
    }

    fn free(&mut self, slot: &Slot) {
        if self.held.free(slot) {
            self.give_up(slot);
        }
        if self.held.used(&slot.scope) == 0 {
            self.max.remove(&slot.scope);
        }
    }

    /// Redis may have this lease and must not keep it.
    fn give_up(&mut self, slot: &Slot) {
        if self.freed.len() < FREED_MAX {
            self.freed.insert(slot.clone());
        }
    }

    /// What is to be told now: the freed ones always, the held ones when their time has come. What is freed goes
    /// first, for it may make room for a renewal.
    fn tellings(&mut self, now_ms: u64) -> Vec<Telling> {
        let mut freed: HashMap<&Scope, Vec<Arc<str>>> = HashMap::new();
        for Slot { scope, lease } in &self.freed {
            freed.entry(scope).or_default().push(Arc::clone(lease));
        }
        let mut tellings = Vec::new();
        for (scope, leases) in freed {
            for freed in leases.chunks(CALL_LEASES_MAX) {
                let (scope, freed) = (scope.clone(), freed.to_vec());
                tellings.push(Telling { scope, max: 0, freed, renewed: Vec::new() });
            }
        }
        if now_ms.abs_diff(self.renewed_at_ms) >= RENEWAL_PERIOD_MS {
            self.renewed_at_ms = now_ms;
            for (scope, leases) in self.held.all() {
                let (leases, max) =
                    (leases.iter().cloned().collect::<Vec<_>>(), self.max.get(scope).copied());
                for renewed in leases.chunks(CALL_LEASES_MAX) {
                    let (max, renewed) = (max.unwrap_or(0), renewed.to_vec());
                    tellings.push(Telling { scope: scope.clone(), max, renewed, freed: Vec::new() });
                }
            }
        }
        tellings
    }

    fn told(&mut self, telling: &Telling) {
        for lease in &telling.freed {
            self.freed.remove(&Slot { scope: telling.scope.clone(), lease: Arc::clone(lease) });
        }
    }
}

/// A call under way. Nobody knows of its slot if nobody waits for it to the end.
struct Asking<'a> {
    shared: &'a Shared,
    slot: Option<Slot>,
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        if let Some(slot) = self.slot.take() {
            self.shared.slots.ours().give_up(&slot);
            self.shared.flush_now.notify_one();
        }
    }
}

/// Takes a slot.
pub(super) async fn take(shared: &Shared, ask: TakeSlot) -> TakenSlot {
    if shared.breaker.is_away() {
        return by_outage(shared, &ask);
    }
    let call = Call {
        script: &shared.scripts.slots_take,
        keys: vec![shared.keys.slots(&ask.scope)],
        args: vec![
            shared.script_now(shared.now_ms()),
            ask.lease.to_string(),
            i64::try_from(ask.max).unwrap_or(i64::MAX).to_string(),
            LEASE_MS.to_string(),
        ],
    };
    let slot = Slot { scope: ask.scope.clone(), lease: Arc::clone(&ask.lease) };
    let mut asking = Asking { shared, slot: Some(slot.clone()) };
    let taken = match awaited::<(u8, u64)>(shared, &call).await {
        Some((1, used)) => {
            shared.slots.ours().hold(&ask);
            TakenSlot::Granted { slot, used }
        }
        Some((_, used)) => {
            asking.slot = None;
            TakenSlot::Refused { used, max: ask.max }
        }
        None => by_outage(shared, &ask),
    };
    if matches!(taken, TakenSlot::Granted { .. }) {
        asking.slot = None;
    }
    taken
}

/// Decides without Redis: an equal share of the slots, at least one, less those that this replica holds.
fn by_outage(shared: &Shared, ask: &TakeSlot) -> TakenSlot {
    let mut ours = shared.slots.ours();
    let max = match ask.on_outage {
        OnOutage::Deny => return TakenSlot::Away,
        OnOutage::Local => share(ask.max, shared.breaker.replicas(), Seen::default()),
        OnOutage::Allow => u64::MAX,
    };
    let taken = ours.held.take(&TakeSlot { max, ..ask.clone() });
    if matches!(taken, TakenSlot::Granted { .. }) {
        ours.hold(ask);
    }
    taken
}

/// Frees a slot.
pub(super) fn free(shared: &Shared, slot: &Slot) {
    shared.slots.ours().free(slot);
    // Nobody should be refused for it a moment longer than needed.
    shared.flush_now.notify_one();
}

pub(super) fn has_unsent(shared: &Shared) -> bool {
    !shared.slots.ours().freed.is_empty()
}

/// Tells what was freed, then renews what is held if its time has come; one after the other, so that nothing is renewed
/// after it was freed. What was freed takes the line that slots are taken by: so it comes after the call of one who did
/// not wait for the answer.
pub(super) async fn flush(shared: &Shared, lines: &Lines) {
    let _alone = shared.slots.writing.lock().await;
    let now_ms = shared.now_ms();
    let (freed, renewed): (Vec<Telling>, Vec<Telling>) =
        shared.slots.ours().tellings(now_ms).into_iter().partition(|telling| telling.renewed.is_empty());
    let is_told = tell(shared, (Line::Reserve, lines.reserve.clone()), &freed, now_ms).await
        && tell(shared, (Line::Rest, lines.rest.clone()), &renewed, now_ms).await;
    if !is_told {
        shared.slots.ours().renewed_at_ms = 0;
    }
}

/// False if it is unknown what was told.
async fn tell(shared: &Shared, (name, mut line): (Line, Link), tellings: &[Telling], now_ms: u64) -> bool {
    let calls: Vec<Call<'_>> = tellings.iter().map(|telling| call(shared, telling, now_ms)).collect();
    if calls.is_empty() {
        return true;
    }
    match within(shared.deadline, send_all(&mut line, &calls)).await {
        Ok(answers) => {
            let mut ours = shared.slots.ours();
            for (telling, answer) in tellings.iter().zip(answers) {
                match answer {
                    Ok(_) => ours.told(telling),
                    Err(error) => shared.breaker.doubt(name, &error),
                }
            }
            true
        }
        Err(error) => {
            shared.breaker.doubt(name, &error);
            false
        }
    }
}

fn call<'a>(shared: &'a Shared, telling: &Telling, now_ms: u64) -> Call<'a> {
    let mut args = vec![
        shared.script_now(now_ms),
        i64::try_from(telling.max).unwrap_or(i64::MAX).to_string(),
        LEASE_MS.to_string(),
        telling.freed.len().to_string(),
    ];
    args.extend(telling.freed.iter().chain(&telling.renewed).map(ToString::to_string));
    Call { script: &shared.scripts.slots_keep, keys: vec![shared.keys.slots(&telling.scope)], args }
}
