//! What Redis has not been told of spending, and what it last told: enough to decide without it. Bounded however long
//! Redis is away.
use crate::book::spend::refuses;
use crate::budget::{Account, Claim, Fit, SpendHold, SpendId, SpendRefusal, Spending};
use crate::money::MicroDollars;
use std::collections::HashMap;

/// Changes that are kept by their ids. Beyond that renewals and holds are not told, and ends fold into sums.
const CHANGES_MAX: usize = 10_000;
/// Accounts of which it is remembered what they were last seen to stand at.
const SEEN_MAX: usize = 50_000;
/// Those not seen for so long make room first.
const SEEN_IDLE_MS: u64 = 3_600_000;
/// Accounts in one sum.
const SUM_ACCOUNTS_MAX: usize = 20;

/// What happened to a hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    /// It was granted without Redis.
    Take { due_ms: u64, sent: bool },
    /// Its lease was extended.
    Renew { due_ms: u64, sent: bool },
    /// It ended at a cost.
    End { cost: MicroDollars },
    /// Not one hold but what many cost: each account its claim's amount.
    Sum,
}

/// A change that is to be written.
#[derive(Debug, Clone)]
pub(super) struct Change {
    pub(super) hold: SpendHold,
    pub(super) what: What,
    /// Redis holds the amount, or may do so.
    is_in_redis: bool,
    version: u64,
}

/// Micro-dollars that Redis does not show.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Ours {
    spent: i64,
    held: i64,
}

