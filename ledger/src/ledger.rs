//! The ledger's words and its one trait.
//!
//! A refusal is an answer, and a ledger that is away answers too (by its outage policy), so no operation
//! returns an error: what is broken shows in [`Status`].
use crate::budget::{Account, AddSpend, HeldSpend, HoldSpend, RenewSpend, SpendHold, Spending};
use crate::clock::Minute;
use crate::money::MicroDollars;
use crate::samples::{Latency, Recent, Sample, Sizes};
use crate::slots::{Slot, TakeSlot, TakenSlot};
use async_trait::async_trait;
use std::sync::Arc;

/// A deployment as the ledger knows it. Both parts stand in its key names.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Member {
    /// `model_info.id`: one deployment has one set of counters, whatever groups it is in.
    pub id: Arc<str>,
    /// The provider's model with its prefix, as configured (`openai/gpt-4o`).
    pub model: Arc<str>,
}

/// The deployments of a model group. Readings come back in this order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// The group's `model_name`.
    pub name: Arc<str>,
    /// In the config's order.
    pub members: Vec<Member>,
}

/// A deployment is out until a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cooling {
    /// End, in milliseconds since the Unix epoch by the ledger's clock.
    pub until_ms: u64,
    /// The provider's status that began it; 0 where there was none (no connection).
    pub status: u16,
}

/// What the ledger says of one deployment, this replica's own unsent changes included.
///
/// One that has trips and does not cool down is *half-open*: on probation, one request at a time tries it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reading {
    /// Requests of this minute.
    pub rpm: u64,
    /// Tokens held or used in this minute.
    pub tpm: u64,
    /// Calls that ended in this minute, over the fleet.
    pub calls: u64,
    /// Those of them that failed by the provider's fault.
    pub fails: u64,
    /// Calls that run now: this replica's own exactly, the others' as of their last beat.
    pub in_flight: u64,
    /// Present while the deployment is out.
    pub cooldown: Option<Cooling>,
    /// Cooldowns in a row that failures began, since it last proved itself.
    pub trips: u64,
    /// A request of the fleet is trying it right now.
    pub probing: bool,
    /// How fast its last calls were.
    pub latency: Recent<Latency>,
    /// How large its last calls were.
    pub sizes: Recent<Sizes>,
}

/// A recent copy of a group's values: it orders and hints, nothing is admitted by it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct View {
    /// The minute that the counts are of.
    pub minute: Minute,
    /// When the values were read, in milliseconds since the Unix epoch by the ledger's clock.
    pub read_at_ms: u64,
    /// One reading a member, in the group's order.
    pub readings: Vec<Reading>,
}

/// One candidate of a reservation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Want {
    /// Whose counters.
    pub member: Member,
    /// Requests a minute; `None` where no such limit binds.
    pub rpm_limit: Option<u64>,
    /// Tokens a minute; `None` where no such limit binds.
    pub tpm_limit: Option<u64>,
    /// Tokens to hold.
    pub tpm_hold: u64,
    /// Whether the whole hold must fit into what is left, save in an empty window. Else a request is admitted while
    /// less than the limit is used, so the one that crosses it completes and the next is refused.
    pub must_fit: bool,
}

impl Want {
    /// What must not be reached by the tokens in use, for this want to be granted. A limit of 0 admits nobody, any
    /// other one at least one in an empty window.
    pub(crate) fn tpm_bound(&self) -> Option<u64> {
        let room = |limit: u64| limit.saturating_add(1).saturating_sub(self.tpm_hold).clamp(1, limit);
        self.tpm_limit.map(|limit| if self.must_fit && limit > 0 { room(limit) } else { limit })
    }
}

/// Asks for one slot at the first of these that has room.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reserve {
    /// In the ranking's order; tried to the end of it.
    pub wants: Vec<Want>,
    /// A deployment named by its id is asked even while it cools down.
    pub ignore_cooldown: bool,
}

