//! The shared ledger: each operation is one script or one read on Redis. It starts, answers and keeps limits
//! bounded whether Redis is there or not.
mod awaited;
mod connect;
mod cooldown_value;
mod delta;
mod durability;
mod flush;
mod in_flight;
mod keys;
mod left;
mod local;
mod outage;
mod policy;
mod probes;
mod reason;
mod reserve;
mod samples;
mod scripts;
mod share;
mod slots;
mod spend;
mod tally;
mod view;

pub use connect::{RedisAddress, RedisEndpoint, RedisLogin, RedisPlace, RedisSettings, RedisTls, RedisTrust};
pub use durability::{Finding, Inspection, Severity};

use crate::budget::{Account, AddSpend, HeldSpend, HoldSpend, RenewSpend, SpendHold, Spending};
use crate::clock::Clock;
use crate::ledger::{
    Cooldown, Group, Hold, Ledger, Member, OnOutage, Reserve, Reserved, Settle, Status, Tally, View,
};
use crate::money::MicroDollars;
use crate::slots::{Slot, TakeSlot, TakenSlot};
use async_trait::async_trait;
use connect::{Heart, Home, Lines, Terms};
use keys::Keys;
use local::Local;
use outage::Breaker;
use scripts::Scripts;
use std::fmt;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;
use tokio::sync::{Notify, Semaphore};
use tokio::task::AbortHandle;
use tokio::time::timeout;
use view::Views;

/// No request waits longer for an answer of Redis.
const DEADLINE: Duration = Duration::from_millis(100);
/// Reservations in flight. More would only queue in front of the socket, with their deadlines running; these are enough
/// to keep it busy, and on a loaded machine they are answered in time.
const IN_FLIGHT_MAX: usize = 64;

/// Settings that can never work. That Redis does not answer is no error for a ledger, see [`Status::Away`].
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    /// Not an address that can be connected to. The reason does not repeat the address.
    #[error("the redis url cannot be used: {reason}; write redis://host:port/database")]
    Address {
        /// Why, in few words.
        reason: String,
    },
    /// Not what a connection can be made of: certificates that are none, for example.
    #[error("the redis settings cannot be used: {reason}")]
    Settings {
        /// Why, in few words.
        reason: String,
    },
    /// An inspection found no Redis, or none that lets us in.
    #[error("redis at {address} cannot be reached: {reason}")]
    Unreachable {
        /// Host and port.
        address: String,
        /// What happened, and what to look at.
        reason: String,
    },
}

/// The ledger that replicas share. Dropping it ends its tasks; [`Ledger::drain`] first, to write what is left.
pub struct RedisLedger {
    shared: Arc<Shared>,
    tasks: [AbortHandle; 2],
}

/// What the ledger's requests and tasks work on.
struct Shared {
    home: Home,
    /// Where it is, for messages: nothing secret.
    address: String,
    on_outage: OnOutage,
    keys: Keys,
    scripts: Scripts,
    heart: Heart,
    clock: Arc<dyn Clock>,
    /// From our clock to the server's.
    offset_ms: AtomicI64,
    trusts_clock: bool,
    deadline: Duration,
    lines: RwLock<Option<Lines>>,
    breaker: Breaker,
    in_flight: Semaphore,
    local: Mutex<Local>,
    tokens: AtomicU64,
    views: Views,
    spends: spend::Spends,
    slots: slots::Slots,
    left: left::Left,
    /// Shared by reads, held alone by a flush: so a read knows which changes of ours it contains.
    rest_order: tokio::sync::RwLock<()>,
    flush_now: Notify,
}

impl RedisLedger {
    /// Starts at once and connects in the background; [`Status::Away`] until that succeeds. Must be called
    /// within a tokio runtime.
    ///
    /// # Errors
    /// Only for an address that can never work.
    pub fn start(settings: RedisSettings, clock: Arc<dyn Clock>) -> Result<Arc<Self>, LedgerError> {
        Self::start_with(settings, clock, false, DEADLINE)
    }

    /// For tests: takes the given clock as it is instead of correcting it by the server's, so that a test can
    /// move through minutes without waiting for them (it must age the keys itself), and with a deadline that a
    /// loaded machine does not miss where the test is not about deadlines.
    ///
    /// # Errors
    /// Only for an address that can never work.
    #[cfg(feature = "scenario")]
    pub fn start_for_scenario(
        settings: RedisSettings,
        clock: Arc<dyn Clock>,
        deadline: Duration,
    ) -> Result<Arc<Self>, LedgerError> {
        Self::start_with(settings, clock, true, deadline)
    }

