//! What comes after a miss, in the words of the rules.
use super::*;
use crate::catalog::Catalog;
use crate::config::{Environment, load_text};
use crate::providers::Failure;
use routing::{Ranked, Strategy};

fn catalog(deployments: &str) -> Catalog {
    let mut text = "router_settings: {num_retries: 2}\nmodel_list:\n".to_owned();
    for line in deployments.lines() {
        let (id, order) = line.trim().split_once(' ').unwrap_or((line.trim(), ""));
        let order = order.strip_prefix("order=").map(|order| format!(", order: {order}")).unwrap_or_default();
        text += &format!(
            "  - {{model_name: chat, litellm_params: {{model: m, mock_response: x{order}}}, model_info: {{id: {id}}}}}\n"
        );
    }
    load_text("test", &text, &Environment::default()).unwrap().catalog
}

/// The decision that ranks these of the group.
fn ranking(group: &Group, ids: &[&str]) -> Decision {
    let world = ledger::View { minute: ledger::Minute::of(0), read_at_ms: 0, readings: Vec::new() };
    let facts = routing::Facts {
        now_ms: 0,
        dice: 1,
        view: &world,
        strategy: Strategy::SimpleShuffle,
        limits_bind: false,
        only: None,
        excluded: &[],
        failed: &[],
    };
    let mut decision = routing::decide(&group.routing, &facts);
    let place = |id: &&str| group.routing.deployments.iter().position(|one| *one.id == **id).unwrap();
    decision.ranked = ids
        .iter()
        .map(|id| Ranked { index: place(id), id: (*id).into(), score: 0.0, spent: false, probation: false })
        .collect();
    decision
}

fn failed(id: &str, kind: FailureKind, retry_wait: Option<u64>) -> Miss {
    let retry_wait = retry_wait.map(Duration::from_secs);
    let failure = Failure { retry_wait, ..Failure::new(kind, "scripted") };
    Miss::Failed { id: id.into(), failure, num_retries: None }
}

struct World {
    catalog: Catalog,
    tries: Tries,
    num_retries: Option<u32>,
    left: Option<Duration>,
    named: bool,
}

impl World {
    fn of(deployments: &str) -> Self {
        Self {
            catalog: catalog(deployments),
            tries: Tries::default(),
            num_retries: None,
            left: None,
            named: false,
        }
    }

    fn after(&mut self, miss: &Miss, ranked: &[&str]) -> Next {
        let group = &self.catalog.groups[0];
        let bounds = Bounds {
            settings: &self.catalog.settings,
            num_retries: self.num_retries,
            named: self.named,
            left: self.left,
            jitter: 0.0,
        };
        self.tries.after(miss, &ranking(group, ranked), group, &bounds)
    }
}

const NOW: Next = Next::Again(Duration::ZERO);

#[test]
fn while_a_peer_is_left_the_retry_comes_at_once_and_the_allowance_ends_it() {
    let mut world = World::of("a\nb\nc\nd");
    assert_eq!(world.after(&failed("a", FailureKind::Server, None), &["a", "b", "c", "d"]), NOW);
    assert_eq!(world.after(&failed("b", FailureKind::Server, None), &["b", "c", "d"]), NOW);
    assert_eq!(world.after(&failed("c", FailureKind::Server, None), &["c", "d"]), Next::GiveUp);
    assert_eq!(world.tries.retries, 2);
}

#[test]
fn a_dead_key_costs_no_allowance_and_is_not_asked_again() {
    let mut world = World::of("a\nb\nc\nd");
    world.num_retries = Some(1);
    for (id, ranked) in [("a", &["a", "b", "c", "d"][..]), ("b", &["b", "c", "d"]), ("c", &["c", "d"])] {
        assert_eq!(world.after(&failed(id, FailureKind::Auth, None), ranked), NOW);
    }
    assert_eq!(world.after(&failed("d", FailureKind::NotFound, None), &["d"]), Next::GiveUp);
}

#[test]
fn no_retries_means_none_for_any_kind() {
    for kind in [FailureKind::Auth, FailureKind::Server, FailureKind::Timeout] {
        let mut world = World::of("a\nb");
        world.num_retries = Some(0);
        assert_eq!(world.after(&failed("a", kind, None), &["a", "b"]), Next::GiveUp);
    }
}

