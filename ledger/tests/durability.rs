//! A look at real servers, well and badly set up: each fault is told, by its name, and none where there is none.
use crate::redis_server::{RedisServer, free_port};
use crate::world::{World, counter, get, member, run, until};
use ledger::{
    Clock, Finding, Hold, Inspection, Ledger, LedgerError, ManualClock, Outcome, RedisLedger, RedisSettings,
    Sample, Settle, Severity, SystemClock,
};
use std::time::Duration;

fn settings(url: &str) -> RedisSettings {
    RedisSettings::of_url(url, "").unwrap()
}

/// What is found of the one server at this URL.
async fn found(url: &str, clock: &dyn Clock) -> Result<Inspection, LedgerError> {
    let mut found = RedisLedger::inspect(settings(url), clock).await?;
    assert_eq!(found.len(), 1, "{found:?}");
    Ok(found.remove(0))
}

async fn look(server: &RedisServer) -> Inspection {
    found(&server.url(), &SystemClock).await.unwrap()
}

/// A server that persists, so that nothing else is wrong with it.
async fn well() -> (RedisServer, redis::aio::MultiplexedConnection) {
    let server = RedisServer::start();
    let mut redis = server.connection().await;
    run(&mut redis, "CONFIG SET appendonly yes").await;
    (server, redis)
}

#[tokio::test]
async fn of_a_server_that_persists_and_keeps_its_keys_nothing_is_said() {
    let (server, mut redis) = well().await;
    let found = look(&server).await;
    assert_eq!(found.findings, []);
    assert_eq!(found.address, server.address());
    let version: String = redis::cmd("INFO").arg("server").query_async(&mut redis).await.unwrap();
    assert!(version.contains(&found.product.unwrap().replace("redis ", "redis_version:")));
    let keys: Vec<String> = redis::cmd("KEYS").arg("*").query_async(&mut redis).await.unwrap();
    assert!(keys.is_empty(), "a look leaves nothing behind: {keys:?}");
}

#[tokio::test]
async fn a_server_that_may_evict_is_told_of_with_its_policy() {
    let (server, mut redis) = well().await;
    run(&mut redis, "CONFIG SET maxmemory-policy allkeys-lru").await;
    assert_eq!(look(&server).await.findings, [], "without a bound nothing is evicted");
    run(&mut redis, "CONFIG SET maxmemory 100mb").await;
    let (policy, maxmemory) = ("allkeys-lru".to_owned(), 104_857_600);
    assert_eq!(look(&server).await.findings, [Finding::Evicts { policy, maxmemory }]);
}

#[tokio::test]
async fn a_server_without_snapshots_and_append_only_file_forgets() {
    let server = RedisServer::start();
    let mut redis = server.connection().await;
    assert_eq!(look(&server).await.findings, [Finding::Forgets]);
    redis::cmd("CONFIG").arg(&["SET", "save", "3600 1"]).exec_async(&mut redis).await.unwrap();
    assert_eq!(look(&server).await.findings, []);
}

#[tokio::test]
async fn a_replica_is_told_of_with_its_primary_and_that_it_takes_no_writes() {
    let (server, mut redis) = well().await;
    let primary = free_port();
    run(&mut redis, &format!("REPLICAOF 127.0.0.1 {primary}")).await;
    let found = look(&server).await.findings;
    assert!(
        matches!(&found[0], Finding::TakesNoWrites { reason } if reason.starts_with("READONLY")),
        "{found:?}"
    );
    assert!(found.contains(&Finding::Replica { primary: Some(format!("127.0.0.1:{primary}")) }), "{found:?}");
}

#[tokio::test]
async fn a_full_server_takes_no_writes() {
    let (server, mut redis) = well().await;
    run(&mut redis, "CONFIG SET maxmemory 1").await;
    let found = look(&server).await.findings;
    assert!(
        matches!(&found[..], [Finding::TakesNoWrites { reason }] if reason.starts_with("OOM")),
        "{found:?}"
    );
}

#[tokio::test]
async fn where_info_and_config_are_forbidden_it_is_said_once_what_is_unknown() {
    let (server, mut redis) = well().await;
    run(&mut redis, "ACL SETUSER guest on >hunter2 ~* +@all -@admin -@dangerous").await;
    let found = as_guest(&server).await.findings;
    let what = vec!["its version", "whether it may evict keys", "whether it persists"];
    assert_eq!(found, [Finding::Unchecked { what }]);

    run(&mut redis, "CONFIG SET appendonly no").await;
    run(&mut redis, "ACL SETUSER guest +info").await;
    let what = vec!["whether it persists"];
    assert_eq!(as_guest(&server).await.findings, [Finding::Unchecked { what }]);
}

