//! All that a decision may look at, read once. Gates and strategies see nothing else.
use crate::Strategy;
use ledger::View;
use std::sync::Arc;

/// The world as one decision sees it.
#[derive(Debug, Clone)]
pub struct Facts<'a> {
    /// The ledger's clock, already read; milliseconds since the Unix epoch.
    pub now_ms: u64,
    /// The randomness, already rolled: a seed. Equal facts give equal decisions.
    pub dice: u64,
    /// What the ledger said of the group's deployments, index for index.
    pub view: &'a View,
    /// Orders what the gates leave.
    pub strategy: Strategy,
    /// rpm and tpm are limits here, not only weights: a candidate whose limit the view shows spent goes last.
    pub limits_bind: bool,
    /// Named by its id: only this one is a candidate, and cooldown and strategy do not apply.
    pub only: Option<usize>,
    /// Must not be asked in this walk, even if nothing else is left: tiers that were left behind.
    pub excluded: &'a [Arc<str>],
    /// Failed in this request: not asked again while another is left.
    pub failed: &'a [Arc<str>],
}