/// What a reservation took: to be settled after the call, or voided if it was never sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hold {
    /// Whose counters.
    pub member: Member,
    /// The window that was charged.
    pub minute: Minute,
    /// When it was taken, in milliseconds since the Unix epoch by the ledger's clock.
    pub began_ms: u64,
    /// Requests charged: 1, or 0 where nothing was reserved.
    pub rpm: u64,
    /// Tokens charged.
    pub tpm: u64,
    /// Present where this call tries a deployment on probation.
    pub probe: Option<Probe>,
}

/// The right to try a deployment on probation. There is one in the fleet; it ends with its hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    /// Whose it is.
    pub token: Arc<str>,
    /// Cooldowns in a row before this try.
    pub trips: u64,
}

impl Hold {
    /// Nothing was charged, and no call runs for it: to settle what is known of one that never ran. A call that
    /// no limit binds takes its hold by [`Ledger::begin`].
    #[must_use]
    pub fn unreserved(member: Member, began_ms: u64) -> Self {
        Self { member, minute: Minute::of(began_ms), began_ms, rpm: 0, tpm: 0, probe: None }
    }
}

/// Why a candidate was not granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Denial {
    /// It cools down for so many milliseconds more.
    Cooling {
        /// Milliseconds until the cooldown ends.
        wait_ms: u64,
    },
    /// It is on probation, and another request tries it.
    Probing {
        /// Milliseconds after which to ask again. How the try ends is not known.
        wait_ms: u64,
    },
    /// Its requests of this minute are used up.
    Rpm {
        /// Counter found.
        used: u64,
        /// Limit given.
        limit: u64,
        /// Milliseconds until the window ends.
        wait_ms: u64,
    },
    /// Its tokens of this minute are used up.
    Tpm {
        /// Counter found.
        used: u64,
        /// Limit given.
        limit: u64,
        /// Milliseconds until the window ends.
        wait_ms: u64,
    },
    /// The shared ledger is away and this replica's share of the limit is used up.
    Share {
        /// Milliseconds until the window ends.
        wait_ms: u64,
    },
    /// The shared ledger is away, and what has a limit is refused until it is back ([`OnOutage::Deny`]).
    Away {
        /// Milliseconds until it may be back.
        wait_ms: u64,
    },
}

impl Denial {
    /// Milliseconds until this reason passes.
    #[must_use]
    pub fn wait_ms(self) -> u64 {
        match self {
            Self::Cooling { wait_ms }
            | Self::Probing { wait_ms }
            | Self::Rpm { wait_ms, .. }
            | Self::Tpm { wait_ms, .. }
            | Self::Share { wait_ms }
            | Self::Away { wait_ms } => wait_ms,
        }
    }
}

/// A candidate that was passed over: its place among the wants, and why.
pub type Passed = (usize, Denial);

/// The answer to [`Reserve`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reserved {
    /// One was taken.
    Granted {
        /// Its place among the wants.
        index: usize,
        /// To be settled or voided.
        hold: Hold,
        /// Its requests of the minute, this one included.
        rpm: u64,
        /// Its tokens of the minute, this hold included.
        tpm: u64,
        /// Those before it in the order, and why they were not taken.
        passed: Vec<Passed>,
    },
    /// None had room. Nothing was charged.
    Refused {
        /// Every want, with its reason.
        passed: Vec<Passed>,
    },
}

/// How a call ended, as far as the deployment's health is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The provider answered.
    Success,
    /// The provider failed: counts towards a cooldown.
    Failure,
    /// The caller's fault, or the caller left: says nothing of the deployment.
    Neutral,
}

/// Replaces a hold by what was really used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settle {
    /// What had been reserved.
    pub hold: Hold,
    /// Tokens used in all. What exceeds the hold is charged to the minute in which the call ended.
    pub tokens: u64,
    /// Whether the call counts as a failure of the deployment.
    pub outcome: Outcome,
    /// What it tells of the deployment.
    pub sample: Sample,
}

