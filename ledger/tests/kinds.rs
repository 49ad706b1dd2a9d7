//! Every way to reach one server: encrypted, by a socket, as a user that may do little, with a password of any
//! characters, in another database, under a namespace.
use crate::redis_server::{RedisServer, connect};
use crate::world::{PATIENT, START_MS, counter, get, group, is_granted, one, run, until, want};
use ledger::{
    Cooldown, Finding, Hold, Ledger, ManualClock, OnOutage, Outcome, RedisAddress, RedisLedger, RedisLogin,
    RedisPlace, RedisSettings, RedisTls, RedisTrust, Sample, Settle, Status, SystemClock,
};
use redis::aio::MultiplexedConnection;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

const PASSWORD: &str = "p@ss:w/o#r%d ?&+";

fn start(place: RedisPlace, namespace: &str) -> Arc<RedisLedger> {
    let settings = RedisSettings { place, namespace: namespace.to_owned(), on_outage: OnOutage::Local };
    RedisLedger::start_for_scenario(settings, Arc::new(ManualClock::at(START_MS)), PATIENT).unwrap()
}

async fn shared(ledger: &RedisLedger) {
    until("the ledger is shared", async || ledger.status() == Status::Shared).await;
}

/// All that a ledger does, through this place; then its counter by the test's own connection.
async fn everything_works(place: RedisPlace, namespace: &str, redis: &mut MultiplexedConnection) {
    let ledger = start(place.clone(), namespace);
    shared(&ledger).await;
    assert!(is_granted(&ledger.reserve(one(want("dep-a", Some(1), 5))).await));
    assert!(!is_granted(&ledger.reserve(one(want("dep-a", Some(1), 5))).await));
    let hold = Hold::unreserved(crate::world::member("dep-b"), ledger.now_ms());
    ledger.settle(Settle { hold, tokens: 7, outcome: Outcome::Failure, sample: Sample::default() });
    let member = crate::world::member("dep-b");
    ledger.cool(Cooldown {
        member,
        length_ms: 9_000,
        status: 429,
        reason: String::new(),
        probation: false,
        probe: None,
    });
    ledger.drain().await;
    let lead = if namespace.is_empty() { String::new() } else { format!("{namespace}:") };
    assert_eq!(get(redis, &format!("{lead}{}", counter("dep-a", "rpm"))).await, Some(1));
    assert_eq!(get(redis, &format!("{lead}{}", counter("dep-b", "tpm"))).await, Some(7));

    let other = start(place, namespace);
    shared(&other).await;
    assert!(!is_granted(&other.reserve(one(want("dep-a", Some(1), 5))).await));
    let view = other.view(&group(&["dep-a", "dep-b"])).await;
    assert_eq!((view.readings[0].rpm, view.readings[1].fails), (1, 1));
    assert!(view.readings[1].cooldown.is_some());
}

fn tcp(url: &str) -> RedisPlace {
    RedisPlace::of_url(url).unwrap()
}

