//! The checker sees each invariant break: small stories, each wrong in one way.
use super::check::check;
use super::event::{Deployment, Ended, Event, What};
use super::evidence::{Evidence, Faults, Found, Invariant, Listed};
use super::monitor::{Act, Execution};

const AT_US: u64 = 1_796_075_400_000_000;

/// A deployment of rpm 2, and one that no limit binds.
fn evidence() -> Evidence {
    let deployment = |id: &str, rpm| Deployment { id: id.to_owned(), rpm, tpm: None };
    let deployments = vec![deployment("a", Some(2)), deployment("b", None)];
    Evidence { deployments, replicas: 2, deadline_ms: 100, ..Evidence::default() }
}

fn event(what: What) -> Event {
    Event { at_ms: AT_US / 1_000, replica: 1, what }
}

fn granted(hold: u64, id: &str) -> [Event; 2] {
    let (id, minute) = (id.to_owned(), "21-50".to_owned());
    let asked = What::Asked { hold, anyway: false, ids: vec![id.clone()] };
    [event(asked), event(What::Granted { hold, id, minute, rpm: 1, wait_us: 90, away: false })]
}

fn refused(hold: u64) -> [Event; 2] {
    let asked = What::Asked { hold, anyway: false, ids: Vec::new() };
    [event(asked), event(What::Refused { hold, why: Vec::new(), wait_us: 90, away: false })]
}

fn script(name: &str, commands: &[&str]) -> Act {
    let text = if name == "reserve" { include_str!("../../../lua/reserve.lua") } else { name };
    let split = |line: &&str| line.split(' ').map(str::to_owned).collect();
    let inner = commands.iter().map(split).collect();
    let words = vec!["EVAL".to_owned(), text.to_owned()];
    Act::Executed(Execution { at_us: AT_US, ended_us: AT_US, words, inner })
}

/// What the reserve script does for this hold.
fn charge(hold: u64, id: &str, first: bool) -> Act {
    let [rpm, tpm] = ["rpm", "tpm"].map(|kind| format!("{id}:openai/{id}:{kind}:21-50"));
    let arm = if first { "PEXPIRE" } else { "PTTL" };
    let lines = [
        format!("INCRBY {rpm} 1"),
        format!("{arm} {rpm} 60000"),
        format!("INCRBY {tpm} {hold}"),
        format!("{arm} {tpm} 60000"),
    ];
    script("reserve", &lines.each_ref().map(String::as_str))
}

fn broken(evidence: &Evidence) -> Vec<Invariant> {
    check(evidence).broken()
}

fn settled(hold: u64, tokens: u64) -> Event {
    event(What::Settled { hold, id: "a".to_owned(), reserved: true, tokens, ended: Ended::Neutral })
}

#[test]
fn a_story_in_which_all_is_well_breaks_nothing() {
    let mut it = evidence();
    it.events = [granted(10, "a"), granted(11, "a"), refused(12)].concat();
    it.events.push(settled(10, 7));
    it.acts = vec![charge(10, "a", true), charge(11, "a", false)];
    it.acts.push(script("settle", &["INCRBY a:openai/a:tpm:21-50 -3"]));
    let verdict = check(&it);
    assert_eq!(verdict.found, []);
    assert_eq!((verdict.figures.granted, verdict.figures.refused), (2, 1));
}

#[test]
fn one_more_than_the_limit_is_found() {
    let mut it = evidence();
    it.events = [granted(10, "a"), granted(11, "a"), granted(12, "a")].concat();
    it.acts = vec![charge(10, "a", true), charge(11, "a", false), charge(12, "a", false)];
    assert_eq!(broken(&it), [Invariant::I1]);
}

#[test]
fn a_grant_without_a_slot_is_found_and_a_slot_without_a_grant() {
    let mut it = evidence();
    it.events = granted(10, "b").to_vec();
    // The counter shows one less than was admitted, whatever was meant.
    assert!(broken(&it).contains(&Invariant::I1));
    it.events = refused(10).to_vec();
    it.acts = vec![charge(10, "b", true)];
    assert_eq!(broken(&it), [Invariant::I1]);
    it.events.clear();
    assert!(broken(&it).contains(&Invariant::I1));
}

#[test]
fn a_slot_that_was_taken_twice_is_found() {
    let mut it = evidence();
    it.events = granted(10, "b").to_vec();
    it.acts = vec![charge(10, "b", true), charge(10, "b", false)];
    assert_eq!(broken(&it), [Invariant::I1]);
    it.faults.unknown = true;
    assert_eq!(broken(&it), []);
}

