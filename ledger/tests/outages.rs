//! Redis frozen, killed, absent, demoted: every request is answered, limits stay bounded, and it ends by itself.
use crate::redis_server::free_port;
use crate::world::{
    STRICT, Wire, World, cooldown, counter, get, group, hold_of, is_granted, member, one, run, until, want,
};
use ledger::{
    Clock, Denial, Hold, Ledger, Outcome, RedisLedger, RedisSettings, Reserved, Sample, Settle, Status,
    SystemClock,
};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

/// A deadline and what a loaded machine adds to it. The verdict that Redis is away needs a second deadline.
const ANSWERED_WITHIN: Duration = Duration::from_secs(2);

async fn asked(ledger: &RedisLedger, id: &str, limit: u64) -> bool {
    let began = SystemClock.instant();
    let reserved = ledger.reserve(one(want(id, Some(limit), 0))).await;
    assert!(began.elapsed() < ANSWERED_WITHIN, "a reservation took {:?}", began.elapsed());
    is_granted(&reserved)
}

async fn becomes(ledger: &RedisLedger, status: Status) {
    until(&format!("the ledger is {status:?}"), async || ledger.status() == status).await;
}

/// Two replicas that know of each other.
async fn pair(world: &World) -> [Arc<RedisLedger>; 2] {
    let pair = [world.ledger(STRICT).await, world.ledger(STRICT).await];
    let mut redis = world.server.connection().await;
    // Two beats of both, so that each has been told of the other.
    let stats = async |redis: &mut redis::aio::MultiplexedConnection| -> u64 {
        let stats: String = redis::cmd("INFO").arg("commandstats").query_async(redis).await.unwrap();
        let line = stats.lines().find_map(|line| line.strip_prefix("cmdstat_zadd:calls=")).unwrap();
        line.split(',').next().unwrap().parse().unwrap()
    };
    until("both replicas have beaten again", async || stats(&mut redis).await >= 5).await;
    pair
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_redis_costs_no_request_its_answer() {
    let world = World::new();
    let ledger = world.ledger(STRICT).await;
    assert!(asked(&ledger, "dep-a", 1_000).await);
    world.server.freeze();

    let mut requests = JoinSet::new();
    for _ in 0..600 {
        let ledger = Arc::clone(&ledger);
        requests.spawn(async move { asked(&ledger, "dep-a", 1_000).await });
    }
    assert!(requests.join_all().await.into_iter().all(|granted| granted));
    becomes(&ledger, Status::Away).await;
    assert!(asked(&ledger, "dep-a", 1_000).await);
    let view = ledger.view(&group(&["dep-a"])).await;
    assert_eq!(view.readings[0].rpm, 602);

    world.server.thaw();
    becomes(&ledger, Status::Shared).await;
    let mut redis = world.server.connection().await;
    // What was granted alone is pushed; a call that ran after all may count twice, and none may be missing.
    until("the counts are pushed", async || {
        get(&mut redis, &counter("dep-a", "rpm")).await.is_some_and(|rpm| rpm >= 602)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_redis_costs_no_request_its_answer_and_is_found_again() {
    let mut world = World::new();
    let ledger = world.ledger(STRICT).await;
    world.server.kill();
    for _ in 0..20 {
        assert!(asked(&ledger, "dep-a", 1_000).await);
    }
    becomes(&ledger, Status::Away).await;
    ledger.settle(Settle {
        hold: Hold::unreserved(member("dep-a"), ledger.now_ms()),
        tokens: 7,
        outcome: Outcome::Failure,
        sample: Sample::default(),
    });
    ledger.cool(cooldown("dep-b", 30_000));
    ledger.drain().await;
    assert!(!asked(&ledger, "dep-b", 5).await);

    world.server.restart();
    becomes(&ledger, Status::Shared).await;
    let mut redis = world.server.connection().await;
    assert_eq!(get(&mut redis, &counter("dep-a", "rpm")).await, Some(20));
    assert_eq!(get(&mut redis, &counter("dep-a", "tpm")).await, Some(7));
    assert_eq!(get(&mut redis, &counter("dep-a", "fails")).await, Some(1));
    let cooling: bool =
        redis::cmd("EXISTS").arg("deployment:dep-b:cooldown").query_async(&mut redis).await.unwrap();
    assert!(cooling);
    assert!(asked(&ledger, "dep-a", 21).await);
    assert!(!asked(&ledger, "dep-a", 21).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_redis_is_away_all_replicas_together_keep_the_limit() {
    let mut world = World::new();
    let replicas = pair(&world).await;
    // The first has used three of its five already, and must remember them.
    for _ in 0..3 {
        assert!(asked(&replicas[0], "dep-a", 11).await);
    }
    world.server.kill();
    for replica in &replicas {
        becomes(replica, Status::Away).await;
    }
    let mut granted = [0, 0];
    for _ in 0..20 {
        for (granted, replica) in granted.iter_mut().zip(&replicas) {
            *granted += usize::from(asked(replica, "dep-a", 11).await);
        }
    }
    assert_eq!(granted, [2, 5]);
    let refused = replicas[1].reserve(one(want("dep-a", Some(11), 0))).await;
    assert_eq!(refused, Reserved::Refused { passed: vec![(0, Denial::Share { wait_ms: 50_000 })] });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_lost_its_memory_is_told_again_by_all_replicas() {
    let mut world = World::new();
    let replicas = pair(&world).await;
    for (replica, requests) in replicas.iter().zip([3, 4]) {
        for _ in 0..requests {
            assert!(asked(replica, "dep-a", 100).await);
        }
    }
    replicas[0].cool(cooldown("dep-b", 40_000));
    replicas[0].drain().await;
    world.server.kill();
    for replica in &replicas {
        becomes(replica, Status::Away).await;
        assert!(asked(replica, "dep-a", 100).await);
    }
    world.server.restart();
    for replica in &replicas {
        becomes(replica, Status::Shared).await;
    }
    let mut redis = world.server.connection().await;
    assert_eq!(get(&mut redis, &counter("dep-a", "rpm")).await, Some(9));
    assert!(asked(&replicas[0], "dep-a", 10).await);
    assert!(!asked(&replicas[1], "dep-a", 10).await);
    assert!(!asked(&replicas[1], "dep-b", 10).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_only_lost_touch_is_not_told_twice() {
    let world = World::new();
    let ledger = world.ledger(STRICT).await;
    for _ in 0..3 {
        assert!(asked(&ledger, "dep-a", 100).await);
    }
    world.server.freeze();
    becomes(&ledger, Status::Away).await;
    assert!(asked(&ledger, "dep-a", 100).await);
    world.server.thaw();
    becomes(&ledger, Status::Shared).await;
    assert_eq!(get(&mut world.server.connection().await, &counter("dep-a", "rpm")).await, Some(4));
}

/// A ledger that is connected by a wire that can be cut.
async fn over_a_wire(world: &World) -> (Wire, Arc<RedisLedger>) {
    let wire = Wire::to(&world.server).await;
    let settings = RedisSettings::of_url(&wire.url(), "").unwrap();
    let ledger = RedisLedger::start_for_scenario(settings, world.clock.clone(), STRICT).unwrap();
    becomes(&ledger, Status::Shared).await;
    (wire, ledger)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_line_that_is_dead_is_replaced_though_redis_is_well() {
    let world = World::new();
    let (wire, ledger) = over_a_wire(&world).await;
    let mut redis = world.server.connection().await;
    wire.cut();
    until("a reservation reaches redis again", async || {
        assert!(asked(&ledger, "dep-a", 1_000).await);
        run(&mut redis, "PING").await;
        let before = get(&mut redis, &counter("dep-b", "rpm")).await.unwrap_or(0);
        assert!(asked(&ledger, "dep-b", 1_000).await);
        get(&mut redis, &counter("dep-b", "rpm")).await.unwrap_or(0) > before
    })
    .await;
    assert_eq!(ledger.status(), Status::Shared);
}

#[tokio::test]
async fn a_void_while_redis_is_away_gives_the_share_back() {
    let mut world = World::new();
    let ledger = world.ledger(STRICT).await;
    world.server.kill();
    becomes(&ledger, Status::Away).await;
    let hold = hold_of(ledger.reserve(one(want("dep-a", Some(1), 0))).await);
    assert!(!asked(&ledger, "dep-a", 1).await);
    ledger.void(hold);
    assert!(asked(&ledger, "dep-a", 1).await);
}

#[tokio::test]
async fn a_ledger_starts_without_redis_and_joins_it_later() {
    let mut world = World::new();
    world.server.kill();
    let ledger = RedisLedger::start_for_scenario(world.settings(), world.clock.clone(), STRICT).unwrap();
    assert_eq!(ledger.status(), Status::Away);
    for _ in 0..5 {
        assert!(asked(&ledger, "dep-a", 5).await);
    }
    assert!(!asked(&ledger, "dep-a", 5).await);
    assert_eq!(ledger.view(&group(&["dep-a"])).await.readings[0].rpm, 5);
    world.server.restart();
    becomes(&ledger, Status::Shared).await;
    assert_eq!(get(&mut world.server.connection().await, &counter("dep-a", "rpm")).await, Some(5));
}

#[tokio::test]
async fn a_redis_that_takes_no_writes_is_away_until_it_does() {
    let world = World::new();
    let ledger = world.ledger(STRICT).await;
    let mut redis = world.server.connection().await;
    run(&mut redis, &format!("REPLICAOF 127.0.0.1 {}", free_port())).await;
    assert!(asked(&ledger, "dep-a", 5).await);
    becomes(&ledger, Status::Away).await;
    run(&mut redis, "REPLICAOF NO ONE").await;
    becomes(&ledger, Status::Shared).await;
    assert_eq!(get(&mut redis, &counter("dep-a", "rpm")).await, Some(1));
}

#[tokio::test]
async fn a_key_that_is_no_counter_does_not_bring_the_ledger_down() {
    let world = World::new();
    let ledger = world.ledger(STRICT).await;
    let mut redis = world.server.connection().await;
    run(&mut redis, &format!("SET {} nonsense", counter("dep-a", "rpm"))).await;
    assert!(asked(&ledger, "dep-a", 5).await);
    assert!(asked(&ledger, "dep-b", 5).await);
    for id in ["dep-a", "dep-b"] {
        let hold = Hold::unreserved(member(id), ledger.now_ms());
        ledger.settle(Settle { hold, tokens: 7, outcome: Outcome::Success, sample: Sample::default() });
    }
    // Whatever cannot be written to the one must not be written to the other again and again.
    for _ in 0..3 {
        ledger.drain().await;
    }
    assert_eq!(get(&mut redis, &counter("dep-b", "rpm")).await, Some(1));
    assert_eq!(get(&mut redis, &counter("dep-b", "tpm")).await, Some(7));
    assert_eq!(get(&mut redis, &counter("dep-b", "calls")).await, Some(1));
    assert_eq!(ledger.status(), Status::Shared);
}

#[test]
fn an_address_that_can_never_work_is_an_error_that_does_not_repeat_it() {
    for url in ["", "nonsense", "http://:hunter2@host/", "redis://:hunter2@host:port/"] {
        let error = RedisSettings::of_url(url, "prod").expect_err("the address was taken");
        assert!(error.to_string().starts_with("the redis url cannot be used"), "{error}");
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }
}

#[tokio::test]
async fn what_another_replica_has_used_up_is_not_admitted_again_while_redis_is_away() {
    let mut world = World::new();
    let [ours, others] = pair(&world).await;
    for _ in 0..30 {
        assert!(asked(&others, "dep-a", 30).await);
    }
    // Told no once, this replica knows that the limit is spent, and not by itself.
    assert!(!asked(&ours, "dep-a", 30).await);
    world.server.kill();
    becomes(&ours, Status::Away).await;
    becomes(&others, Status::Away).await;
    for ledger in [&ours, &others] {
        assert!(!asked(ledger, "dep-a", 30).await);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_that_finds_an_empty_redis_does_not_believe_to_be_alone() {
    let mut world = World::new();
    let replicas = pair(&world).await;
    world.server.kill();
    for replica in &replicas {
        becomes(replica, Status::Away).await;
    }
    world.server.restart();
    for replica in &replicas {
        becomes(replica, Status::Shared).await;
    }
    // Before the first has had time to beat again and to be told of the second.
    world.server.kill();
    let mut granted = [0, 0];
    for (granted, replica) in granted.iter_mut().zip(&replicas) {
        becomes(replica, Status::Away).await;
        for _ in 0..20 {
            *granted += usize::from(asked(replica, "dep-a", 10).await);
        }
    }
    assert_eq!(granted, [5, 5]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_report_that_is_lost_with_its_line_is_asked_for_again_on_another() {
    let world = World::new();
    let (wire, ledger) = over_a_wire(&world).await;
    let mut redis = world.server.connection().await;
    wire.cut();
    let hold = Hold::unreserved(member("dep-a"), ledger.now_ms());
    ledger.settle(Settle { hold, tokens: 5, outcome: Outcome::Failure, sample: Sample::default() });
    until("the report is written", async || get(&mut redis, &counter("dep-a", "tpm")).await.is_some()).await;
    // The one that was cut off has not reached Redis, so this is the one that was asked for again.
    assert_eq!(get(&mut redis, &counter("dep-a", "tpm")).await, Some(5));
    assert_eq!(get(&mut redis, &counter("dep-a", "calls")).await, Some(1));
}
