//! What `on_outage` makes of the candidates that Redis was not heard on.
use super::reserve::Placed;
use crate::ledger::{Denial, OnOutage, Passed, Want};

/// Redis is asked twice a second whether it is back, and is believed within a second.
const BACK_MS: u64 = 1_000;

/// Those that are denied at once, and those that this replica may decide on, with the limits that it is to keep.
pub(super) fn sort(policy: OnOutage, open: &[Placed<'_>]) -> (Vec<Passed>, Vec<(usize, Want)>) {
    let (mut denied, mut left) = (Vec::new(), Vec::with_capacity(open.len()));
    for &(index, want) in open {
        let is_limited = want.rpm_limit.or(want.tpm_limit).is_some();
        match policy {
            OnOutage::Deny if is_limited => denied.push((index, Denial::Away { wait_ms: BACK_MS })),
            OnOutage::Deny | OnOutage::Local => left.push((index, want.clone())),
            OnOutage::Allow => {
                left.push((index, Want { rpm_limit: None, tpm_limit: None, ..want.clone() }));
            }
        }
    }
    (denied, left)
}
