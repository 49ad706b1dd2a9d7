//! A master dies under load, and sentinels or its cluster put another in its place.
use crate::fleet_servers::{SixNodes, Watched, info};
use crate::load::Load;
use crate::redis_server::connect;
use crate::world::{
    START_HH_MM, START_MS, STRICT, counter, get, group, is_granted, member, one, run, until, want,
};
use ledger::{
    Account, AddSpend, Clock, Cooldown, Finding, Hold, Inspection, Ledger, ManualClock, MicroDollars,
    OnOutage, Outcome, RedisLedger, RedisPlace, RedisSettings, Sample, Settle, Sizes, Status, SystemClock,
};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The deadline, what a loaded machine adds to it, and room for a repeated question.
const SLOW: Duration = Duration::from_millis(300);
/// Sharing is back so long after a promotion.
const BACK_WITHIN: Duration = Duration::from_secs(5);
const RATE: u32 = 500;

fn start(place: &RedisPlace) -> Arc<RedisLedger> {
    let (place, on_outage) = (place.clone(), OnOutage::Local);
    let settings = RedisSettings { place, namespace: String::new(), on_outage };
    RedisLedger::start_for_scenario(settings, Arc::new(ManualClock::at(START_MS)), STRICT).unwrap()
}

/// Two ledgers that know of each other: each has beaten since both were there.
async fn pair(place: &RedisPlace) -> [Arc<RedisLedger>; 2] {
    let pair = [start(place), start(place)];
    for ledger in &pair {
        becomes(ledger, Status::Shared).await;
    }
    tokio::time::sleep(Duration::from_millis(1_200)).await;
    pair
}

async fn becomes(ledger: &RedisLedger, status: Status) {
    until(&format!("the ledger is {status:?}"), async || ledger.status() == status).await;
}

async fn asked(ledger: &RedisLedger, id: &str, limit: u64) -> bool {
    is_granted(&ledger.reserve(one(want(id, Some(limit), 0))).await)
}

