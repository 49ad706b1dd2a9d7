//! Every file of `tests/scenarios` gives the written answers on every ledger.
use crate::fleet_servers::SixNodes;
use crate::redis_server::connect;
use crate::world::{AGE, PATIENT, START_MS, World, until};
use ledger::{
    Clock, Ledger, ManualClock, MemoryLedger, OnOutage, RedisLedger, RedisSettings, Status, scenario,
};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

fn scenarios() -> Vec<(PathBuf, String)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/scenarios");
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "ledger"))
        .collect();
    paths.sort();
    assert!(paths.len() >= 12, "only {} scenarios were found", paths.len());
    paths.into_iter().map(|path| (path.clone(), std::fs::read_to_string(path).unwrap())).collect()
}

#[tokio::test]
async fn the_embedded_ledger_answers_as_written() {
    for (path, text) in scenarios() {
        if let Err(error) = play_embedded(&text).await {
            panic!("{}: {error}", path.display());
        }
    }
}

#[tokio::test]
async fn the_shared_ledger_answers_as_written() {
    for (path, text) in scenarios() {
        let world = World::new();
        let ledger = world.ledger(PATIENT).await;
        let played = scenario::play(&text, &*ledger, async |by| world.advance(&ledger, by).await).await;
        if let Err(error) = played {
            panic!("{}: {error}", path.display());
        }
    }
}

#[tokio::test]
async fn a_shared_ledger_that_asks_for_each_scope_alone_answers_as_written() {
    for (path, text) in scenarios() {
        let world = World::new();
        let ledger = world.ledger(PATIENT).await;
        ledger.ask_scopes_apart();
        let played = scenario::play(&text, &*ledger, async |by| world.advance(&ledger, by).await).await;
        if let Err(error) = played {
            panic!("{}: {error}", path.display());
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: six servers have to find each other"]
async fn the_ledger_in_a_cluster_answers_as_written() {
    let cluster = SixNodes::start(&[]).await;
    // A replica refuses, and gets it from its master.
    let everywhere = async |command: &redis::Cmd| {
        for server in &cluster.servers {
            let _ = command.exec_async(&mut connect(&server.url()).await).await;
        }
    };
    for (path, text) in scenarios() {
        everywhere(&redis::cmd("FLUSHALL")).await;
        let clock = Arc::new(ManualClock::at(START_MS));
        let on_outage = OnOutage::Local;
        let settings = RedisSettings { place: cluster.place(), namespace: String::new(), on_outage };
        let ledger = RedisLedger::start_for_scenario(settings, clock.clone(), PATIENT).unwrap();
        until("the ledger is shared", async || ledger.status() == Status::Shared).await;
        let aged_at = Mutex::new(clock.instant());
        let advance = async |by: Duration| {
            ledger.drain().await;
            let now = clock.instant();
            let passed = now - std::mem::replace(&mut *aged_at.lock().unwrap(), now);
            let by_ms = u64::try_from(by.saturating_sub(passed).as_millis()).unwrap();
            everywhere(redis::cmd("EVAL").arg(AGE).arg(0).arg(by_ms)).await;
            clock.advance(by);
        };
        if let Err(error) = scenario::play(&text, &*ledger, advance).await {
            panic!("{}: {error}", path.display());
        }
    }
}

async fn play_embedded(text: &str) -> Result<usize, scenario::ScenarioError> {
    let clock = Arc::new(ManualClock::at(START_MS));
    let ledger = MemoryLedger::new(clock.clone());
    scenario::play(text, &ledger, async |by| clock.advance(by)).await
}

async fn fails(text: &str) -> String {
    play_embedded(text).await.expect_err("the scenario was played").to_string()
}

#[tokio::test]
async fn a_wrong_answer_is_told_with_its_line() {
    let told = fails("# a remark\nreserve dep-a rpm=1 -> granted dep-a rpm=2 tpm=0").await;
    assert!(told.starts_with("line 2:"), "{told}");
    assert!(told.contains("granted dep-a rpm=1 tpm=0"), "{told}");
}

#[tokio::test]
async fn what_is_no_command_is_told() {
    for text in
        ["refund x", "reserve dep-a rpm=many", "settle nobody tokens=1 success", "advance soon", "void"]
    {
        assert!(fails(text).await.contains("is not understood"), "{text}");
    }
}