#[test]
fn a_lone_deployment_is_asked_again_after_a_doubling_wait() {
    let mut world = World::of("a");
    let failure = failed("a", FailureKind::Server, None);
    assert_eq!(world.after(&failure, &["a"]), Next::Again(Duration::from_millis(500)));
    assert_eq!(world.after(&failure, &["a"]), Next::Again(Duration::from_secs(1)));
    assert_eq!(world.after(&failure, &["a"]), Next::GiveUp);
}

#[test]
fn a_lone_deployment_is_waited_for_as_long_as_it_asks_up_to_a_minute() {
    let waits = [(Some(7), 7_000), (Some(60), 60_000), (Some(61), 500), (None, 500)];
    for (asked, wait_ms) in waits {
        let mut world = World::of("a");
        let next = world.after(&failed("a", FailureKind::RateLimit, asked), &["a"]);
        assert_eq!(next, Next::Again(Duration::from_millis(wait_ms)), "asked {asked:?}");
    }
}

#[test]
fn a_wait_beyond_the_requests_time_is_not_begun() {
    let mut world = World::of("a");
    world.left = Some(Duration::from_secs(7));
    assert_eq!(world.after(&failed("a", FailureKind::RateLimit, Some(7)), &["a"]), Next::GiveUp);
}

#[test]
fn the_callers_fault_is_not_retried_and_moves_to_no_tier() {
    let mut world = World::of("a order=1\nb order=2");
    assert_eq!(world.after(&failed("a", FailureKind::BadRequest, None), &["a"]), Next::GiveUp);
    assert!(world.tries.excluded.is_empty());
}

#[test]
fn a_tier_that_has_had_its_tries_is_left_for_the_next_with_a_new_allowance() {
    let mut world = World::of("a order=1\nb order=2\nc");
    world.num_retries = Some(0);
    assert_eq!(world.after(&failed("a", FailureKind::Server, None), &["a"]), NOW);
    assert_eq!(*world.tries.excluded, [std::sync::Arc::<str>::from("a")]);
    assert_eq!(world.after(&failed("b", FailureKind::Server, None), &["b"]), NOW);
    assert_eq!(world.after(&failed("c", FailureKind::Server, None), &["c"]), Next::GiveUp);
}

#[test]
fn a_tier_without_a_peer_is_left_at_once_instead_of_waited_for() {
    let mut world = World::of("a order=1\nb order=2");
    assert_eq!(world.after(&failed("a", FailureKind::Server, None), &["a"]), NOW);
    assert_eq!(*world.tries.excluded, [std::sync::Arc::<str>::from("a")]);
}

fn busy() -> Miss {
    let group = "chat".into();
    Miss::Busy(crate::refusal::Busy {
        group,
        wait_ms: 5,
        cooling: Vec::new(),
        unreserved: Vec::new(),
        limited: Vec::new(),
        pre_call_checks: false,
    })
}

#[test]
fn one_that_is_named_keeps_its_retries_and_leaves_for_no_tier() {
    let mut world = World::of("a order=1\nb order=2");
    world.named = true;
    let failure = failed("a", FailureKind::Server, None);
    assert_eq!(world.after(&failure, &["a"]), Next::Again(Duration::from_millis(500)));
    assert_eq!(world.after(&busy(), &["a"]), Next::GiveUp);
    assert!(world.tries.excluded.is_empty());
}

#[test]
fn that_nobody_may_be_asked_never_hides_that_waiting_would_have_helped() {
    let nobody = || Miss::NoCandidate { group: "chat".into(), why: "blocked".into() };
    let verdict = |earlier: Vec<Miss>, last: Miss| {
        let mut tries = Tries::default();
        earlier.into_iter().for_each(|miss| tries.remember(miss));
        match tries.verdict(last) {
            Miss::Busy(_) => "busy".to_owned(),
            Miss::NoCandidate { .. } => "nobody".to_owned(),
            Miss::Failed { failure, .. } => failure.kind.name().to_owned(),
        }
    };
    let limited = || failed("a", FailureKind::RateLimit, None);
    let broken = || failed("a", FailureKind::Server, None);
    assert_eq!(verdict(vec![busy()], nobody()), "busy");
    assert_eq!(verdict(vec![limited()], nobody()), "rate_limit");
    assert_eq!(verdict(vec![limited()], busy()), "busy");
    assert_eq!(verdict(vec![broken(), busy()], nobody()), "server");
    assert_eq!(verdict(vec![broken()], limited()), "rate_limit");
    assert_eq!(verdict(vec![], nobody()), "nobody");
}
