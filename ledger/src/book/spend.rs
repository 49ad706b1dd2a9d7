//! The rules of spending as a pure state machine: what is spent and held on each account, and that every hold ends
//! exactly once.
use crate::budget::{
    Account, Claim, Fit, HeldSpend, HoldSpend, RenewSpend, SpendHold, SpendId, SpendRefusal, Spending,
};
use crate::clock::Minute;
use crate::money::MicroDollars;
use std::collections::{BTreeSet, HashMap, HashSet};

/// Holds that a call ends on each account because their lease ran out. Bounds what one call has to do.
pub(crate) const REAPED_MAX: usize = 10;
/// An estimate is remembered for so long, to be replaced should its call be settled after all.
pub(crate) const ESTIMATE_KEPT_MS: u64 = 3_600_000;
/// An end is remembered for so long after it was told, so that telling it again changes nothing.
pub(crate) const ENDED_KEPT_MS: u64 = 600_000;

/// Whether an account that stands like this refuses a claim.
pub(crate) fn refuses(
    claim: &Claim,
    fit: Fit,
    Spending { spent, held, .. }: Spending,
) -> Option<SpendRefusal> {
    let limit = claim.limit?;
    let admits = match fit {
        Fit::Below => spent + held < limit,
        Fit::Whole => spent + held + claim.amount <= limit,
    };
    (!admits).then(|| SpendRefusal { account: claim.account.clone(), spent, held, limit })
}

/// How far a hold has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Its call has not gone out: given back when the lease runs out.
    Unsent,
    /// Its call has gone out: charged when the lease runs out.
    Sent,
    /// Charged at its amount. No longer a hold; kept until nobody is expected to settle it any more.
    Estimated,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    amount: MicroDollars,
    stage: Stage,
    /// The lease's end; of an estimate, when it is forgotten.
    due_ms: u64,
}

/// One account.
#[derive(Debug, Default)]
struct Purse {
    spending: Spending,
    entries: HashMap<SpendId, Entry>,
    due: BTreeSet<(u64, SpendId)>,
    kept_until_ms: u64,
}

impl Purse {
    fn insert(&mut self, id: &SpendId, entry: Entry) {
        self.remove(id);
        self.due.insert((entry.due_ms, id.clone()));
        self.entries.insert(id.clone(), entry);
    }

    fn remove(&mut self, id: &SpendId) -> Option<Entry> {
        let entry = self.entries.remove(id)?;
        self.due.remove(&(entry.due_ms, id.clone()));
        Some(entry)
    }

    /// Ends the oldest holds whose lease has run out, and forgets estimates whose time has passed.
    fn reap(&mut self, now_ms: u64) {
        let is_due = |(due_ms, _): &&(u64, SpendId)| *due_ms <= now_ms;
        let due: Vec<SpendId> =
            self.due.iter().take_while(is_due).take(REAPED_MAX).map(|(_, id)| id.clone()).collect();
        for id in due {
            let Some(Entry { amount, stage, .. }) = self.remove(&id) else { continue };
            match stage {
                Stage::Unsent => self.spending.held = self.spending.held.saturating_sub(amount),
                Stage::Sent => {
                    self.spending.held = self.spending.held.saturating_sub(amount);
                    self.spending.spent = self.spending.spent + amount;
                    self.spending.estimated = self.spending.estimated + amount;
                    let due_ms = now_ms.saturating_add(ESTIMATE_KEPT_MS);
                    self.insert(&id, Entry { amount, stage: Stage::Estimated, due_ms });
                }
                Stage::Estimated => {}
            }
        }
    }

    /// Ends a hold at this cost. Where there is none (it was given back, or never got here), the cost counts alone.
    fn end(&mut self, id: &SpendId, cost: MicroDollars) {
        let Spending { spent, held, estimated } = self.spending;
        self.spending = match self.remove(id) {
            Some(Entry { amount, stage: Stage::Estimated, .. }) => Spending {
                spent: spent.saturating_sub(amount) + cost,
                held,
                estimated: estimated.saturating_sub(amount),
            },
            Some(Entry { amount, .. }) => {
                Spending { spent: spent + cost, held: held.saturating_sub(amount), estimated }
            }
            None => Spending { spent: spent + cost, held, estimated },
        };
    }
}

/// The ends of holds that were taken in one minute.
#[derive(Debug, Default)]
struct Ended {
    ids: HashSet<SpendId>,
    until_ms: u64,
}

/// All accounts.
#[derive(Debug, Default)]
pub(crate) struct Spends {
    purses: HashMap<Account, Purse>,
    /// By the hold's first account and the minute it was taken in.
    ended: HashMap<(Account, Minute), Ended>,
    pruned_in: Option<Minute>,
}