#[test]
fn a_counter_without_a_time_to_live_is_found_where_it_is_made_and_where_it_is_seen() {
    let mut it = evidence();
    it.acts = vec![script("settle", &["INCRBY b:openai/b:calls:21-50 1"])];
    assert!(broken(&it).contains(&Invariant::I2));
    it.acts.clear();
    let key = "b:openai/b:calls:21-50".to_owned();
    for (left_ms, want) in [(-1, vec![Invariant::I2]), (60_001, vec![Invariant::I2]), (60_000, vec![])] {
        it.listed = vec![Listed { key: key.clone(), number: Some(1), left_ms }];
        assert_eq!(broken(&it), want, "{left_ms}");
    }
}

#[test]
fn a_time_to_live_that_is_renewed_is_found() {
    let mut it = evidence();
    it.events = [granted(10, "b"), granted(11, "b")].concat();
    it.acts = vec![charge(10, "b", true), charge(11, "b", true)];
    assert_eq!(broken(&it), [Invariant::I2]);
}

#[test]
fn a_refund_that_makes_a_counter_or_goes_below_zero_or_is_of_another_window_is_found() {
    let back = "INCRBY a:openai/a:rpm:21-50 -1";
    for acts in [
        vec![script("settle", &[back, "PEXPIRE a:openai/a:rpm:21-50 60000"])],
        vec![charge(10, "a", true), script("settle", &[back]), script("settle", &[back])],
    ] {
        let mut it = evidence();
        it.events = granted(10, "a").to_vec();
        it.events.push(event(What::Voided { hold: 10 }));
        it.acts = acts;
        assert!(broken(&it).contains(&Invariant::I3));
    }
    let mut it = evidence();
    it.events = granted(10, "a").to_vec();
    it.acts = vec![charge(10, "a", true), script("settle", &[back])];
    assert!(broken(&it).contains(&Invariant::I3));
}

#[test]
fn a_reservation_while_it_cools_down_and_an_end_that_moves_earlier_are_found() {
    let cool = |ms: u64| script("cool", &[&format!("SET deployment:b:cooldown x PX {ms}")]);
    let mut it = evidence();
    it.events = granted(10, "b").to_vec();
    it.acts = vec![cool(5_000), charge(10, "b", true)];
    assert_eq!(broken(&it), [Invariant::I4]);
    if let What::Asked { anyway, .. } = &mut it.events[0].what {
        *anyway = true;
    }
    assert_eq!(broken(&it), []);
    it.acts = vec![charge(10, "b", true), cool(5_000), cool(4_000)];
    assert_eq!(broken(&it), [Invariant::I4]);
}

#[test]
fn a_report_that_never_came_is_found_unless_its_replica_was_killed() {
    let mut it = evidence();
    it.events = granted(10, "a").to_vec();
    it.events.push(settled(10, 500));
    it.acts = vec![charge(10, "a", true)];
    assert_eq!(broken(&it), [Invariant::I6]);
    it.faults.killed = vec![(1, AT_US / 1_000 + 100)];
    assert_eq!(broken(&it), []);
    it.faults.killed = vec![(1, AT_US / 1_000 + 10_000)];
    assert_eq!(broken(&it), [Invariant::I6]);
}

#[test]
fn a_counter_that_shows_something_else_than_was_done_is_found() {
    let mut it = evidence();
    it.events = granted(10, "a").to_vec();
    it.acts = vec![charge(10, "a", true)];
    it.listed_us = AT_US;
    it.listed = vec![Listed { key: "a:openai/a:rpm:21-50".to_owned(), number: Some(2), left_ms: 9 }];
    assert_eq!(broken(&it), [Invariant::I6]);
}

#[test]
fn shares_above_the_limit_are_found() {
    let mut it = evidence();
    it.faults = Faults { unknown: true, away: vec!["21-50".to_owned()], ..Faults::default() };
    it.faults.forgotten = it.faults.away.clone();
    it.events = [granted(10, "a"), granted(11, "a"), granted(12, "a")].concat();
    for (event, replica) in it.events.iter_mut().zip([1, 1, 2, 2, 3, 3]) {
        event.replica = replica;
    }
    assert_eq!(broken(&it), [Invariant::I8]);
    it.events.truncate(4);
    assert_eq!(broken(&it), []);
    // Each its own part, however much is left.
    it.events.iter_mut().for_each(|event| event.replica = 1);
    assert_eq!(broken(&it), [Invariant::I8]);
}

#[test]
fn a_wait_beyond_the_deadline_is_found_unless_the_machine_stood_still() {
    let mut it = evidence();
    it.events = vec![event(What::Viewed { wait_us: 351_000 })];
    assert_eq!(broken(&it), [Invariant::I9]);
    it.events.push(event(What::Stalled { by_us: 40_000 }));
    assert_eq!(broken(&it), []);
}

#[test]
fn what_the_reader_saw_is_found() {
    let mut it = evidence();
    it.samples = vec![Found { invariant: Invariant::I2, text: String::new() }];
    assert_eq!(broken(&it), [Invariant::I2]);
}