    /// For tests: asks for each scope by a call of its own, as on servers that lie apart.
    #[cfg(feature = "scenario")]
    pub fn ask_scopes_apart(&self) {
        self.shared.spends.set_apart();
    }

    /// Whether these settings can work at all; connects to nothing.
    ///
    /// # Errors
    /// They never can.
    pub fn check(place: RedisPlace) -> Result<(), LedgerError> {
        home(place, DEADLINE).map(drop)
    }

    /// Looks whether the Redis of these settings can carry a ledger, without starting one. Every master of a cluster
    /// is looked at.
    ///
    /// # Errors
    /// The settings can never work, or there is no Redis that lets us in.
    pub async fn inspect(settings: RedisSettings, clock: &dyn Clock) -> Result<Vec<Inspection>, LedgerError> {
        let RedisSettings { place, namespace, .. } = settings;
        let home = home(place, DEADLINE)?;
        let keys = Keys::new(namespace, home.is_sharded());
        durability::inspect(&home, &keys, &Scripts::new(), clock).await
    }

    /// The same for the Redis of this ledger.
    ///
    /// # Errors
    /// There is no Redis that lets us in.
    pub async fn look(&self) -> Result<Vec<Inspection>, LedgerError> {
        let Shared { home, keys, scripts, clock, .. } = &*self.shared;
        durability::inspect(home, keys, scripts, &**clock).await
    }

    /// Where Redis is: host and port, of several kinds more of them. Nothing secret.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.shared.address
    }

    /// Why Redis is away, and what to look at; `None` while it is there.
    #[must_use]
    pub fn why_away(&self) -> Option<String> {
        self.shared.breaker.why()
    }

    /// Returns when the ledger is away, or when it is not.
    pub async fn until_away(&self, away: bool) {
        if away {
            self.shared.breaker.until_away().await;
        } else {
            self.shared.breaker.until_there().await;
        }
    }

    /// Waits until the ledger is shared, at most so long. For the start: a replica that has not seen the others
    /// yet takes the whole limit for its share.
    pub async fn wait_until_shared(&self, at_most: Duration) -> Status {
        // Elapsed or not, the status tells.
        let _ = timeout(at_most, self.shared.breaker.until_there()).await;
        self.status()
    }

    fn start_with(
        settings: RedisSettings,
        clock: Arc<dyn Clock>,
        trusts_clock: bool,
        deadline: Duration,
    ) -> Result<Arc<Self>, LedgerError> {
        let RedisSettings { place, namespace, on_outage } = settings;
        let home = home(place, deadline)?;
        let keys = Keys::new(namespace, home.is_sharded());
        let heart = Heart {
            keys: keys.clone(),
            replica: uuid::Uuid::now_v7().to_string(),
            clock: Arc::clone(&clock),
        };
        let local = Local::of(&heart.replica);
        let shared = Arc::new(Shared {
            address: home.address(),
            spends: spend::Spends::new(home.is_sharded()),
            home,
            on_outage,
            keys,
            scripts: Scripts::new(),
            heart,
            clock,
            offset_ms: AtomicI64::new(0),
            trusts_clock,
            deadline,
            lines: RwLock::new(None),
            breaker: Breaker::new(),
            in_flight: Semaphore::new(IN_FLIGHT_MAX),
            local: Mutex::new(local),
            tokens: AtomicU64::new(0),
            views: Views::default(),
            slots: slots::Slots::default(),
            left: left::Left::default(),
            rest_order: tokio::sync::RwLock::new(()),
            flush_now: Notify::new(),
        });
        #[expect(clippy::disallowed_methods, reason = "both tasks are aborted when the ledger is dropped")]
        let tasks = [
            tokio::spawn(outage::guard(Arc::clone(&shared))).abort_handle(),
            tokio::spawn(flush::run(Arc::clone(&shared))).abort_handle(),
        ];
        Ok(Arc::new(Self { shared, tasks }))
    }
}

fn home(place: RedisPlace, deadline: Duration) -> Result<Home, LedgerError> {
    Home::new(place, deadline).map_err(|error| LedgerError::Settings { reason: error.to_string() })
}

