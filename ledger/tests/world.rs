//! What the tests share: members, wants, ledgers on a held clock, and moving time on a real server.
use crate::redis_server::RedisServer;
use ledger::{
    Account, Claim, Clock, Cooldown, Fit, Group, HeldSpend, Hold, HoldSpend, Ledger, ManualClock, Member,
    MicroDollars, OnOutage, RedisLedger, RedisSettings, Reserve, Reserved, SpendHold, Spending, Status,
    TakeSlot, Want,
};
use redis::aio::MultiplexedConnection;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

/// 21:50:10 UTC.
pub(crate) const START_MS: u64 = 1_796_075_410_000;
pub(crate) const START_HH_MM: &str = "21-50";
/// A deadline that no machine misses, for tests that are not about deadlines.
pub(crate) const PATIENT: Duration = Duration::from_secs(30);
/// The product's.
pub(crate) const STRICT: Duration = Duration::from_millis(100);

/// Ages what the ledgers wrote by their clock, as if so many milliseconds had passed. The heartbeat's keys live
/// by the server's own.
pub(crate) const AGE: &str = r"
    for _, key in ipairs(redis.call('KEYS', '*')) do
        local left = redis.call('PTTL', key)
        if key:find('^onegate:replicas') or key:find('^onegate:epoch') or key:find('^{onegate:%d+}:') then
        elseif left >= 0 and left <= tonumber(ARGV[1]) then redis.call('DEL', key)
        elseif left >= 0 then redis.call('PEXPIRE', key, left - ARGV[1]) end
    end";

pub(crate) fn member(id: &str) -> Member {
    Member { id: id.into(), model: format!("openai/{id}").into() }
}

pub(crate) fn group(ids: &[&str]) -> Group {
    Group { name: "group".into(), members: ids.iter().map(|id| member(id)).collect() }
}

pub(crate) fn want(id: &str, rpm_limit: Option<u64>, tpm_hold: u64) -> Want {
    Want { member: member(id), rpm_limit, tpm_limit: None, tpm_hold, must_fit: false }
}

pub(crate) fn one(want: Want) -> Reserve {
    Reserve { wants: vec![want], ignore_cooldown: false }
}

pub(crate) fn cooldown(id: &str, length_ms: u64) -> Cooldown {
    let (member, reason) = (member(id), "too many".to_owned());
    Cooldown { member, length_ms, status: 429, reason, probation: false, probe: None }
}

pub(crate) fn hold_of(reserved: Reserved) -> Hold {
    match reserved {
        Reserved::Granted { hold, .. } => hold,
        Reserved::Refused { passed } => panic!("refused: {passed:?}"),
    }
}

pub(crate) fn is_granted(reserved: &Reserved) -> bool {
    matches!(reserved, Reserved::Granted { .. })
}

pub(crate) fn counter(id: &str, name: &str) -> String {
    format!("{id}:openai/{id}:{name}:{START_HH_MM}")
}

/// A server and a held clock; the ledgers on it see each other through the server only.
pub(crate) struct World {
    pub(crate) server: RedisServer,
    pub(crate) clock: Arc<ManualClock>,
    aged_at: Mutex<Instant>,
}

impl World {
    pub(crate) fn new() -> Self {
        let clock = Arc::new(ManualClock::at(START_MS));
        let aged_at = Mutex::new(clock.instant());
        Self { server: RedisServer::start(), clock, aged_at }
    }

    pub(crate) fn settings(&self) -> RedisSettings {
        RedisSettings::of_url(&self.server.url(), "").unwrap()
    }

    /// A ledger that is connected.
    pub(crate) async fn ledger(&self, deadline: Duration) -> Arc<RedisLedger> {
        let clock: Arc<dyn Clock> = self.clock.clone();
        let ledger = RedisLedger::start_for_scenario(self.settings(), clock, deadline).unwrap();
        until("the ledger is shared", async || ledger.status() == Status::Shared).await;
        ledger
    }

    /// Moves the held clock, and the server's keys with it, less what has passed for them by themselves.
    pub(crate) async fn advance(&self, ledger: &RedisLedger, by: Duration) {
        self.advance_over(&mut self.server.connection().await, ledger, by).await;
    }

