//! What replicas share. Knows no HTTP, no provider and no config file.
mod book;
mod budget;
mod clock;
mod ledger;
mod memory;
mod money;
mod redis;
mod samples;
#[cfg(feature = "scenario")]
pub mod scenario;
mod slots;

pub use self::redis::{
    Finding, Inspection, LedgerError, RedisAddress, RedisEndpoint, RedisLedger, RedisLogin, RedisPlace,
    RedisSettings, RedisTls, RedisTrust, Severity,
};
pub use budget::{
    Account, AddSpend, BudgetWindow, Claim, Fit, HeldSpend, HoldSpend, RenewSpend, Scope, SpendHold, SpendId,
    SpendRefusal, Spending,
};
pub use clock::{Clock, ManualClock, Minute, SystemClock};
pub use ledger::{
    Cooldown, Cooling, Denial, Group, Hold, Ledger, Member, OnOutage, Outcome, Passed, Probe, Reading,
    Reserve, Reserved, Settle, Status, Tally, View, Want,
};
pub use memory::MemoryLedger;
pub use money::{MicroDollars, PricePerToken};
pub use samples::{Kind, Latency, NoSample, Recent, Sample, Sizes};
pub use slots::{Slot, TakeSlot, TakenSlot};
