//! What this replica knows by itself, change by change.
use super::*;
use crate::ledger::Want;
use crate::samples::Sample;

const NOW_MS: u64 = 1_796_075_410_000;

fn member() -> Member {
    Member { id: "dep-a".into(), model: "openai/gpt-4o".into() }
}

fn hold(tpm: u64) -> Hold {
    Hold { rpm: 1, tpm, ..Hold::unreserved(member(), NOW_MS) }
}

fn cooldown(length_ms: u64) -> Cooldown {
    let (member, reason) = (member(), String::new());
    Cooldown { member, length_ms, status: 429, reason, probation: false, probe: None }
}

fn admitted_by_share(mut local: Local, limit: u64, replicas: u64) -> usize {
    let want =
        Want { member: member(), rpm_limit: Some(limit), tpm_limit: None, tpm_hold: 0, must_fit: false };
    let reserve = Reserve { wants: vec![want], ignore_cooldown: false };
    (0..100)
        .filter(|_| {
            let reserved = local.reserve_share(reserve.clone(), replicas, NOW_MS);
            matches!(reserved, Reserved::Granted { .. })
        })
        .count()
}

#[test]
fn a_share_is_admitted_and_no_more() {
    assert_eq!(admitted_by_share(Local::default(), 30, 3), 10);
    assert_eq!(admitted_by_share(Local::default(), 0, 3), 0);
}

#[test]
fn what_others_were_seen_to_use_is_not_admitted_again() {
    let mut local = Local::default();
    local.saw(Minute::of(NOW_MS), &member(), (Some(24), None), Delta::default());
    assert_eq!(admitted_by_share(local, 30, 3), 2);
}

#[test]
fn what_redis_granted_is_taken_off_the_share() {
    let mut local = Local::default();
    local.granted(&hold(0), NOW_MS);
    let want = Want { member: member(), rpm_limit: Some(2), tpm_limit: None, tpm_hold: 0, must_fit: false };
    let reserve = Reserve { wants: vec![want], ignore_cooldown: false };
    let reserved = local.reserve_share(reserve, 2, NOW_MS);
    let passed = vec![(0, Denial::Share { wait_ms: 50_000 })];
    assert_eq!(reserved, Reserved::Refused { passed });
}

#[test]
fn unsent_changes_fold_however_many_there_are() {
    let mut local = Local::default();
    for _ in 0..1_000 {
        local.granted(&hold(10), NOW_MS);
        local.settle(
            &Settle { hold: hold(10), tokens: 7, outcome: Outcome::Failure, sample: Sample::default() },
            NOW_MS,
        );
    }
    let unsent = local.take_unsent(NOW_MS);
    assert_eq!(unsent.len(), 1);
    assert_eq!(unsent[0].1.fresh, Delta { rpm: 0, tpm: -3_000, calls: 1_000, fails: 1_000 });
}

#[test]
fn unsent_changes_of_a_window_long_gone_are_forgotten() {
    let mut local = Local::default();
    local.void(&hold(10), NOW_MS);
    assert_eq!(local.take_unsent(NOW_MS + 120_000).len(), 0);
}

#[test]
fn a_shorter_cooldown_does_not_displace_an_unsent_longer_one() {
    let mut local = Local::default();
    for length_ms in [5_000, 1_000] {
        local.cool(cooldown(length_ms), NOW_MS);
    }
    assert_eq!(local.unsent_cooldowns()[0].1.cooling.until_ms, NOW_MS + 5_000);
    local.cooldown_written("dep-a", NOW_MS + 1_000);
    assert!(local.has_unsent());
    local.cooldown_written("dep-a", NOW_MS + 5_000);
    assert!(!local.has_unsent());
}

#[test]
fn a_cooldown_that_redis_no_longer_has_is_over_unless_it_is_unsent() {
    let mut local = Local::default();
    local.cool(cooldown(5_000), NOW_MS);
    local.learn(&member().id, None, NOW_MS);
    assert!(local.cooling("dep-a", NOW_MS).is_some());
    local.cooldown_written("dep-a", NOW_MS + 5_000);
    local.learn(&member().id, None, NOW_MS);
    assert!(local.cooling("dep-a", NOW_MS).is_none());
}
