//! The rules of spending, on the book alone.
use super::*;
use crate::budget::BudgetWindow;
use crate::ledger::OnOutage;

const NOW_MS: u64 = 1_796_075_410_000;

fn micros(amount: u64) -> MicroDollars {
    MicroDollars::new(amount)
}

fn account(scope: &str) -> Account {
    Account { scope: scope.into(), window: None }
}

fn claim(scope: &str, limit: u64, amount: u64) -> Claim {
    Claim { account: account(scope), limit: Some(micros(limit)), amount: micros(amount) }
}

fn ask(id: &str, claims: &[Claim]) -> HoldSpend {
    HoldSpend {
        id: id.into(),
        claims: claims.to_vec(),
        fit: Fit::Below,
        lease_ms: 60_000,
        on_outage: OnOutage::Local,
    }
}

fn held(answer: HeldSpend) -> SpendHold {
    match answer {
        HeldSpend::Granted { hold, .. } => hold,
        HeldSpend::Refused(_) | HeldSpend::Away => panic!("not granted: {answer:?}"),
    }
}

fn figures(book: &Spends, scope: &str) -> [u64; 3] {
    let Spending { spent, held, estimated } = book.spending(&account(scope));
    [spent, held, estimated].map(MicroDollars::micros)
}

fn sent(hold: &SpendHold) -> RenewSpend {
    RenewSpend { hold: hold.clone(), lease_ms: 0, sent: true }
}

/// The total is what the live holds sum up to, always.
fn is_whole(book: &Spends) -> bool {
    book.purses.values().all(|purse| {
        let live = purse.entries.values().filter(|entry| entry.stage != Stage::Estimated);
        let sum: u64 = live.map(|entry| entry.amount.micros()).sum();
        sum == purse.spending.held.micros() && purse.due.len() == purse.entries.len()
    })
}

#[test]
fn the_same_id_holds_once() {
    let mut book = Spends::default();
    for _ in 0..2 {
        held(book.hold(&ask("a", &[claim("key:1", 100, 7)]), NOW_MS));
    }
    assert_eq!(figures(&book, "key:1"), [0, 7, 0]);
    assert!(is_whole(&book));
}

#[test]
fn an_account_named_twice_is_held_once_by_its_narrower_claim() {
    let mut book = Spends::default();
    let hold = held(book.hold(&ask("a", &[claim("key:1", 100, 7), claim("key:1", 50, 9)]), NOW_MS));
    assert_eq!(hold.claims(), [claim("key:1", 50, 9)]);
    assert_eq!(figures(&book, "key:1"), [0, 9, 0]);
}

#[test]
fn a_refusal_holds_on_no_account() {
    let mut book = Spends::default();
    let refused = book.hold(&ask("a", &[claim("key:1", 5, 1), claim("team:1", 0, 1)]), NOW_MS);
    let refusal =
        SpendRefusal { account: account("team:1"), spent: micros(0), held: micros(0), limit: micros(0) };
    assert_eq!(refused, HeldSpend::Refused(refusal));
    assert_eq!(figures(&book, "key:1"), [0, 0, 0]);
}

#[test]
fn a_whole_fit_admits_exactly_up_to_the_limit() {
    let mut book = Spends::default();
    let whole = |id, amount| HoldSpend { fit: Fit::Whole, ..ask(id, &[claim("key:1", 10, amount)]) };
    held(book.hold(&whole("a", 6), NOW_MS));
    assert!(matches!(book.hold(&whole("b", 5), NOW_MS), HeldSpend::Refused(_)));
    held(book.hold(&whole("c", 4), NOW_MS));
    assert!(matches!(book.hold(&whole("d", 1), NOW_MS), HeldSpend::Refused(_)));
}

#[test]
fn a_hold_ends_once_whatever_is_told_later() {
    let mut book = Spends::default();
    let hold = held(book.hold(&ask("a", &[claim("key:1", 100, 7)]), NOW_MS));
    book.end(&hold, micros(5), NOW_MS);
    for cost in [5, 0, 9] {
        book.end(&hold, micros(cost), NOW_MS + 1);
        book.renew(&sent(&hold), NOW_MS + 1);
    }
    assert_eq!(figures(&book, "key:1"), [5, 0, 0]);
    assert!(is_whole(&book));
}

