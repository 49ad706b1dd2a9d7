//! What this replica knows without Redis: what it decides by it, and that it stays bounded.
use super::*;
use crate::budget::HoldSpend;
use crate::ledger::OnOutage;

const NOW_MS: u64 = 1_796_075_410_000;

fn micros(amount: u64) -> MicroDollars {
    MicroDollars::new(amount)
}

fn account() -> Account {
    Account { scope: "key:1".into(), window: None }
}

fn hold(id: &str, amount: u64, limit: u64) -> SpendHold {
    let claim = Claim { account: account(), limit: Some(micros(limit)), amount: micros(amount) };
    let ask = HoldSpend {
        id: id.into(),
        claims: vec![claim],
        fit: Fit::Below,
        lease_ms: 60_000,
        on_outage: OnOutage::Local,
    };
    SpendHold::of(&ask, NOW_MS)
}

fn figures(unsent: &Unsent) -> (u64, u64) {
    let Spending { spent, held, .. } = unsent.spending(&account());
    (spent.micros(), held.micros())
}

fn see(unsent: &mut Unsent, spent: u64, held: u64) {
    let spending = Spending { spent: micros(spent), held: micros(held), estimated: micros(0) };
    unsent.saw([(&account(), &spending)].into_iter(), NOW_MS);
}

#[test]
fn what_was_seen_and_what_was_done_since_decide_together() {
    let mut unsent = Unsent::default();
    see(&mut unsent, 60, 30);
    assert_eq!(unsent.refusal(&hold("a", 5, 100), Fit::Below, NOW_MS), None);
    unsent.take(&hold("a", 5, 100), NOW_MS);
    assert_eq!(figures(&unsent), (60, 35));
    // Redis holds 10 of this one.
    unsent.end(&hold("b", 10, 100), micros(15));
    assert_eq!(figures(&unsent), (75, 25));
    let refusal = unsent.refusal(&hold("c", 1, 100), Fit::Below, NOW_MS).unwrap();
    assert_eq!((refusal.spent, refusal.held), (micros(75), micros(25)));
}

#[test]
fn a_hold_that_ends_without_redis_is_told_as_its_end_alone() {
    let mut unsent = Unsent::default();
    unsent.take(&hold("a", 5, 100), NOW_MS + 1);
    unsent.renew(&hold("a", 5, 100), NOW_MS + 9, true);
    assert_eq!(unsent.changes(NOW_MS)[0].what, What::Take { due_ms: NOW_MS + 9, sent: true });
    unsent.end(&hold("a", 5, 100), micros(3));
    unsent.end(&hold("a", 5, 100), micros(99));
    unsent.renew(&hold("a", 5, 100), NOW_MS + 99, true);
    let changes = unsent.changes(NOW_MS);
    assert_eq!(changes.iter().map(|it| it.what).collect::<Vec<_>>(), [What::End { cost: micros(3) }]);
    assert_eq!(figures(&unsent), (3, 0));
    unsent.told(&changes[0]);
    assert!(!unsent.has_changes());
    assert_eq!(figures(&unsent), (0, 0));
}

#[test]
fn an_end_during_the_telling_of_its_beginning_is_told_next() {
    let mut unsent = Unsent::default();
    unsent.take(&hold("a", 5, 100), NOW_MS);
    let taking = unsent.changes(NOW_MS);
    unsent.end(&hold("a", 5, 100), micros(3));
    see(&mut unsent, 0, 5);
    unsent.told(&taking[0]);
    assert_eq!(figures(&unsent), (3, 0));
    let ending = unsent.changes(NOW_MS);
    assert_eq!(ending[0].what, What::End { cost: micros(3) });
    see(&mut unsent, 3, 0);
    unsent.told(&ending[0]);
    assert_eq!(figures(&unsent), (3, 0));
    assert!(unsent.ours.is_empty());
}

#[test]
fn what_is_unsent_is_bounded_and_no_money_is_lost() {
    let mut unsent = Unsent::default();
    let ends = CHANGES_MAX + 1_000;
    for n in 0..ends {
        unsent.end(&hold(&n.to_string(), 0, 100), micros(1));
    }
    for n in 0..1_000 {
        unsent.take(&hold(&format!("t{n}"), 5, 100), NOW_MS);
        unsent.renew(&hold(&format!("r{n}"), 5, 100), NOW_MS, true);
    }
    assert_eq!(unsent.changes.len(), CHANGES_MAX);
    assert_eq!(figures(&unsent).0, u64::try_from(ends).unwrap());
    let changes = unsent.changes(NOW_MS);
    let told: u64 = changes
        .iter()
        .map(|change| match change.what {
            What::End { cost } => cost.micros(),
            What::Sum => change.hold.claims[0].amount.micros(),
            What::Take { .. } | What::Renew { .. } => 0,
        })
        .sum();
    assert_eq!(told, u64::try_from(ends).unwrap());
    changes.iter().for_each(|change| unsent.told(change));
    assert!(!unsent.has_changes() && unsent.ours.is_empty());
}

#[test]
fn a_sum_of_unknown_outcome_keeps_its_id_and_the_next_waits() {
    let mut unsent = Unsent::default();
    unsent.fold(&hold("a", 0, 100), micros(3));
    let first = unsent.changes(NOW_MS);
    unsent.fold(&hold("b", 0, 100), micros(4));
    let again = unsent.changes(NOW_MS);
    assert_eq!((again.len(), &again[0].hold), (1, &first[0].hold));
    assert_eq!(figures(&unsent).0, 7);
    unsent.told(&again[0]);
    let next = unsent.changes(NOW_MS);
    assert_eq!(next[0].hold.claims[0].amount, micros(4));
    assert_ne!(next[0].hold.id, first[0].hold.id);
}

#[test]
fn what_belongs_to_a_window_long_gone_is_forgotten() {
    let mut unsent = Unsent::default();
    let window = crate::budget::BudgetWindow { name: "day".into(), ends_at_ms: NOW_MS };
    let mut dated = hold("a", 5, 100);
    let account = Account { window: Some(window), ..account() };
    dated.claims = [Claim { account, limit: None, amount: micros(5) }].into();
    unsent.end(&dated, micros(5));
    assert_eq!(unsent.changes(NOW_MS + 1).len(), 1);
    assert_eq!(unsent.changes(NOW_MS + 25 * 3_600_000).len(), 0);
    assert!(unsent.ours.is_empty());
}

#[test]
fn what_was_seen_is_bounded() {
    let mut unsent = Unsent::default();
    for n in 0..SEEN_MAX + 10 {
        let account = Account { scope: format!("key:{n}").into(), window: None };
        unsent.saw([(&account, &Spending::default())].into_iter(), NOW_MS);
    }
    assert_eq!(unsent.seen.len(), SEEN_MAX);
    see(&mut unsent, 1, 0);
    let account = Account { scope: "new".into(), window: None };
    unsent.saw([(&account, &Spending::default())].into_iter(), NOW_MS + SEEN_IDLE_MS);
    assert_eq!(unsent.seen.len(), 1);
}
