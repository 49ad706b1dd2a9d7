//! The calls of spending and what their answers say: keys and arguments in the order of the scripts in `lua/`.
use super::Shared;
use super::unsent::{Change, What};
use crate::book::spend::{ENDED_KEPT_MS, ESTIMATE_KEPT_MS, REAPED_MAX};
use crate::budget::{Claim, Fit, SpendHold, Spending};
use crate::money::MicroDollars;
use crate::redis::keys::AccountKeys;
use crate::redis::scripts::Call;

/// The calls that write a change.
pub(super) fn calls<'a>(shared: &'a Shared, change: &Change, now_ms: u64) -> Vec<Call<'a>> {
    let Change { hold, what, .. } = change;
    let parts = shared.spends.parts(&hold.claims).into_iter();
    let call = |part: &[Claim]| match *what {
        What::Take { due_ms, sent } => {
            let lease_ms = due_ms.saturating_sub(now_ms);
            let terms = Terms { lease_ms, sent, fit: Fit::Below, checks: false };
            taking(shared, hold, part, &terms, now_ms)
        }
        What::Renew { due_ms, sent } => {
            renewing(shared, hold, part, (due_ms.saturating_sub(now_ms), sent), now_ms)
        }
        What::End { cost } => ending(shared, hold, part, |_| cost, now_ms),
        What::Sum => ending(shared, hold, part, |claim| claim.amount, now_ms),
    };
    parts.filter_map(call).collect()
}

/// On which terms a hold is taken.
pub(super) struct Terms {
    pub(super) lease_ms: u64,
    pub(super) sent: bool,
    pub(super) fit: Fit,
    /// Without, it is taken whatever the limits.
    pub(super) checks: bool,
}

pub(super) fn taking<'a>(
    shared: &'a Shared,
    hold: &SpendHold,
    part: &[Claim],
    terms: &Terms,
    now_ms: u64,
) -> Option<Call<'a>> {
    let first = &part.first()?.account;
    let mut keys = vec![shared.keys.ended(first, hold)];
    let mut args = vec![
        shared.script_now(now_ms),
        hold.id.as_str().to_owned(),
        terms.lease_ms.to_string(),
        if terms.sent { "s" } else { "u" }.to_owned(),
        u8::from(terms.fit == Fit::Whole).to_string(),
        REAPED_MAX.to_string(),
        ESTIMATE_KEPT_MS.to_string(),
    ];
    for (claim, kept_ms) in kept(part, now_ms) {
        keys.extend(all(shared.keys.account(&claim.account)));
        let limit = claim.limit.filter(|_| terms.checks);
        args.push(limit.map_or("-1".to_owned(), |limit| limit.micros().to_string()));
        args.extend([claim.amount.micros().to_string(), kept_ms.to_string()]);
    }
    (keys.len() > 1).then_some(Call { script: &shared.scripts.spend_hold, keys, args })
}

fn ending<'a>(
    shared: &'a Shared,
    hold: &SpendHold,
    part: &[Claim],
    cost: impl Fn(&Claim) -> MicroDollars,
    now_ms: u64,
) -> Option<Call<'a>> {
    let first = &part.first()?.account;
    let mut keys = vec![shared.keys.ended(first, hold)];
    let mut args = vec![hold.id.as_str().to_owned(), ENDED_KEPT_MS.to_string()];
    for (claim, kept_ms) in kept(part, now_ms) {
        keys.extend(all(shared.keys.account(&claim.account)));
        args.extend([cost(claim).micros().to_string(), kept_ms.to_string()]);
    }
    (keys.len() > 1).then_some(Call { script: &shared.scripts.spend_settle, keys, args })
}

fn renewing<'a>(
    shared: &'a Shared,
    hold: &SpendHold,
    part: &[Claim],
    (lease_ms, sent): (u64, bool),
    now_ms: u64,
) -> Option<Call<'a>> {
    let mut keys = Vec::new();
    let mut args = vec![
        shared.script_now(now_ms),
        hold.id.as_str().to_owned(),
        lease_ms.to_string(),
        u8::from(sent).to_string(),
    ];
    for (claim, kept_ms) in kept(part, now_ms) {
        let AccountKeys { held, holds, due, .. } = shared.keys.account(&claim.account);
        keys.extend([held, holds, due]);
        args.push(kept_ms.to_string());
    }
    (!keys.is_empty()).then_some(Call { script: &shared.scripts.spend_renew, keys, args })
}

pub(super) fn kept(part: &[Claim], now_ms: u64) -> impl Iterator<Item = (&Claim, u64)> {
    part.iter().filter_map(move |claim| Some((claim, claim.account.kept_ms(now_ms)?)))
}

/// In the scripts' order.
fn all(keys: AccountKeys) -> [String; 5] {
    let AccountKeys { spent, held, estimated, holds, due } = keys;
    [spent, held, estimated, holds, due]
}

/// The number that leads a script's answer, and what the accounts stand at.
pub(super) fn read(answer: &[i64]) -> Option<(usize, Vec<Spending>)> {
    let (&lead, figures) = answer.split_first()?;
    Some((usize::try_from(lead).ok()?, stands(figures)))
}

pub(super) fn stands(figures: &[i64]) -> Vec<Spending> {
    let micros = |figure: i64| MicroDollars::new(u64::try_from(figure).unwrap_or(0));
    let (accounts, _) = figures.as_chunks::<3>();
    let spending = |&[spent, held, estimated]: &[i64; 3]| Spending {
        spent: micros(spent),
        held: micros(held),
        estimated: micros(estimated),
    };
    accounts.iter().map(spending).collect()
}