impl Shared {
    fn terms(&self) -> Terms<'_> {
        Terms { scripts: &self.scripts, heart: &self.heart, deadline: self.deadline }
    }

    /// The ledger's clock: ours, corrected to the server's.
    fn now_ms(&self) -> u64 {
        self.clock.unix_ms().saturating_add_signed(self.offset_ms.load(Ordering::Relaxed))
    }

    /// Takes over an offset to the server's clock, unless the one we have lies within its error: else the
    /// minute would jitter at its ends.
    fn correct_clock(&self, offset_ms: i64, error_ms: u64) {
        let known_ms = self.offset_ms.load(Ordering::Relaxed);
        if !self.trusts_clock && known_ms.abs_diff(offset_ms) > error_ms {
            self.offset_ms.store(offset_ms, Ordering::Relaxed);
        }
    }

    /// The time as a script takes it that lives by milliseconds: the server's own, unless a test holds it.
    fn script_now(&self, now_ms: u64) -> String {
        if self.trusts_clock { now_ms.to_string() } else { "-1".to_owned() }
    }

    fn lines(&self) -> Option<Lines> {
        self.lines.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set_lines(&self, lines: Option<Lines>) {
        *self.lines.write().unwrap_or_else(PoisonError::into_inner) = lines;
    }

    /// Unlike any other that this or another replica makes.
    fn next_token(&self) -> String {
        format!("{}:{}", self.heart.replica, self.tokens.fetch_add(1, Ordering::Relaxed))
    }

    /// Gives a hold back whose call was never sent.
    fn void(&self, hold: &Hold) {
        self.local().void(hold, self.now_ms());
        // The slot is free: nobody should be refused for it a moment longer than needed.
        self.flush_now.notify_one();
    }

    /// A panic elsewhere leaves counters that are still whole: each operation changes them in one go.
    fn local(&self) -> MutexGuard<'_, Local> {
        self.local.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Ledger for RedisLedger {
    async fn view(&self, group: &Group) -> View {
        view::view(&self.shared, group).await
    }

    async fn reserve(&self, reserve: Reserve) -> Reserved {
        left::Asked::new(&self.shared, reserve).await
    }

    fn begin(&self, member: &Member) -> Hold {
        self.shared.local().begin(member, self.now_ms())
    }

    fn answered(&self, hold: &Hold) {
        if self.shared.local().answered(hold, self.now_ms()) {
            self.shared.flush_now.notify_one();
        }
    }

    fn settle(&self, settle: Settle) {
        // The end of a try frees others, or lets all traffic back.
        if self.shared.local().settle(&settle, self.now_ms()) {
            self.shared.flush_now.notify_one();
        }
    }

    fn void(&self, hold: Hold) {
        self.shared.void(&hold);
    }

    fn cool(&self, cooldown: Cooldown) {
        self.shared.local().cool(cooldown, self.now_ms());
        self.shared.flush_now.notify_one();
    }

    async fn hold_spend(&self, ask: HoldSpend) -> HeldSpend {
        spend::hold(&self.shared, ask).await
    }

    fn renew_spend(&self, renew: RenewSpend) {
        spend::renew(&self.shared, renew);
    }

    fn settle_spend(&self, hold: &SpendHold, cost: MicroDollars) {
        spend::settle(&self.shared, hold, cost);
    }

    fn void_spend(&self, hold: &SpendHold) {
        spend::void(&self.shared, hold);
    }

    fn add_spend(&self, add: AddSpend) {
        spend::add(&self.shared, add);
    }

    async fn spendings(&self, accounts: &[Account]) -> Vec<Spending> {
        spend::spendings(&self.shared, accounts).await
    }

    async fn take_slot(&self, ask: TakeSlot) -> TakenSlot {
        slots::take(&self.shared, ask).await
    }

    fn free_slot(&self, slot: &Slot) {
        slots::free(&self.shared, slot);
    }

    fn now_ms(&self) -> u64 {
        self.shared.now_ms()
    }

    fn status(&self) -> Status {
        // While a master of a cluster is away, its deployments go by this replica's share.
        if self.shared.breaker.is_away() || self.shared.home.lacks_a_part() {
            Status::Away
        } else {
            Status::Shared
        }
    }

    fn tally(&self) -> Tally {
        let Breaker { counts, .. } = &self.shared.breaker;
        Tally {
            by_policy: counts.by_policy.get(),
            missed: counts.missed.get(),
            outages: counts.outages.get(),
            replicas: self.shared.breaker.replicas(),
        }
    }

    async fn drain(&self) {
        flush::drain(&self.shared).await;
    }
}

impl Drop for RedisLedger {
    fn drop(&mut self) {
        self.tasks.iter().for_each(AbortHandle::abort);
    }
}

impl fmt::Debug for RedisLedger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisLedger").field("status", &self.status()).finish_non_exhaustive()
    }
}