/// Takes a deployment out for a time. Extends a running cooldown, never shortens it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cooldown {
    /// Which.
    pub member: Member,
    /// How long, in milliseconds from now.
    pub length_ms: u64,
    /// The provider's status that began it; 0 where there was none.
    pub status: u16,
    /// A short text for people, without secrets.
    pub reason: String,
    /// After it the deployment has to prove itself: it ends in probation. Not so after a 429 that named its own
    /// time, for then the time is all there is to wait for.
    pub probation: bool,
    /// The try that failed, if one did: its right ends with the cooldown's begin.
    pub probe: Option<Probe>,
}

/// Where the ledger stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// In this process; one replica alone.
    Embedded,
    /// Shared through Redis.
    Shared,
    /// Redis does not answer: this replica enforces its share alone.
    Away,
}

/// What decides while the shared ledger is away.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OnOutage {
    /// What this replica knows by itself: its share of a limit, what it last saw of a budget.
    #[default]
    Local,
    /// Nothing is admitted.
    Deny,
    /// Everything is admitted.
    Allow,
}

/// What a ledger counts of itself since its start: for metrics.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Reservations that Redis gave no answer to in time, so that [`OnOutage`] decided them.
    pub by_policy: u64,
    /// Calls of Redis whose deadline passed.
    pub missed: u64,
    /// How often Redis went away after it had been there.
    pub outages: u64,
    /// Replicas alive when last told, this one included; 0 where there are no others to know of.
    pub replicas: u64,
}

/// What replicas know together. Operations that only report (`begin`, `settle`, `void`, `cool`) never wait:
/// they bind this replica at once and reach the others within the flush period.
#[async_trait]
pub trait Ledger: Send + Sync + 'static {
    /// The group's recent values: at most 100 ms old under traffic.
    async fn view(&self, group: &Group) -> View;

    /// Takes one slot at the first want that has room, or says of each why not. Of a deployment on probation it
    /// is given to one request at a time.
    async fn reserve(&self, reserve: Reserve) -> Reserved;

    /// Counts a call that no limit binds, without asking: its request at once, its tokens when it is settled.
    fn begin(&self, member: &Member) -> Hold;

    /// The call has brought content: a probation that it began after has been passed. Settling a success says
    /// the same.
    fn answered(&self, hold: &Hold);

    /// Replaces a hold by what was used, whatever way the call ended.
    fn settle(&self, settle: Settle);

    /// Gives back a hold whose call was never sent.
    fn void(&self, hold: Hold);

    /// Takes a deployment out for a time.
    fn cool(&self, cooldown: Cooldown);

    /// Holds money on all accounts of a call, or says which of them refused.
    async fn hold_spend(&self, ask: HoldSpend) -> HeldSpend;

    /// Extends a hold's lease while its call runs. Does not wait.
    fn renew_spend(&self, renew: RenewSpend);

    /// Replaces a hold by what the call cost, on each of its accounts. Only the first end of a hold counts; one whose
    /// lease has run out meanwhile is counted at this cost instead of its amount. Does not wait.
    fn settle_spend(&self, hold: &SpendHold, cost: MicroDollars);

    /// Gives back a hold whose call was never sent. Does not wait.
    fn void_spend(&self, hold: &SpendHold);

    /// Counts money that nothing was held for, once by its id. Does not wait.
    fn add_spend(&self, add: AddSpend);

    /// What these accounts stand at, in their order. Reports of a replica show here within the flush period.
    async fn spendings(&self, accounts: &[Account]) -> Vec<Spending>;

    /// Takes one of a scope's slots.
    async fn take_slot(&self, ask: TakeSlot) -> TakenSlot;

    /// Frees a slot. Does not wait, so it can be called when a future is dropped.
    fn free_slot(&self, slot: &Slot);

    /// The ledger's clock: milliseconds since the Unix epoch.
    fn now_ms(&self) -> u64;

    /// Where the ledger stands.
    fn status(&self) -> Status;

    /// What it counted of itself; nothing where nothing can go away.
    fn tally(&self) -> Tally {
        Tally::default()
    }

    /// Writes what has not been written yet; for the shutdown.
    async fn drain(&self);
}
