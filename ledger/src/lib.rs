//! What replicas share. Knows no HTTP, no provider and no config file.
mod clock;
mod ledger;

pub use clock::{Clock, ManualClock, Minute, SystemClock};
pub use ledger::{
    Cooldown, Cooling, Denial, Group, Hold, Ledger, Member, Outcome, Passed, Reading, Reserve, Reserved,
    Settle, Status, View, Want,
};
