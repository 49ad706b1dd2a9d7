//! The words of spending: who pays (an account), what a call may cost (a hold), what it cost (its settling).
//!
//! A hold ends exactly once: settled, voided, or, when its lease has run out, charged at its amount if its call was
//! sent and given back if not. A settling that comes after that replaces the estimate.
use crate::ledger::OnOutage;
use crate::money::MicroDollars;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// A window's counters are kept for so long after its end: calls that began in it may end later.
const KEPT_AFTER_END_MS: u64 = 24 * 3_600_000;
/// Counters without a window are kept for so long after the last change.
const KEPT_WITHOUT_WINDOW_MS: u64 = 400 * 24 * 3_600_000;

/// Whose money or whose slots: an opaque name such as `key:<hash>`, `team:<id>` or `provider:openai`. Stands in key
/// names and answers, so it must not be a secret.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Scope(Arc<str>);

impl Scope {
    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Scope {
    fn from(name: &str) -> Self {
        Self(name.into())
    }
}

impl From<String> for Scope {
    fn from(name: String) -> Self {
        Self(name.into())
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A stretch of time with a budget of its own. It is known by its name, so a scope's windows of different lengths
/// and of different days must differ in their names (`day-2026-11-30`); two with one name are the same.
#[derive(Debug, Clone)]
pub struct BudgetWindow {
    /// Stands in key names. `total` is what a scope without a window has.
    pub name: Arc<str>,
    /// When the budget begins anew, in milliseconds since the Unix epoch by the ledger's clock.
    pub ends_at_ms: u64,
}

impl PartialEq for BudgetWindow {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for BudgetWindow {}

impl Hash for BudgetWindow {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

/// What is counted together: a scope's money in one window, or for good.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Account {
    /// Whose.
    pub scope: Scope,
    /// `None` for a budget that never begins anew.
    pub window: Option<BudgetWindow>,
}

impl Account {
    /// The window's name as it stands in key names.
    pub(crate) fn window_name(&self) -> &str {
        self.window.as_ref().map_or("total", |window| &*window.name)
    }

    /// How long counters of this account that are written now are kept; `None` once nobody reads them any more.
    pub(crate) fn kept_ms(&self, now_ms: u64) -> Option<u64> {
        let Some(window) = &self.window else { return Some(KEPT_WITHOUT_WINDOW_MS) };
        let left_ms = window.ends_at_ms.saturating_add(KEPT_AFTER_END_MS).saturating_sub(now_ms);
        (left_ms > 0).then_some(left_ms)
    }
}

/// Names a hold, or a spending without one. What is named alike is counted once.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpendId(Arc<str>);

impl SpendId {
    /// The id itself.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for SpendId {
    fn from(id: &str) -> Self {
        Self(id.into())
    }
}

impl From<String> for SpendId {
    fn from(id: String) -> Self {
        Self(id.into())
    }
}

/// What a call takes from one account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// Whose money.
    pub account: Account,
    /// The budget; `None` where the account is only counted.
    pub limit: Option<MicroDollars>,
    /// What the call is expected to cost.
    pub amount: MicroDollars,
}

/// When an account with a budget admits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Fit {
    /// While less than the budget is spent and held: nobody is refused for a guess, and the call that crosses the
    /// limit completes.
    #[default]
    Below,
    /// Only what fits wholly: nothing is spent over the budget if no call costs more than its amount.
    Whole,
}

/// Asks to hold money for a call on all its accounts, or on none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HoldSpend {
    /// Names the hold; a new one for each call.
    pub id: SpendId,
    /// On which accounts. One named twice counts once, with its lower limit and larger amount.
    pub claims: Vec<Claim>,
    /// When to admit.
    pub fit: Fit,
    /// Milliseconds after which the hold ends by itself, for its replica may have died. Renewed while a call runs.
    pub lease_ms: u64,
    /// What decides while the shared ledger is away.
    pub on_outage: OnOutage,
}

/// Money held for a call: to be settled when the call has ended, or voided if it was never sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpendHold {
    pub(crate) id: SpendId,
    /// When it was taken: its end is remembered by this minute, whoever reports it and whenever.
    pub(crate) taken_at_ms: u64,
    pub(crate) claims: Arc<[Claim]>,
}

