//! Money on a real Redis: every hold ends exactly once whatever happens to the server, and what stands there.
use crate::world::{
    PATIENT, START_HH_MM, START_MS, World, account, claim, figures, get, held, hold_spend, pttl, run,
};
use ledger::{
    Account, AddSpend, BudgetWindow, Claim, Fit, HeldSpend, HoldSpend, Ledger, MicroDollars, RedisLedger,
    RenewSpend,
};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use redis::aio::MultiplexedConnection;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::task::JoinSet;

async fn keys(redis: &mut MultiplexedConnection) -> Vec<String> {
    let mut keys: Vec<String> = redis::cmd("KEYS").arg("*").query_async(redis).await.unwrap();
    keys.retain(|key| !["onegate:replicas", "onegate:epoch"].contains(&key.as_str()));
    keys.sort();
    keys
}

async fn replicas(world: &World, number: usize) -> Vec<Arc<RedisLedger>> {
    let mut ledgers = Vec::new();
    for _ in 0..number {
        ledgers.push(world.ledger(PATIENT).await);
    }
    ledgers
}

async fn granted(ledgers: &[Arc<RedisLedger>], ask: impl Fn(usize) -> HoldSpend, requests: usize) -> usize {
    let mut asked = JoinSet::new();
    for number in 0..requests {
        let (ledger, ask) = (Arc::clone(&ledgers[number % ledgers.len()]), ask(number));
        asked.spawn(async move { matches!(ledger.hold_spend(ask).await, HeldSpend::Granted { .. }) });
    }
    asked.join_all().await.into_iter().filter(|&granted| granted).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn four_replicas_admit_exactly_what_fits_into_a_budget() {
    let world = World::new();
    let ledgers = replicas(&world, 4).await;
    let below =
        |n| hold_spend(&format!("b{n}"), &[claim("key:below", 100, 10), claim("team", 1_000_000, 10)]);
    assert_eq!(granted(&ledgers, below, 400).await, 10);
    let whole =
        |n| HoldSpend { fit: Fit::Whole, ..hold_spend(&format!("w{n}"), &[claim("key:whole", 100, 3)]) };
    assert_eq!(granted(&ledgers, whole, 400).await, 33);
    // A refusal has held nothing on the accounts that would have had room.
    assert_eq!(figures(&*ledgers[0], "team").await, [0, 100, 0]);
}

/// How a hold ends.
async fn live(ledger: &RedisLedger, number: u64, dice: &mut StdRng) -> [u64; 2] {
    let amount = dice.random_range(1..100);
    let claims = [claim(&format!("key:{}", number % 3), 1 << 40, amount), claim("team", 1 << 40, amount)];
    let ask = HoldSpend { lease_ms: 30_000, ..hold_spend(&format!("h{number}"), &claims) };
    if dice.random_bool(0.1) {
        // The caller leaves while the ledger is asked.
        tokio::select! {
            biased;
            answer = ledger.hold_spend(ask) => ledger.void_spend(&held(answer)),
            () = tokio::task::yield_now() => {}
        }
        return [0, 0];
    }
    let hold = held(ledger.hold_spend(ask).await);
    let cost = dice.random_range(0..150);
    let settle = || ledger.settle_spend(&hold, MicroDollars::new(cost));
    match dice.random_range(0..6) {
        0 => {
            ledger.void_spend(&hold);
            ledger.void_spend(&hold);
            settle();
            [0, 0]
        }
        1 => [0, 0],
        2 => {
            ledger.renew_spend(RenewSpend { hold, lease_ms: 0, sent: true });
            [0, amount]
        }
        3 => {
            settle();
            ledger.drain().await;
            settle();
            ledger.void_spend(&hold);
            [cost, 0]
        }
        4 => {
            ledger.renew_spend(RenewSpend { hold: hold.clone(), lease_ms: 40_000, sent: true });
            tokio::task::yield_now().await;
            settle();
            [cost, 0]
        }
        _ => {
            settle();
            [cost, 0]
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_hold_ends_exactly_once_though_connections_and_scripts_are_lost() {
    const TASKS: u64 = 16;
    const HOLDS: u64 = 40;
    let world = World::new();
    let ledgers = replicas(&world, 4).await;
    let over = Arc::new(AtomicBool::new(false));
    let (mut redis, stop) = (world.server.connection().await, Arc::clone(&over));
    let mut trouble = JoinSet::new();
    trouble.spawn(async move {
        while !stop.load(Ordering::Relaxed) {
            run(&mut redis, "CLIENT KILL TYPE normal SKIPME yes").await;
            run(&mut redis, "SCRIPT FLUSH").await;
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
    });
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        let ledger = Arc::clone(&ledgers[usize::try_from(task).unwrap() % ledgers.len()]);
        tasks.spawn(async move {
            let mut dice = StdRng::seed_from_u64(task);
            let mut sums = [0, 0];
            for number in 0..HOLDS {
                let [settled, estimated] = live(&ledger, task * HOLDS + number, &mut dice).await;
                sums = [sums[0] + settled, sums[1] + estimated];
            }
            sums
        });
    }
    let sums = tasks.join_all().await;
    over.store(true, Ordering::Relaxed);
    trouble.join_all().await;
    let settled: u64 = sums.iter().map(|sums| sums[0]).sum();
    let estimated: u64 = sums.iter().map(|sums| sums[1]).sum();

    // The first tries may still meet a connection that was killed.
    for ledger in ledgers.iter().cycle().take(20 * ledgers.len()) {
        ledger.wait_until_shared(PATIENT).await;
        ledger.drain().await;
    }
    world.advance(&ledgers[0], Duration::from_secs(41)).await;
    let reap = async |ledger: &RedisLedger| {
        for number in 0..TASKS * HOLDS / 10 + 1 {
            let claims = ["key:0", "key:1", "key:2", "team"].map(|scope| claim(scope, 0, 1));
            let ask = hold_spend(&format!("reap{number}"), &claims);
            assert!(matches!(ledger.hold_spend(ask).await, HeldSpend::Refused(_)));
        }
    };
    reap(&ledgers[0]).await;
    assert_eq!(figures(&*ledgers[1], "team").await, [settled + estimated, 0, estimated]);
    let mut over_keys = [0; 3];
    for key in ["key:0", "key:1", "key:2"] {
        for (sum, figure) in over_keys.iter_mut().zip(figures(&*ledgers[2], key).await) {
            *sum += figure;
        }
    }
    assert_eq!(over_keys, [settled + estimated, 0, estimated]);
    assert!(settled > 0 && estimated > 0);

    // Once nobody is expected to settle them any more, nothing is left of the holds but what was spent.
    world.advance(&ledgers[0], Duration::from_secs(3_601)).await;
    reap(&ledgers[0]).await;
    let left = keys(&mut world.server.connection().await).await;
    let want: Vec<String> = ["key:0", "key:1", "key:2", "team"]
        .iter()
        .flat_map(|scope| {
            [format!("onegate:holds:{scope}:total:estimated"), format!("onegate:spend:{scope}:total")]
        })
        .collect();
    let mut want = want;
    want.sort();
    assert_eq!(left, want);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_hold_ends_exactly_once_where_scopes_are_asked_apart() {
    let world = World::new();
    let ledgers = replicas(&world, 3).await;
    ledgers.iter().for_each(|ledger| ledger.ask_scopes_apart());
    let ask = |n: usize| {
        let hold = hold_spend(&format!("h{n}"), &[claim("key", 1 << 40, 5), claim("team", 100, 5)]);
        HoldSpend { fit: Fit::Whole, ..hold }
    };
    assert_eq!(granted(&ledgers, ask, 200).await, 20);
    for ledger in &ledgers {
        ledger.drain().await;
    }
    assert_eq!(figures(&*ledgers[0], "key").await, [0, 100, 0]);
    assert_eq!(figures(&*ledgers[0], "team").await, [0, 100, 0]);
}

#[tokio::test]
async fn every_key_of_money_has_its_name_and_its_time_to_live() {
    const DAY_MS: i64 = 86_400_000;
    let world = World::new();
    let ledger = world.ledger(PATIENT).await;
    let window = BudgetWindow { name: "day".into(), ends_at_ms: START_MS + 3_600_000 };
    let dated = Account { scope: "team:b".into(), window: Some(window) };
    let claims =
        [claim("key:a", 100, 5), Claim { account: dated.clone(), limit: None, amount: MicroDollars::new(5) }];
    for id in ["estimated", "settled"] {
        let hold = held(ledger.hold_spend(hold_spend(id, &claims)).await);
        ledger.renew_spend(RenewSpend { hold: hold.clone(), lease_ms: 0, sent: true });
        if id == "settled" {
            ledger.settle_spend(&hold, MicroDollars::new(7));
        }
    }
    ledger.drain().await;
    world.advance(&ledger, Duration::from_secs(61)).await;
    held(ledger.hold_spend(hold_spend("open", &claims)).await);
    held(ledger.hold_spend(hold_spend("alone", &[claim("user:c", 100, 5)])).await);

    let mut redis = world.server.connection().await;
    let names = |scope: &str| {
        let holds = format!("onegate:holds:{scope}");
        let parts = ["", ":held", ":estimated", ":due"].map(|part| format!("{holds}{part}"));
        parts.into_iter().chain([format!("onegate:spend:{scope}")])
    };
    let ended = format!("onegate:holds:key:a:total:ended:{START_HH_MM}");
    let only_held = ["", ":held", ":due"].map(|part| format!("onegate:holds:user:c:total{part}"));
    let mut want: Vec<String> =
        names("key:a:total").chain(names("team:b:day")).chain(only_held).chain([ended.clone()]).collect();
    want.sort();
    assert_eq!(keys(&mut redis).await, want);
    for key in want {
        let most_ms = match &key {
            key if *key == ended => 600_000,
            key if key.contains("team:b") => 3_600_000 + DAY_MS,
            _ => 400 * DAY_MS,
        };
        let left_ms = pttl(&mut redis, &key).await;
        assert!((most_ms - 120_000..=most_ms).contains(&left_ms), "{key} lives {left_ms} ms");
    }
    assert_eq!(get(&mut redis, "onegate:spend:key:a:total").await, Some(12));
}

#[tokio::test]
async fn a_total_without_a_time_to_live_gets_one_again() {
    let world = World::new();
    let ledger = world.ledger(PATIENT).await;
    let mut redis = world.server.connection().await;
    run(&mut redis, "SET onegate:spend:key:a:total 5").await;
    run(&mut redis, "SET onegate:holds:key:a:total:held 5").await;
    let hold = held(ledger.hold_spend(hold_spend("a", &[claim("key:a", 100, 5)])).await);
    assert!(pttl(&mut redis, "onegate:holds:key:a:total:held").await > 0);
    ledger.settle_spend(&hold, MicroDollars::new(7));
    ledger.drain().await;
    assert!(pttl(&mut redis, "onegate:spend:key:a:total").await > 0);
}

#[tokio::test]
async fn a_counter_that_is_no_number_costs_no_other_account_its_money() {
    for plant in ["RPUSH {} x", "SET {} nonsense"] {
        let world = World::new();
        let ledger = world.ledger(PATIENT).await;
        let mut redis = world.server.connection().await;
        run(&mut redis, &plant.replace("{}", "onegate:spend:key:bad:total")).await;
        run(&mut redis, "SET onegate:holds:key:bad:total x").await;
        let accounts = vec![account("key:bad"), account("key:good")];
        let add = AddSpend { id: "a".into(), at_ms: START_MS, accounts, cost: MicroDollars::new(7) };
        for _ in 0..3 {
            ledger.add_spend(add.clone());
            ledger.drain().await;
        }
        assert_eq!(figures(&*ledger, "key:good").await, [7, 0, 0]);
        assert_eq!(figures(&*ledger, "key:bad").await, [7, 0, 0]);
    }
}

#[tokio::test]
async fn a_hold_that_arrives_after_its_end_holds_nothing() {
    let world = World::new();
    let (ledger, late) = (world.ledger(PATIENT).await, world.ledger(PATIENT).await);
    let ask = hold_spend("a", &[claim("key:a", 100, 5)]);
    let hold = held(ledger.hold_spend(ask.clone()).await);
    ledger.settle_spend(&hold, MicroDollars::new(3));
    ledger.drain().await;
    held(late.hold_spend(ask).await);
    assert_eq!(figures(&*ledger, "key:a").await, [3, 0, 0]);
}

#[tokio::test]
async fn leases_end_by_the_servers_clock_whatever_a_replica_believes() {
    let world = World::new();
    // This one's clock shows the past year; the server's time decides.
    let ledger = RedisLedger::start(world.settings(), world.clock.clone()).unwrap();
    ledger.wait_until_shared(PATIENT).await;
    let ask = HoldSpend { lease_ms: 30_000, ..hold_spend("a", &[claim("key:a", 100, 5)]) };
    held(ledger.hold_spend(ask).await);
    let mut redis = world.server.connection().await;
    let (seconds, _): (u64, u64) = redis::cmd("TIME").query_async(&mut redis).await.unwrap();
    let due: Vec<(String, u64)> = redis::cmd("ZRANGE")
        .arg(&["onegate:holds:key:a:total:due", "0", "-1", "WITHSCORES"])
        .query_async(&mut redis)
        .await
        .unwrap();
    assert!(due[0].1.abs_diff(seconds * 1_000 + 30_000) < 10_000, "{due:?} at {seconds}");
}
