//! The scenario commands of money and slots. Amounts are whole micro-dollars; times count from the scenario's start.
//!
//! ```text
//! hold key:a=10/100, team:b@day/3600s=10 [whole] [lease=60s] [as LABEL]
//!         (account=amount/limit; the limit may be left out; @NAME/END is a window and its end)
//!     -> held key:a spent=0 held=10, team:b@day spent=0 held=10
//!     -> refused team:b@day spent=40 held=0 limit=40 resets=3600s
//! renew LABEL lease=60s [sent]
//! charge LABEL 25         (settles at this cost; as often as one likes)
//! give-back LABEL
//! add key:a, team:b@day/3600s cost=7 as ID [at=0s]
//! spending key:a team:b@day/3600s
//!     -> key:a spent=7 held=0 estimated=0, team:b@day spent=7 held=0 estimated=0
//! slot team:b max=2 as LABEL
//!     -> slot 1/2
//!     -> full 2/2
//! free LABEL
//! ```
use super::{duration, number};
use crate::budget::{
    Account, AddSpend, BudgetWindow, Claim, Fit, HeldSpend, HoldSpend, RenewSpend, SpendHold, Spending,
};
use crate::ledger::{Ledger, OnOutage};
use crate::money::MicroDollars;
use crate::slots::{Slot, TakeSlot, TakenSlot};
use std::collections::HashMap;

/// What a scenario has held and taken.
pub(super) struct Purse<'a> {
    ledger: &'a dyn Ledger,
    start_ms: u64,
    holds: HashMap<String, SpendHold>,
    slots: HashMap<String, Slot>,
    unlabelled: usize,
}

impl<'a> Purse<'a> {
    pub(super) fn new(ledger: &'a dyn Ledger) -> Self {
        let start_ms = ledger.now_ms();
        Self { ledger, start_ms, holds: HashMap::new(), slots: HashMap::new(), unlabelled: 0 }
    }

    /// The answer, or `None` where the verb is none of these.
    pub(super) async fn command(&mut self, verb: &str, rest: &str) -> Option<Result<String, String>> {
        let answer = match verb {
            "hold" => self.hold(rest).await,
            "spending" => self.spending(rest).await,
            "slot" => self.slot(rest).await,
            "add" => self.add(rest),
            "renew" | "charge" | "give-back" | "free" => self.report(verb, rest),
            _ => return None,
        };
        Some(answer)
    }

    async fn hold(&mut self, text: &str) -> Result<String, String> {
        let (mut text, label) = self.labelled(text);
        let (mut fit, mut lease_ms) = (Fit::Below, 60_000);
        while let Some((before, word)) = text.rsplit_once(' ') {
            match word.split_once('=') {
                None if word == "whole" => fit = Fit::Whole,
                Some(("lease", lease)) => lease_ms = millis(lease)?,
                _ => break,
            }
            text = before.trim_end();
        }
        let claims = text.split(',').map(|claim| self.claim(claim.trim())).collect::<Result<Vec<_>, _>>()?;
        let id = format!("hold-{label}").into();
        let ask = HoldSpend { id, claims, fit, lease_ms, on_outage: OnOutage::Local };
        match self.ledger.hold_spend(ask).await {
            HeldSpend::Granted { hold, spendings } => {
                let shown =
                    hold.claims().iter().zip(spendings).map(|(claim, Spending { spent, held, .. })| {
                        let (spent, held) = (spent.micros(), held.micros());
                        format!("{} spent={spent} held={held}", name(&claim.account))
                    });
                let shown = shown.collect::<Vec<_>>().join(", ");
                self.holds.insert(label, hold);
                Ok(format!("held {shown}"))
            }
            HeldSpend::Refused(refusal) => {
                let [spent, held, limit] =
                    [refusal.spent, refusal.held, refusal.limit].map(MicroDollars::micros);
                let resets = refusal.resets_at_ms().map_or(String::new(), |at_ms| {
                    format!(" resets={}s", at_ms.saturating_sub(self.start_ms) / 1_000)
                });
                let name = name(&refusal.account);
                Ok(format!("refused {name} spent={spent} held={held} limit={limit}{resets}"))
            }
            HeldSpend::Away => Ok("away".to_owned()),
        }
    }

    async fn spending(&self, text: &str) -> Result<String, String> {
        let accounts =
            text.split_whitespace().map(|account| self.account(account)).collect::<Result<Vec<_>, _>>()?;
        let spendings = self.ledger.spendings(&accounts).await;
        if spendings.len() != accounts.len() {
            return Err(format!("{} spendings for {} accounts", spendings.len(), accounts.len()));
        }
        let shown = accounts.iter().zip(spendings).map(|(account, Spending { spent, held, estimated })| {
            let [spent, held, estimated] = [spent, held, estimated].map(MicroDollars::micros);
            format!("{} spent={spent} held={held} estimated={estimated}", name(account))
        });
        Ok(shown.collect::<Vec<_>>().join(", "))
    }