impl SpendHold {
    /// Its name.
    #[must_use]
    pub fn id(&self) -> &SpendId {
        &self.id
    }

    /// What it takes from each account.
    #[must_use]
    pub fn claims(&self) -> &[Claim] {
        &self.claims
    }

    pub(crate) fn of(ask: &HoldSpend, now_ms: u64) -> Self {
        let mut claims: Vec<Claim> = Vec::with_capacity(ask.claims.len());
        for claim in &ask.claims {
            match claims.iter_mut().find(|known| known.account == claim.account) {
                Some(known) => {
                    known.amount = known.amount.max(claim.amount);
                    known.limit = known.limit.into_iter().chain(claim.limit).min();
                }
                None => claims.push(claim.clone()),
            }
        }
        Self { id: ask.id.clone(), taken_at_ms: now_ms, claims: claims.into() }
    }

    /// The claims on accounts that are still kept, and for how many milliseconds more.
    pub(crate) fn kept(&self, now_ms: u64) -> impl Iterator<Item = (&Claim, u64)> {
        self.claims.iter().filter_map(move |claim| Some((claim, claim.account.kept_ms(now_ms)?)))
    }
}

/// What an account stands at.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Spending {
    /// Spent, estimates included.
    pub spent: MicroDollars,
    /// Held by calls that have not ended.
    pub held: MicroDollars,
    /// The part of `spent` that nobody settled: amounts of holds whose lease ran out after sending.
    pub estimated: MicroDollars,
}

/// Why an account refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpendRefusal {
    /// The first account, in the order of the claims, that did not admit.
    pub account: Account,
    /// Spent there.
    pub spent: MicroDollars,
    /// Held there by other calls.
    pub held: MicroDollars,
    /// The budget.
    pub limit: MicroDollars,
}

impl SpendRefusal {
    /// When the budget begins anew, in milliseconds since the Unix epoch by the ledger's clock; `None` for never.
    #[must_use]
    pub fn resets_at_ms(&self) -> Option<u64> {
        self.account.window.as_ref().map(|window| window.ends_at_ms)
    }
}

/// The answer to [`HoldSpend`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HeldSpend {
    /// Held on all accounts.
    Granted {
        /// To be settled or voided.
        hold: SpendHold,
        /// What each of the hold's claims' accounts stands at with it, in the order of [`SpendHold::claims`].
        spendings: Vec<Spending>,
    },
    /// Nothing was held.
    Refused(SpendRefusal),
    /// The shared ledger is away, and nothing is admitted meanwhile ([`OnOutage::Deny`]).
    Away,
}

/// Extends a hold's lease, and says whether its call has been sent. Never shortens a lease; does nothing to a hold
/// that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RenewSpend {
    /// Which.
    pub hold: SpendHold,
    /// Milliseconds from now.
    pub lease_ms: u64,
    /// The call goes out now or has gone out: should the lease run out, the hold is charged. Stays true once said.
    pub sent: bool,
}

/// Money spent without a hold. Counted once by its id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddSpend {
    /// Names the spending.
    pub id: SpendId,
    /// When the call began, in milliseconds since the Unix epoch by the ledger's clock. Whoever tells of the same
    /// spending again has to give the same time.
    pub at_ms: u64,
    /// On which accounts.
    pub accounts: Vec<Account>,
    /// How much, on each of them.
    pub cost: MicroDollars,
}

impl AddSpend {
    /// A hold of nothing, whose settling counts.
    pub(crate) fn into_hold(self) -> SpendHold {
        let claim = |account| Claim { account, limit: None, amount: MicroDollars::ZERO };
        let ask = HoldSpend {
            id: self.id,
            claims: self.accounts.into_iter().map(claim).collect(),
            fit: Fit::Below,
            lease_ms: 0,
            on_outage: OnOutage::Allow,
        };
        SpendHold::of(&ask, self.at_ms)
    }
}