impl Change {
    fn ours(&self, claim: &Claim) -> Ours {
        let amount = signed(claim.amount);
        let not_yet = if self.is_in_redis { 0 } else { amount };
        match self.what {
            What::Take { .. } => Ours { spent: 0, held: not_yet },
            What::Renew { .. } => Ours::default(),
            What::End { cost } => Ours { spent: signed(cost), held: not_yet - amount },
            What::Sum => Ours { spent: amount, held: 0 },
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Seen {
    spending: Spending,
    at_ms: u64,
}

/// See the file's head.
#[derive(Debug, Default)]
pub(super) struct Unsent {
    changes: HashMap<SpendId, Change>,
    sums: HashMap<Account, MicroDollars>,
    ours: HashMap<Account, Ours>,
    seen: HashMap<Account, Seen>,
    versions: u64,
}

impl Unsent {
    /// A hold was granted without Redis.
    pub(super) fn take(&mut self, hold: &SpendHold, due_ms: u64) {
        if self.has_room() {
            self.put(hold, What::Take { due_ms, sent: false }, false);
        }
    }

    /// A lease was extended.
    pub(super) fn renew(&mut self, hold: &SpendHold, until_ms: u64, is_sent: bool) {
        let known = self.changes.get(&hold.id).map(|known| (known.what, known.is_in_redis));
        match known {
            Some((What::Take { due_ms, sent }, is_in_redis)) => {
                let what = What::Take { due_ms: due_ms.max(until_ms), sent: sent || is_sent };
                self.put(hold, what, is_in_redis);
            }
            Some((What::Renew { due_ms, sent }, is_in_redis)) => {
                let what = What::Renew { due_ms: due_ms.max(until_ms), sent: sent || is_sent };
                self.put(hold, what, is_in_redis);
            }
            Some((What::End { .. } | What::Sum, _)) => {}
            None if self.has_room() => self.put(hold, What::Renew { due_ms: until_ms, sent: is_sent }, true),
            None => {}
        }
    }

    /// A hold ended. Only its first end counts; of one that was told already, Redis knows.
    pub(super) fn end(&mut self, hold: &SpendHold, cost: MicroDollars) {
        let known = self.changes.get(&hold.id).map(|known| (known.what, known.is_in_redis));
        match known {
            Some((What::End { .. } | What::Sum, _)) => {}
            Some((What::Take { .. } | What::Renew { .. }, is_in_redis)) => {
                self.put(hold, What::End { cost }, is_in_redis);
            }
            None if self.has_room() => self.put(hold, What::End { cost }, true),
            None => self.fold(hold, cost),
        }
    }

    /// All that is to be written. It stays until [`Unsent::told`].
    pub(super) fn changes(&mut self, now_ms: u64) -> Vec<Change> {
        self.release_sums(now_ms);
        let is_dead = |change: &&Change| change.hold.kept(now_ms).next().is_none();
        let dead: Vec<SpendId> = self.changes.values().filter(is_dead).map(|it| it.hold.id.clone()).collect();
        for id in dead {
            self.remove(&id);
        }
        self.changes.values().cloned().collect()
    }

    /// Redis has got this change. What became of the hold meanwhile is still to be written.
    pub(super) fn told(&mut self, change: &Change) {
        let id = &change.hold.id;
        match self.changes.get(id) {
            Some(now) if now.version == change.version => self.remove(id),
            Some(now) if !now.is_in_redis && matches!(change.what, What::Take { .. }) => {
                let (hold, what) = (now.hold.clone(), now.what);
                self.put(&hold, what, true);
            }
            Some(_) | None => {}
        }
    }

    /// Redis told what accounts stand at.
    pub(super) fn saw<'a>(&mut self, found: impl Iterator<Item = (&'a Account, &'a Spending)>, now_ms: u64) {
        for (account, &spending) in found {
            if self.seen.len() >= SEEN_MAX && !self.seen.contains_key(account) {
                self.seen.retain(|_, seen| seen.at_ms.saturating_add(SEEN_IDLE_MS) > now_ms);
                if self.seen.len() >= SEEN_MAX {
                    continue;
                }
            }
            self.seen.insert(account.clone(), Seen { spending, at_ms: now_ms });
        }
    }

    /// What an account stands at, as far as this replica knows.
    pub(super) fn spending(&self, account: &Account) -> Spending {
        let Spending { spent, held, estimated } =
            self.seen.get(account).map(|seen| seen.spending).unwrap_or_default();
        let ours = self.ours.get(account).copied().unwrap_or_default();
        let moved =
            |amount: MicroDollars, by: i64| MicroDollars::new(amount.micros().saturating_add_signed(by));
        Spending { spent: moved(spent, ours.spent), held: moved(held, ours.held), estimated }
    }

    /// The first account that refuses, as far as this replica knows.
    pub(super) fn refusal(&self, hold: &SpendHold, fit: Fit, now_ms: u64) -> Option<SpendRefusal> {
        hold.kept(now_ms).find_map(|(claim, _)| refuses(claim, fit, self.spending(&claim.account)))
    }

    pub(super) fn has_changes(&self) -> bool {
        !self.changes.is_empty() || !self.sums.is_empty()
    }

    fn has_room(&self) -> bool {
        self.changes.len() < CHANGES_MAX
    }

    /// The id is lost, the money is not. If Redis holds an amount for it, that is charged too when the lease ends.
    fn fold(&mut self, hold: &SpendHold, cost: MicroDollars) {
        for claim in hold.claims.iter() {
            let sum = self.sums.entry(claim.account.clone()).or_default();
            *sum = *sum + cost;
            self.move_ours(&claim.account, Ours { spent: signed(cost), held: 0 }, 1);
        }
    }

    /// Gives the sums ids of their own, so that they too are written once; the next not before these are written.
    fn release_sums(&mut self, now_ms: u64) {
        if self.changes.values().any(|change| change.what == What::Sum) {
            return;
        }
        let sums: Vec<Claim> =
            self.sums.drain().map(|(account, amount)| Claim { account, limit: None, amount }).collect();
        for claims in sums.chunks(SUM_ACCOUNTS_MAX) {
            for claim in claims {
                self.move_ours(&claim.account, Ours { spent: signed(claim.amount), held: 0 }, -1);
            }
            let id = SpendId::from(uuid::Uuid::now_v7().to_string());
            self.put(&SpendHold { id, taken_at_ms: now_ms, claims: claims.into() }, What::Sum, true);
        }
    }

    fn put(&mut self, hold: &SpendHold, what: What, is_in_redis: bool) {
        self.remove(&hold.id);
        self.versions += 1;
        let change = Change { hold: hold.clone(), what, is_in_redis, version: self.versions };
        self.move_all(&change, 1);
        self.changes.insert(hold.id.clone(), change);
    }

    fn remove(&mut self, id: &SpendId) {
        if let Some(change) = self.changes.remove(id) {
            self.move_all(&change, -1);
        }
    }

    fn move_all(&mut self, change: &Change, sign: i64) {
        for claim in change.hold.claims.iter() {
            self.move_ours(&claim.account, change.ours(claim), sign);
        }
    }

    fn move_ours(&mut self, account: &Account, by: Ours, sign: i64) {
        if by == Ours::default() {
            return;
        }
        let ours = self.ours.entry(account.clone()).or_default();
        ours.spent = ours.spent.saturating_add(by.spent * sign);
        ours.held = ours.held.saturating_add(by.held * sign);
        if *ours == Ours::default() {
            self.ours.remove(account);
        }
    }
}

/// Never more than [`MicroDollars::MAX`], so it fits.
fn signed(amount: MicroDollars) -> i64 {
    i64::try_from(amount.micros()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