    async fn slot(&mut self, text: &str) -> Result<String, String> {
        let (text, label) = self.labelled(text);
        let (scope, max) = text.split_once(" max=").ok_or("want SCOPE max=N")?;
        let max = number(max.trim())?;
        let lease = format!("lease-{label}").into();
        let ask = TakeSlot { scope: scope.trim().into(), max, lease, on_outage: OnOutage::Local };
        match self.ledger.take_slot(ask).await {
            TakenSlot::Granted { slot, used } => {
                self.slots.insert(label, slot);
                Ok(format!("slot {used}/{max}"))
            }
            TakenSlot::Refused { used, max } => Ok(format!("full {used}/{max}")),
            TakenSlot::Away => Ok("away".to_owned()),
        }
    }

    fn add(&mut self, text: &str) -> Result<String, String> {
        let (text, at) = text.split_once(" at=").unwrap_or((text, "0s"));
        let (text, id) = text.split_once(" as ").ok_or("want as ID")?;
        let (accounts, cost) = text.split_once(" cost=").ok_or("want cost=N")?;
        let accounts =
            accounts.split(',').map(|account| self.account(account)).collect::<Result<Vec<_>, _>>()?;
        let at_ms = self.start_ms.saturating_add(millis(at)?);
        let cost = MicroDollars::new(number(cost.trim())?);
        self.ledger.add_spend(AddSpend { id: id.trim().into(), at_ms, accounts, cost });
        Ok("ok".to_owned())
    }

    fn report(&mut self, verb: &str, rest: &str) -> Result<String, String> {
        let words: Vec<&str> = rest.split_whitespace().collect();
        match (verb, words.as_slice()) {
            ("renew", [label, lease, sent @ ..]) => {
                let lease_ms = millis(lease.strip_prefix("lease=").ok_or("want lease=TIME")?)?;
                let hold = self.held(label)?.clone();
                self.ledger.renew_spend(RenewSpend { hold, lease_ms, sent: *sent == ["sent"] });
            }
            ("charge", [label, cost]) => {
                self.ledger.settle_spend(self.held(label)?, MicroDollars::new(number(cost)?));
            }
            ("give-back", [label]) => self.ledger.void_spend(self.held(label)?),
            ("free", [label]) => {
                let slot = self.slots.get(*label).ok_or_else(|| format!("no slot is labelled `{label}`"))?;
                self.ledger.free_slot(slot);
            }
            _ => return Err(format!("`{verb}` does not go like that")),
        }
        Ok("ok".to_owned())
    }

    /// A label stays, for what is told twice must count once.
    fn held(&self, label: &str) -> Result<&SpendHold, String> {
        self.holds.get(label).ok_or_else(|| format!("no hold of money is labelled `{label}`"))
    }

    fn labelled<'t>(&mut self, text: &'t str) -> (&'t str, String) {
        match text.split_once(" as ") {
            Some((text, label)) => (text.trim_end(), label.trim().to_owned()),
            None => {
                self.unlabelled += 1;
                (text.trim_end(), format!("#{}", self.unlabelled))
            }
        }
    }

    fn claim(&self, text: &str) -> Result<Claim, String> {
        let (account, rest) = text.split_once('=').ok_or_else(|| format!("`{text}` is no account=amount"))?;
        let (amount, limit) = match rest.split_once('/') {
            Some((amount, limit)) => (amount, Some(MicroDollars::new(number(limit)?))),
            None => (rest, None),
        };
        let account = self.account(account)?;
        Ok(Claim { account, limit, amount: MicroDollars::new(number(amount)?) })
    }

    fn account(&self, text: &str) -> Result<Account, String> {
        let Some((scope, window)) = text.trim().split_once('@') else {
            return Ok(Account { scope: text.trim().into(), window: None });
        };
        let (name, ends) = window.split_once('/').ok_or("want @NAME/END")?;
        let ends_at_ms = self.start_ms.saturating_add(millis(ends)?);
        Ok(Account { scope: scope.into(), window: Some(BudgetWindow { name: name.into(), ends_at_ms }) })
    }
}

fn name(account: &Account) -> String {
    match &account.window {
        Some(window) => format!("{}@{}", account.scope, window.name),
        None => account.scope.to_string(),
    }
}

fn millis(text: &str) -> Result<u64, String> {
    u64::try_from(duration(text)?.as_millis()).map_err(|error| error.to_string())
}