/// Few calls may have waited: those that were under way when the master died.
fn few_waited(slow: &[Duration]) {
    assert!(
        slow.len() <= 100,
        "{} calls waited beyond {SLOW:?}, at most {:?}",
        slow.len(),
        slow.iter().max()
    );
    assert!(slow.iter().all(|took| *took < Duration::from_secs(2)), "{:?}", slow.iter().max());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: sentinels take seconds to replace a master"]
async fn a_killed_master_behind_sentinels_is_replaced_under_load_and_costs_nobody_an_answer() {
    let mut watched = Watched::start().await;
    let ledgers = pair(&watched.place()).await;
    const LIMIT: u64 = 3_000;
    let load = Load::start(&ledgers, &["dep-a"], LIMIT, RATE, SLOW);
    until("half of the limit is used", async || load.report().granted.load(Ordering::Relaxed) > LIMIT / 2)
        .await;

    watched.servers[0].kill();
    let url = watched.servers[1].url();
    until("the replica is promoted", async || {
        info(&url, "replication").await.is_some_and(|info| info.contains("role:master"))
    })
    .await;
    let promoted = SystemClock.instant();
    for ledger in &ledgers {
        becomes(ledger, Status::Shared).await;
    }
    let back = promoted.elapsed();
    assert!(back < BACK_WITHIN, "sharing came back {back:?} after the promotion");
    tokio::time::sleep(Duration::from_secs(5)).await;
    let report = load.stop().await;

    let (asked_all, granted) = (report.asked.load(Ordering::Relaxed), report.granted.load(Ordering::Relaxed));
    for ledger in &ledgers {
        ledger.drain().await;
    }
    let mut redis = connect(&url).await;
    let counted = u64::try_from(get(&mut redis, &counter("dep-a", "rpm")).await.unwrap()).unwrap();
    let slow = report.slow.lock().unwrap().clone();
    eprintln!(
        "sentinel: asked {asked_all}, granted {granted} of {LIMIT}, counted {counted}, back after {back:?}, {} slow",
        slow.len()
    );
    // What redis lost it cannot have counted.
    let lost = granted.saturating_sub(counted);
    assert!(granted <= LIMIT + lost, "{granted} granted, {lost} lost");
    assert!(lost <= 50, "{lost} lost");
    assert!(granted >= LIMIT, "{granted} granted: sharing did not come back");
    few_waited(&slow);
    assert!(!asked(&ledgers[0], "dep-a", LIMIT).await);
    assert!(!asked(&ledgers[1], "dep-a", LIMIT).await);

    // The old master returns as one, until the sentinels tell it otherwise; nobody goes back to it.
    watched.servers[0].restart();
    until("the old master follows", async || {
        info(&watched.servers[0].url(), "replication").await.is_some_and(|info| info.contains("role:slave"))
    })
    .await;
    assert!(asked(&ledgers[0], "dep-b", 1).await);
    assert!(!asked(&ledgers[1], "dep-b", 1).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: sentinels take seconds to replace a master"]
async fn a_master_that_is_replaced_while_it_is_well_is_left() {
    let watched = Watched::start().await;
    let [ours, others] = pair(&watched.place()).await;
    assert!(asked(&ours, "dep-a", 2).await);
    let RedisPlace::Sentinel { sentinels, .. } = watched.place() else { unreachable!() };
    let mut sentinel = connect(&format!("redis://{}", sentinels[0])).await;
    run(&mut sentinel, "SENTINEL FAILOVER mymaster").await;
    // A server that changes its part cuts all connections, the test's too.
    let counted =
        async |id: &str| get(&mut connect(&watched.servers[1].url()).await, &counter(id, "rpm")).await;
    until("the other server is the master and counts", async || {
        asked(&others, "dep-b", 1_000_000).await;
        info(&watched.servers[1].url(), "replication").await.is_some_and(|info| info.contains("role:master"))
            && others.status() == Status::Shared
            && counted("dep-b").await.is_some()
    })
    .await;
    until("our ledger counts there too", async || {
        let before = counted("dep-c").await;
        asked(&ours, "dep-c", 1_000_000).await;
        counted("dep-c").await > before && ours.status() == Status::Shared
    })
    .await;
    assert!(asked(&ours, "dep-a", 2).await);
    assert!(!asked(&others, "dep-a", 2).await);
}

/// A counter as a cluster names it.
fn braced(id: &str, name: &str) -> String {
    format!("{{{id}}}:openai/{id}:{name}:{START_HH_MM}")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: six servers have to find each other"]
async fn a_cluster_serves_all_that_a_single_server_does() {
    let cluster = SixNodes::start(&[]).await;
    let [ours, others] = pair(&cluster.place()).await;
    let ids: Vec<String> = (0..40).map(|number| format!("dep-{number}")).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    for id in &ids {
        assert!(asked(&ours, id, 2).await);
        assert!(asked(&others, id, 2).await);
        assert!(!asked(&ours, id, 2).await);
        let hold = Hold::unreserved(member(id), ours.now_ms());
        ours.settle(Settle { hold, tokens: 7, outcome: Outcome::Failure, sample: Sample::default() });
    }
    let member = member("dep-3");
    ours.cool(Cooldown {
        member,
        length_ms: 30_000,
        status: 503,
        reason: String::new(),
        probation: false,
        probe: None,
    });
    ours.drain().await;
    let view = others.view(&group(&ids)).await;
    for (id, reading) in ids.iter().zip(&view.readings) {
        assert_eq!((reading.rpm, reading.tpm, reading.calls, reading.fails), (2, 7, 1, 1), "{id}");
        assert_eq!(reading.cooldown.is_some(), *id == "dep-3");
    }
    // A long ranking is walked over all nodes, and scripts that one of them lost travel again.
    for server in &cluster.servers {
        run(&mut connect(&server.url()).await, "SCRIPT FLUSH").await;
    }
    let mut wants: Vec<_> = ids.iter().map(|id| want(id, Some(2), 0)).collect();
    wants.push(want("dep-last", Some(1), 0));
    let reserve = ledger::Reserve { wants, ignore_cooldown: false };
    let ledger::Reserved::Granted { index, passed, .. } = ours.reserve(reserve.clone()).await else {
        panic!("the last one had room");
    };
    assert_eq!((index, passed.len()), (40, 40));
    assert!(!is_granted(&others.reserve(reserve).await));
    let mut nodes = Vec::new();
    for id in &ids {
        nodes.push(cluster.master_of(&braced(id, "rpm")).await.unwrap());
    }
    nodes.sort_unstable();
    nodes.dedup();
    assert_eq!(nodes.len(), 3, "the deployments lie on all masters");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: six servers have to find each other"]
async fn in_a_cluster_calls_in_flight_samples_and_money_are_shared_and_every_master_is_looked_at() {
    let cluster = SixNodes::start(&[]).await;
    let [ours, others] = pair(&cluster.place()).await;
    let ids: Vec<String> = (0..20).map(|number| format!("dep-{number}")).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    let sizes = Sizes { estimated: 10, input: 12, output: 40 };
    for id in &ids {
        let hold = ours.begin(&member(id));
        ours.begin(&member(id));
        let sample = Sample { latency: None, sizes: Some(sizes) };
        ours.settle(Settle { hold, tokens: 1, outcome: Outcome::Success, sample });
    }
    until("the other replica sees all of it", async || {
        let readings = others.view(&group(&ids)).await.readings;
        readings.iter().all(|reading| reading.in_flight == 1 && *reading.sizes == [sizes])
    })
    .await;

    let accounts: Vec<Account> = ids.iter().map(|&id| Account { scope: id.into(), window: None }).collect();
    // One spending on all accounts, wherever they lie.
    let (id, at_ms, cost) = ("spending".into(), ours.now_ms(), MicroDollars::new(7));
    ours.add_spend(AddSpend { id, at_ms, accounts: accounts.clone(), cost });
    ours.drain().await;
    let spendings = others.spendings(&accounts).await;
    assert!(spendings.iter().all(|spending| spending.spent == cost), "{spendings:?}");

    let found = ours.look().await.unwrap();
    let addresses: BTreeSet<&str> = found.iter().map(|found| found.address.as_str()).collect();
    assert_eq!(addresses.len(), 3, "{found:?}");
    // The test's clock is not the servers', which is noted too.
    let is_well =
        |found: &Inspection| matches!(found.findings[..], [Finding::Forgets, Finding::ClockDiffers { .. }]);
    assert!(found.iter().all(is_well), "{found:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: a cluster takes seconds to replace a master"]
async fn a_killed_master_of_a_cluster_is_replaced_under_load_and_the_others_share_all_the_while() {
    // Without this a cluster stops as a whole until the replica is promoted.
    let mut cluster = SixNodes::start(&["--cluster-require-full-coverage", "no"]).await;
    let ledgers = pair(&cluster.place()).await;
    const LIMIT: u64 = 1_500;
    let dying = cluster.master_of(&braced("dep-a", "rpm")).await.unwrap();
    let mut well = None;
    for number in 0..50 {
        let id = format!("dep-{number}");
        if cluster.master_of(&braced(&id, "rpm")).await != Some(dying) {
            well = Some(id);
            break;
        }
    }
    let well = well.unwrap();
    let load = Load::start(&ledgers, &["dep-a"], LIMIT, RATE / 2, SLOW);
    let beside = Load::start(&ledgers, &[&well], LIMIT, RATE / 2, SLOW);
    until("a third of the limit is used", async || load.report().granted.load(Ordering::Relaxed) > LIMIT / 3)
        .await;

    cluster.servers[dying].kill();
    until("another master has the slot", async || {
        cluster.master_of(&braced("dep-a", "rpm")).await.is_some_and(|master| master != dying)
    })
    .await;
    let promoted = SystemClock.instant();
    for ledger in &ledgers {
        becomes(ledger, Status::Shared).await;
    }
    let back = promoted.elapsed();
    assert!(back < BACK_WITHIN, "sharing came back {back:?} after the promotion");
    tokio::time::sleep(Duration::from_secs(6)).await;
    let (report, beside) = (load.stop().await, beside.stop().await);
    for ledger in &ledgers {
        ledger.drain().await;
    }

    let granted = report.granted.load(Ordering::Relaxed);
    let counted = cluster.counter(&braced("dep-a", "rpm")).await.unwrap();
    let lost = granted.saturating_sub(counted);
    let slow = report.slow.lock().unwrap().clone();
    let slow_beside = beside.slow.lock().unwrap().clone();
    eprintln!(
        "cluster: granted {granted} of {LIMIT}, counted {counted}, back after {back:?}, {} slow, {} slow beside",
        slow.len(),
        slow_beside.len()
    );
    assert!(granted <= LIMIT + lost, "{granted} granted, {lost} lost");
    assert!(lost <= 50, "{lost} lost");
    assert!(granted >= LIMIT, "{granted} granted: sharing did not come back");
    few_waited(&slow);
    // Whoever lies elsewhere has not noticed: the limit was exact.
    assert_eq!(beside.granted.load(Ordering::Relaxed), LIMIT);
    assert_eq!(cluster.counter(&braced(&well, "rpm")).await, Some(LIMIT));
    assert!(slow_beside.len() <= 25, "{slow_beside:?}");
    for ledger in &ledgers {
        assert!(!asked(ledger, "dep-a", LIMIT).await);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: six servers have to find each other"]
async fn a_frozen_master_of_a_cluster_makes_nobody_wait_twice_and_the_others_stay_exact() {
    let cluster =
        SixNodes::start(&["--cluster-require-full-coverage", "no", "--cluster-node-timeout", "60000"]).await;
    let [ours, others] = pair(&cluster.place()).await;
    let frozen = cluster.master_of(&braced("dep-a", "rpm")).await.unwrap();
    let mut well = Vec::new();
    for number in 0..50 {
        let id = format!("dep-{number}");
        if cluster.master_of(&braced(&id, "rpm")).await != Some(frozen) {
            well.push(id);
        }
    }
    cluster.servers[frozen].freeze();
    // The first call waits for its deadline; later ones go by the share at once.
    assert!(asked(&ours, "dep-a", 100).await);
    // Long before a check has come to its verdict.
    let began = SystemClock.instant();
    for _ in 0..10 {
        assert!(asked(&ours, "dep-a", 100).await);
    }
    assert!(began.elapsed() < Duration::from_millis(250), "10 calls took {:?}", began.elapsed());
    for _ in 0..10 {
        let began = SystemClock.instant();
        for _ in 0..20 {
            assert!(asked(&ours, "dep-a", 1_000_000).await);
        }
        assert!(began.elapsed() < Duration::from_secs(1), "20 calls took {:?}", began.elapsed());
        for id in well.iter().take(5) {
            asked(&others, id, 7).await;
            asked(&ours, id, 7).await;
        }
    }
    assert_eq!(ours.status(), Status::Away);
    for id in well.iter().take(5) {
        assert_eq!(cluster.counter(&braced(id, "rpm")).await, Some(7), "{id}");
    }
    // A ranking goes on to whoever answers.
    let wants = vec![want("dep-a", Some(0), 0), want(&well[6], Some(1), 0)];
    let reserve = ledger::Reserve { wants, ignore_cooldown: false };
    assert!(is_granted(&ours.reserve(reserve.clone()).await));
    assert!(!is_granted(&others.reserve(reserve).await));

    cluster.servers[frozen].thaw();
    becomes(&ours, Status::Shared).await;
    becomes(&others, Status::Shared).await;
    let counted = cluster.counter(&braced("dep-a", "rpm")).await.unwrap();
    assert!(counted >= 201, "what went by the share was written: {counted}");
    assert!(!asked(&others, "dep-a", counted).await);
}