impl Spends {
    /// Holds on all accounts or on none. Asked again with the same id, it holds no more.
    pub(crate) fn hold(&mut self, ask: &HoldSpend, now_ms: u64) -> HeldSpend {
        self.prune(now_ms);
        let hold = SpendHold::of(ask, now_ms);
        for (claim, _) in hold.kept(now_ms) {
            if let Some(purse) = self.purses.get_mut(&claim.account) {
                purse.reap(now_ms);
            }
        }
        if !self.has_ended(&hold, now_ms) {
            let is_new = |claim: &Claim| {
                self.purses.get(&claim.account).is_none_or(|purse| !purse.entries.contains_key(&ask.id))
            };
            let new: Vec<(&Claim, u64)> = hold.kept(now_ms).filter(|(claim, _)| is_new(claim)).collect();
            let refusal =
                new.iter().find_map(|(claim, _)| refuses(claim, ask.fit, self.spending(&claim.account)));
            if let Some(refusal) = refusal {
                return HeldSpend::Refused(refusal);
            }
            let due_ms = now_ms.saturating_add(ask.lease_ms);
            for (claim, kept_ms) in new {
                let purse = self.purse(&claim.account, now_ms, kept_ms);
                purse.spending.held = purse.spending.held + claim.amount;
                purse.insert(&ask.id, Entry { amount: claim.amount, stage: Stage::Unsent, due_ms });
            }
        }
        let spendings = hold.claims.iter().map(|claim| self.stands(&claim.account, now_ms)).collect();
        HeldSpend::Granted { hold, spendings }
    }

    /// Extends a lease.
    pub(crate) fn renew(&mut self, renew: &RenewSpend, now_ms: u64) {
        self.prune(now_ms);
        let id = &renew.hold.id;
        for claim in renew.hold.claims.iter() {
            let Some(purse) = self.purses.get_mut(&claim.account) else { continue };
            let Some(&entry) = purse.entries.get(id) else { continue };
            let Some(kept_ms) = claim.account.kept_ms(now_ms) else { continue };
            if entry.stage == Stage::Estimated {
                continue;
            }
            let stage = if renew.sent { Stage::Sent } else { entry.stage };
            let due_ms = entry.due_ms.max(now_ms.saturating_add(renew.lease_ms));
            purse.insert(id, Entry { stage, due_ms, ..entry });
            purse.kept_until_ms = purse.kept_until_ms.max(now_ms.saturating_add(kept_ms));
        }
    }

    /// Ends a hold, at what its call cost. An end that was told before changes nothing.
    pub(crate) fn end(&mut self, hold: &SpendHold, cost: MicroDollars, now_ms: u64) {
        self.prune(now_ms);
        if self.has_ended(hold, now_ms) || hold.kept(now_ms).next().is_none() {
            return;
        }
        for (claim, kept_ms) in hold.kept(now_ms) {
            self.purse(&claim.account, now_ms, kept_ms).end(&hold.id, cost);
        }
        if let Some(first) = hold.claims.first() {
            let ended = self.ended.entry((first.account.clone(), Minute::of(hold.taken_at_ms))).or_default();
            if ended.until_ms <= now_ms {
                ended.ids.clear();
            }
            ended.ids.insert(hold.id.clone());
            ended.until_ms = ended.until_ms.max(now_ms.saturating_add(ENDED_KEPT_MS));
        }
    }

    /// What an account stands at; nothing once its window is long gone.
    pub(crate) fn stands(&self, account: &Account, now_ms: u64) -> Spending {
        account.kept_ms(now_ms).map(|_| self.spending(account)).unwrap_or_default()
    }

    fn spending(&self, account: &Account) -> Spending {
        self.purses.get(account).map(|purse| purse.spending).unwrap_or_default()
    }

    fn has_ended(&self, hold: &SpendHold, now_ms: u64) -> bool {
        let Some(first) = hold.claims.first() else { return false };
        let ended = self.ended.get(&(first.account.clone(), Minute::of(hold.taken_at_ms)));
        ended.is_some_and(|ended| ended.until_ms > now_ms && ended.ids.contains(&hold.id))
    }

    fn purse(&mut self, account: &Account, now_ms: u64, kept_ms: u64) -> &mut Purse {
        let purse = self.purses.entry(account.clone()).or_default();
        purse.kept_until_ms = purse.kept_until_ms.max(now_ms.saturating_add(kept_ms));
        purse
    }

    /// Forgets what nobody reads any more.
    pub(crate) fn prune(&mut self, now_ms: u64) {
        let minute = Minute::of(now_ms);
        if self.pruned_in == Some(minute) {
            return;
        }
        self.pruned_in = Some(minute);
        self.purses.retain(|_, purse| purse.kept_until_ms > now_ms);
        self.ended.retain(|_, ended| ended.until_ms > now_ms);
    }
}

#[cfg(test)]
mod tests;
