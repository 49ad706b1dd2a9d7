//! What replicas share. Knows no HTTP, no provider and no config file.
mod book;
mod clock;
mod ledger;
mod memory;
mod redis;
#[cfg(feature = "scenario")]
pub mod scenario;

pub use self::redis::{
    LedgerError, RedisAddress, RedisEndpoint, RedisLedger, RedisLogin, RedisPlace, RedisSettings, RedisTls,
    RedisTrust,
};
pub use clock::{Clock, ManualClock, Minute, SystemClock};
pub use ledger::{
    Cooldown, Cooling, Denial, Group, Hold, Ledger, Member, Outcome, Passed, Reading, Reserve, Reserved,
    Settle, Status, View, Want,
};
pub use memory::MemoryLedger;