/// The place of a URL, entered otherwise.
fn with(url: &str, login: RedisLogin) -> RedisPlace {
    match tcp(url) {
        RedisPlace::Single { address, .. } => RedisPlace::Single { address, login },
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_socket_of_this_machine_leads_to_redis() {
    let server = RedisServer::start_with(|_, folder| words(&["--unixsocket", &path(folder, "redis.sock")]));
    let socket = server.folder().join("redis.sock");
    for scheme in ["unix", "redis+unix"] {
        run(&mut server.connection().await, "FLUSHALL").await;
        let place = tcp(&format!("{scheme}://{}", socket.display()));
        assert!(
            matches!(&place, RedisPlace::Single { address: RedisAddress::Unix(at), .. } if *at == socket)
        );
        everything_works(place, "", &mut server.connection().await).await;
    }
}

#[tokio::test]
async fn a_password_may_hold_any_characters_and_a_database_any_number() {
    let server = RedisServer::start_with(|_, _| words(&["--requirepass", PASSWORD]));
    let url = format!("redis://:p%40ss%3Aw%2Fo%23r%25d%20%3F%26%2B@{}/3", server.address());
    let mut redis = connect(&url).await;
    everything_works(tcp(&url), "", &mut redis).await;
    run(&mut redis, "FLUSHALL").await;
    let login = RedisLogin { password: Some(PASSWORD.to_owned()), database: 3, ..RedisLogin::default() };
    everything_works(with(&server.url(), login), "", &mut redis).await;
    run(&mut redis, "SELECT 0").await;
    let size: u32 = redis::cmd("DBSIZE").query_async(&mut redis).await.unwrap();
    assert_eq!(size, 0, "everything lies in database 3");
}

#[tokio::test]
async fn a_wrong_password_means_that_redis_is_away_and_is_told_nobody() {
    let server = RedisServer::start_with(|_, _| words(&["--requirepass", PASSWORD]));
    let login = RedisLogin { password: Some("hunter2".to_owned()), ..RedisLogin::default() };
    let ledger = start(with(&server.url(), login), "");
    assert!(is_granted(&ledger.reserve(one(want("dep-a", Some(1), 0))).await));
    let status = ledger.wait_until_shared(std::time::Duration::from_millis(700)).await;
    assert_eq!(status, Status::Away);
}

/// The line that the README tells operators to enter.
fn acl_of_the_readme() -> String {
    let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("../README.md");
    let text = std::fs::read_to_string(readme).unwrap();
    let line = text.lines().map(str::trim).find(|line| line.starts_with("ACL SETUSER onegate "));
    line.expect("the README has an ACL line").to_owned()
}

#[tokio::test]
async fn a_user_that_may_do_what_the_readme_says_is_enough_and_may_do_nothing_else() {
    let server = RedisServer::start();
    let mut redis = server.connection().await;
    run(&mut redis, &acl_of_the_readme()).await;
    let login = RedisLogin {
        username: Some("onegate".to_owned()),
        password: Some("secret".to_owned()),
        ..RedisLogin::default()
    };
    let place = with(&server.url(), login);
    everything_works(place.clone(), "prod", &mut redis).await;
    let settings = RedisSettings { place, namespace: "prod".to_owned(), on_outage: OnOutage::Local };
    let found = RedisLedger::inspect(settings, &SystemClock).await.unwrap();
    let is_denied = |finding: &Finding| matches!(finding, Finding::Denied { .. });
    assert!(!found[0].findings.iter().any(is_denied), "{found:?}");

    let url = format!("redis://onegate:secret@{}", server.address());
    let mut user = connect(&url).await;
    for forbidden in ["KEYS *", "FLUSHALL", "CONFIG GET *", "GET other", "ACL LIST", "DEL other"] {
        let mut command = redis::Cmd::new();
        for word in forbidden.split(' ') {
            command.arg(word);
        }
        let error = command.exec_async(&mut user).await.expect_err(forbidden);
        assert_eq!(error.code(), Some("NOPERM"), "{forbidden}");
    }
}

#[tokio::test]
async fn two_namespaces_of_one_redis_do_not_see_each_other() {
    let server = RedisServer::start();
    let (ours, others) = (start(tcp(&server.url()), "ours"), start(tcp(&server.url()), "others"));
    shared(&ours).await;
    shared(&others).await;
    assert!(is_granted(&ours.reserve(one(want("dep-a", Some(1), 0))).await));
    assert!(is_granted(&others.reserve(one(want("dep-a", Some(1), 0))).await));
    assert!(!is_granted(&ours.reserve(one(want("dep-a", Some(1), 0))).await));
}

/// A certificate authority of this test, and a certificate of it for `127.0.0.1`.
fn certify(folder: &Path, name: &str) {
    let script = format!(
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN={name}-ca -keyout {name}-ca.key -out {name}-ca.pem \
         -addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign,cRLSign && \
         openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN={name} -keyout {name}.key -out {name}.csr && \
         printf 'subjectAltName=IP:127.0.0.1\\nbasicConstraints=CA:FALSE\\n' > {name}.ext && \
         openssl x509 -req -in {name}.csr -CA {name}-ca.pem -CAkey {name}-ca.key -CAcreateserial -days 2 \
         -extfile {name}.ext -out {name}.pem"
    );
    let made = Command::new("sh").args(["-ec", &script]).current_dir(folder).stderr(Stdio::null()).status();
    assert!(made.unwrap().success(), "openssl is needed: install it (Debian: apt-get install openssl)");
}

fn tls_server(clients: &str) -> RedisServer {
    RedisServer::start_with(|port, folder| {
        certify(folder, "right");
        certify(folder, "wrong");
        let [cert, key, ca] = ["right.pem", "right.key", "right-ca.pem"].map(|name| path(folder, name));
        let port = port.to_string();
        words(&[
            "--port",
            "0",
            "--tls-port",
            &port,
            "--tls-cert-file",
            &cert,
            "--tls-key-file",
            &key,
            "--tls-ca-cert-file",
            &ca,
            "--tls-auth-clients",
            clients,
        ])
    })
}

fn tls(server: &RedisServer, ca: Option<&str>, client: Option<&str>, trust: RedisTrust) -> RedisLogin {
    let read = |name: &str| std::fs::read(server.folder().join(name)).unwrap();
    let ca = ca.map(read);
    let client = client.map(|name| (read(&format!("{name}.pem")), read(&format!("{name}.key"))));
    RedisLogin { tls: Some(RedisTls { ca, client, trust }), ..RedisLogin::default() }
}

/// A connection of the test's own, which checks nothing.
async fn look(server: &RedisServer) -> MultiplexedConnection {
    connect(&format!("rediss://{}/#insecure", server.address())).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_encrypted_redis_is_believed_if_our_ca_has_signed_it_and_never_spoken_to_in_plain() {
    let server = tls_server("no");
    let url = server.url();
    let right = tls(&server, Some("right-ca.pem"), None, RedisTrust::Full);
    everything_works(with(&url, right), "", &mut look(&server).await).await;

    let plain = RedisServer::start();
    let away = [
        // Another CA, the system's CAs, and no encryption at all.
        start(with(&url, tls(&server, Some("wrong-ca.pem"), None, RedisTrust::Full)), ""),
        start(with(&url, tls(&server, Some("wrong-ca.pem"), None, RedisTrust::AnyName)), ""),
        start(with(&url, tls(&server, None, None, RedisTrust::Full)), ""),
        start(with(&url, RedisLogin::default()), ""),
        // A server that does not encrypt is not spoken to in plain instead.
        start(with(&plain.url(), tls(&server, None, None, RedisTrust::Anyone)), ""),
    ];
    // Whoever answers is let in only where that was asked for.
    let anyone = start(with(&url, tls(&server, None, None, RedisTrust::Anyone)), "");
    shared(&anyone).await;
    for ledger in &away {
        assert_eq!(ledger.wait_until_shared(std::time::Duration::from_millis(700)).await, Status::Away);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_certificate_for_another_name_is_believed_only_where_names_do_not_matter() {
    let server = tls_server("no");
    let url = format!("redis://localhost:{}/", server.port());
    let checked = start(with(&url, tls(&server, Some("right-ca.pem"), None, RedisTrust::Full)), "");
    let unchecked = start(with(&url, tls(&server, Some("right-ca.pem"), None, RedisTrust::AnyName)), "");
    shared(&unchecked).await;
    assert_eq!(checked.wait_until_shared(std::time::Duration::from_millis(700)).await, Status::Away);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_asks_for_a_certificate_gets_ours() {
    let server = tls_server("yes");
    let url = server.url();
    let ours = start(with(&url, tls(&server, Some("right-ca.pem"), Some("right"), RedisTrust::Full)), "");
    shared(&ours).await;
    let none = start(with(&url, tls(&server, Some("right-ca.pem"), None, RedisTrust::Full)), "");
    assert_eq!(none.wait_until_shared(std::time::Duration::from_millis(700)).await, Status::Away);
}

#[test]
fn what_is_no_certificate_is_told_without_showing_it() {
    let tls = RedisTls { ca: Some(b"hunter2".to_vec()), ..RedisTls::default() };
    let login = RedisLogin { tls: Some(tls), ..RedisLogin::default() };
    let error = RedisLedger::check(with("redis://127.0.0.1:1", login)).expect_err("it was taken").to_string();
    assert!(error.contains("not in PEM") && !error.contains("hunter2"), "{error}");
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

fn path(folder: &Path, name: &str) -> String {
    folder.join(name).display().to_string()
}