    /// The same over a connection that is there, for those who move time often.
    pub(crate) async fn advance_over(
        &self,
        redis: &mut MultiplexedConnection,
        ledger: &RedisLedger,
        by: Duration,
    ) {
        ledger.drain().await;
        let now = self.clock.instant();
        let passed = now - std::mem::replace(&mut *self.aged_at.lock().unwrap(), now);
        let by_ms = u64::try_from(by.saturating_sub(passed).as_millis()).unwrap();
        redis::cmd("EVAL").arg(AGE).arg(0).arg(by_ms).exec_async(redis).await.unwrap();
        self.clock.advance(by);
    }
}

/// Asks until it is so. Fails after a time that only a standstill takes.
pub(crate) async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    for _ in 0..6_000 {
        if is_so().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("it never came to pass that {what}");
}

/// The same where nothing is async.
pub(crate) fn until_so(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..6_000 {
        if is_so() {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("it never came to pass that {what}");
}

pub(crate) async fn pttl(redis: &mut MultiplexedConnection, key: &str) -> i64 {
    redis::cmd("PTTL").arg(key).query_async(redis).await.unwrap()
}

/// An integer; `None` where there is no key.
pub(crate) async fn get(redis: &mut MultiplexedConnection, key: &str) -> Option<i64> {
    redis::cmd("GET").arg(key).query_async(redis).await.unwrap()
}

pub(crate) async fn run(redis: &mut MultiplexedConnection, command: &str) {
    let mut words = command.split_whitespace();
    let mut cmd = redis::cmd(words.next().unwrap());
    for word in words {
        cmd.arg(word);
    }
    cmd.exec_async(redis).await.unwrap();
}

/// A wire to a server whose present connections can be cut without either end being told.
pub(crate) struct Wire {
    port: u16,
    cut: watch::Sender<u32>,
    _carriers: JoinSet<()>,
}

impl Wire {
    pub(crate) async fn to(server: &RedisServer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (cut, server) = (watch::Sender::new(0), server.address());
        let cuts = cut.clone();
        let mut carriers = JoinSet::new();
        carriers.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((mut near, _)) = listener.accept().await {
                let (mut far, mut cut) = (TcpStream::connect(&server).await.unwrap(), cuts.subscribe());
                connections.spawn(async move {
                    tokio::select! {
                        _ = tokio::io::copy_bidirectional(&mut near, &mut far) => {}
                        // Both sockets stay open, and nothing passes any more.
                        _ = cut.changed() => std::future::pending().await,
                    }
                });
            }
        });
        Self { port, cut, _carriers: carriers }
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    pub(crate) fn cut(&self) {
        self.cut.send_modify(|cuts| *cuts += 1);
    }
}

/// An account without a window.
pub(crate) fn account(scope: &str) -> Account {
    Account { scope: scope.into(), window: None }
}

pub(crate) fn claim(scope: &str, limit: u64, amount: u64) -> Claim {
    let [limit, amount] = [limit, amount].map(MicroDollars::new);
    Claim { account: account(scope), limit: Some(limit), amount }
}

pub(crate) fn hold_spend(id: &str, claims: &[Claim]) -> HoldSpend {
    HoldSpend {
        id: id.into(),
        claims: claims.to_vec(),
        fit: Fit::Below,
        lease_ms: 60_000,
        on_outage: OnOutage::Local,
    }
}

pub(crate) fn held(answer: HeldSpend) -> SpendHold {
    match answer {
        HeldSpend::Granted { hold, .. } => hold,
        HeldSpend::Refused(_) | HeldSpend::Away => panic!("not granted: {answer:?}"),
    }
}

/// Spent, held, estimated.
pub(crate) async fn figures(ledger: &dyn Ledger, scope: &str) -> [u64; 3] {
    let spendings = ledger.spendings(&[account(scope)]).await;
    let Spending { spent, held, estimated } = spendings[0];
    [spent, held, estimated].map(MicroDollars::micros)
}

pub(crate) fn take_slot(scope: &str, max: u64, lease: &str) -> TakeSlot {
    TakeSlot { scope: scope.into(), max, lease: lease.into(), on_outage: OnOutage::Local }
}