#[tokio::test]
async fn commands_and_keys_that_the_user_may_not_use_are_named() {
    let (server, mut redis) = well().await;
    run(&mut redis, "ACL SETUSER guest on >hunter2 ~* +@all -zadd -evalsha").await;
    let commands = vec!["zadd".to_owned(), "evalsha".to_owned()];
    assert_eq!(as_guest(&server).await.findings, [Finding::Denied { commands, keys: vec![] }]);

    run(&mut redis, "ACL SETUSER guest +@all resetkeys ~onegate:* ~*:check:*").await;
    let kinds = ["cooldown", "trips", "probe", "latency", "sizes"];
    let keys = kinds.map(|kind| format!("deployment:*:{kind}")).to_vec();
    let found = as_guest(&server).await.findings;
    assert_eq!(found, [Finding::Denied { commands: vec![], keys }]);
    assert_eq!(found[0].severity(), Severity::Fault);
}

async fn as_guest(server: &RedisServer) -> Inspection {
    found(&format!("redis://guest:hunter2@{}/", server.address()), &SystemClock).await.unwrap()
}

#[tokio::test]
async fn a_clock_that_is_far_from_ours_is_noted() {
    let (server, _redis) = well().await;
    let behind = ManualClock::at(SystemClock.unix_ms() - 60_000);
    let found = found(&server.url(), &behind).await.unwrap().findings;
    assert!(matches!(found[..], [Finding::ClockDiffers { ahead_ms: 60_000..90_000 }]), "{found:?}");
    assert_eq!(found[0].severity(), Severity::Note);
}

#[tokio::test]
async fn a_server_that_cannot_be_reached_or_entered_is_an_error_with_its_address_and_without_its_password() {
    let (mut server, mut redis) = well().await;
    run(&mut redis, "CONFIG SET requirepass correct-horse").await;
    let reasons = async |url: String| {
        let error = found(&url, &SystemClock).await.unwrap_err();
        assert!(matches!(error, LedgerError::Unreachable { .. }), "{error}");
        error.to_string()
    };
    let address = server.address();
    let told = reasons(server.url()).await;
    assert!(told.contains(&address) && told.contains("NOAUTH"), "{told}");
    let told = reasons(format!("redis://:hunter2@{address}/")).await;
    assert!(told.contains(&address) && told.contains("password") && !told.contains("hunter2"), "{told}");
    let told = reasons(format!("redis://:correct-horse@{address}/99")).await;
    assert!(told.contains(&address) && told.contains("database"), "{told}");
    server.kill();
    let told = reasons(server.url()).await;
    assert!(told.contains(&address) && told.contains("refused"), "{told}");
    let told = reasons("redis://no-such-host.invalid:6379/".to_owned()).await;
    assert!(told.contains("no-such-host.invalid:6379") && told.contains("name"), "{told}");
}

#[tokio::test]
async fn a_ledger_that_runs_can_look_at_its_own_redis_and_say_why_it_is_away() {
    let mut world = World::new();
    let ledger = world.ledger(Duration::from_millis(100)).await;
    assert_eq!(ledger.look().await.unwrap()[0].address, ledger.address());
    assert_eq!(ledger.why_away(), None);
    world.server.kill();
    ledger.until_away(true).await;
    assert!(ledger.why_away().is_some_and(|why| why.contains("refused")), "{:?}", ledger.why_away());
}

#[tokio::test]
async fn what_a_server_that_takes_no_writes_refused_is_written_when_it_does() {
    let world = World::new();
    let ledger = world.ledger(Duration::from_millis(100)).await;
    let mut redis = world.server.connection().await;
    run(&mut redis, &format!("REPLICAOF 127.0.0.1 {}", free_port())).await;
    let hold = Hold::unreserved(member("dep-a"), ledger.now_ms());
    ledger.settle(Settle { hold, tokens: 7, outcome: Outcome::Success, sample: Sample::default() });
    ledger.drain().await;
    run(&mut redis, "REPLICAOF NO ONE").await;
    until("the tokens are written", async || get(&mut redis, &counter("dep-a", "tpm")).await == Some(7))
        .await;
}
