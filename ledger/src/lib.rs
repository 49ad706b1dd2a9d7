//! What replicas share. Knows no HTTP, no provider and no config file.
mod book;
mod clock;
mod ledger;
mod memory;
mod redis;
mod samples;
#[cfg(feature = "scenario")]
pub mod scenario;

pub use self::redis::{LedgerError, RedisLedger, RedisSettings};
pub use clock::{Clock, ManualClock, Minute, SystemClock};
pub use ledger::{
    Cooldown, Cooling, Denial, Group, Hold, Ledger, Member, Outcome, Passed, Reading, Reserve, Reserved,
    Settle, Status, View, Want,
};
pub use memory::MemoryLedger;
pub use samples::{Kind, Latency, NoSample, Recent, Sample, Sizes};