#[test]
fn a_sent_hold_is_charged_when_its_lease_ends_and_an_unsent_one_given_back() {
    let mut book = Spends::default();
    let one = held(book.hold(&ask("a", &[claim("key:1", 100, 7)]), NOW_MS));
    held(book.hold(&ask("b", &[claim("key:1", 100, 20)]), NOW_MS));
    book.renew(&sent(&one), NOW_MS);
    held(book.hold(&ask("c", &[claim("key:1", 100, 1)]), NOW_MS + 59_999));
    assert_eq!(figures(&book, "key:1"), [0, 28, 0]);
    held(book.hold(&ask("d", &[claim("key:1", 100, 1)]), NOW_MS + 60_000));
    assert_eq!(figures(&book, "key:1"), [7, 2, 7]);
    assert!(is_whole(&book));
}

#[test]
fn a_settling_after_the_lease_ended_replaces_the_estimate() {
    let mut book = Spends::default();
    let one = held(book.hold(&ask("a", &[claim("key:1", 100, 7)]), NOW_MS));
    book.renew(&sent(&one), NOW_MS);
    held(book.hold(&ask("b", &[claim("key:1", 100, 0)]), NOW_MS + 60_000));
    for _ in 0..2 {
        book.end(&one, micros(4), NOW_MS + 61_000);
        assert_eq!(figures(&book, "key:1"), [4, 0, 0]);
    }
}

#[test]
fn a_settling_of_what_was_given_back_counts_in_full() {
    let mut book = Spends::default();
    let one = held(book.hold(&ask("a", &[claim("key:1", 100, 7)]), NOW_MS));
    held(book.hold(&ask("b", &[claim("key:1", 100, 0)]), NOW_MS + 60_000));
    assert_eq!(figures(&book, "key:1"), [0, 0, 0]);
    book.end(&one, micros(4), NOW_MS + 61_000);
    assert_eq!(figures(&book, "key:1"), [4, 0, 0]);
}

#[test]
fn a_renewal_never_shortens_a_lease() {
    let mut book = Spends::default();
    let one = held(book.hold(&ask("a", &[claim("key:1", 100, 7)]), NOW_MS));
    book.renew(&sent(&one), NOW_MS + 10);
    book.renew(&RenewSpend { hold: one, lease_ms: 90_000, sent: false }, NOW_MS + 10);
    held(book.hold(&ask("b", &[claim("key:1", 100, 0)]), NOW_MS + 90_009));
    assert_eq!(figures(&book, "key:1"), [0, 7, 0]);
    held(book.hold(&ask("c", &[claim("key:1", 100, 0)]), NOW_MS + 90_010));
    assert_eq!(figures(&book, "key:1"), [7, 0, 7]);
}

#[test]
fn a_call_reaps_the_oldest_and_no_more_than_so_many() {
    let mut book = Spends::default();
    for n in 0..25 {
        let hold = held(book.hold(&ask(&format!("h{n:02}"), &[claim("key:1", 1_000, 1)]), NOW_MS + n));
        book.renew(&sent(&hold), NOW_MS);
    }
    let later_ms = NOW_MS + 120_000;
    for spent in [10, 20, 25, 25] {
        let full = claim("key:1", 0, 1);
        assert!(matches!(book.hold(&ask("x", &[full]), later_ms), HeldSpend::Refused(_)));
        assert_eq!(figures(&book, "key:1"), [spent, 25 - spent, spent]);
    }
}

#[test]
fn nothing_is_kept_of_holds_that_ended_and_of_windows_long_gone() {
    let mut book = Spends::default();
    let window = BudgetWindow { name: "day".into(), ends_at_ms: NOW_MS + 1_000 };
    let dated = Account { window: Some(window), ..account("key:1") };
    let claims = [Claim { account: dated.clone(), limit: None, amount: micros(3) }, claim("team:1", 100, 3)];
    let hold = held(book.hold(&ask("a", &claims), NOW_MS));
    book.end(&hold, micros(3), NOW_MS + 2_000);
    assert_eq!(book.spending(&dated).spent, micros(3));
    assert!(book.purses.values().all(|purse| purse.entries.is_empty() && purse.due.is_empty()));
    book.prune(NOW_MS + 25 * 3_600_000);
    assert_eq!((book.purses.len(), book.ended.len()), (1, 0));
    book.end(&hold, micros(3), NOW_MS + 26 * 3_600_000);
    assert_eq!(book.spending(&dated), Spending::default());
    book.prune(NOW_MS + 500 * 24 * 3_600_000);
    assert_eq!(book.purses.len(), 0);
}
