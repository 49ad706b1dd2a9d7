//! What a look at Redis found, in words for whoever runs it: printed by `check --online`, logged at the start.
use ledger::{Finding, Inspection, RedisLedger, Severity};
use std::collections::BTreeSet;

/// A remark with its weight; the heaviest first.
pub(super) fn remarks(found: &Inspection) -> Vec<(Severity, String)> {
    let redis = format!("redis at {}", found.address);
    found.findings.iter().map(|finding| (finding.severity(), remark(&redis, finding))).collect()
}

/// Looks whenever Redis is met, and logs what was not logged before. Does not end.
pub(super) async fn watch(redis: &RedisLedger) {
    let mut told = BTreeSet::new();
    loop {
        redis.until_away(false).await;
        // If it cannot be reached, the ledger itself says so.
        let found = redis.look().await.unwrap_or_default();
        for (severity, text) in found.iter().flat_map(remarks) {
            if told.insert(text.clone()) {
                match severity {
                    Severity::Fault => tracing::error!("{text}"),
                    Severity::Warning => tracing::warn!("{text}"),
                    Severity::Note => tracing::info!("{text}"),
                }
            }
        }
        redis.until_away(true).await;
    }
}

fn remark(redis: &str, finding: &Finding) -> String {
    match finding {
        Finding::TakesNoWrites { reason } => format!("{redis} takes no writes. {reason}"),
        Finding::Denied { commands, keys } => {
            format!("{redis} does not let this user {}", denied(commands, keys))
        }
        Finding::Replica { primary } => {
            let primary = primary.as_ref().map_or_else(String::new, |primary| format!(" of {primary}"));
            format!("{redis} is a replica{primary}: what is counted there gets lost; name the primary")
        }
        Finding::Evicts { policy, maxmemory } => format!(
            "{redis} may evict keys (maxmemory {}, maxmemory-policy {policy}). A counter that goes \
             (<id>:<model>:rpm:<HH-MM>, ...:tpm:...) silently opens its limit anew, a cooldown that goes \
             (deployment:<id>:cooldown) sends requests to what is down. Set maxmemory-policy noeviction",
            bytes(*maxmemory)
        ),
        Finding::Forgets => format!(
            "{redis} keeps nothing on disk (neither appendonly nor save): a restart loses the cooldowns and the \
             current minute's counts, save what replicas that run write again. Set appendonly yes"
        ),
        Finding::Old { version, oldest } => {
            format!("{redis} is a Redis {version}; {oldest} is the oldest that is known to work")
        }
        Finding::ClockDiffers { ahead_ms } => {
            let apart_s = ahead_ms.unsigned_abs() / 1000;
            let side = if *ahead_ms < 0 { "behind" } else { "ahead of" };
            format!(
                "{redis}: its clock is {apart_s} s {side} this machine's. The ledger goes by Redis' clock"
            )
        }
        Finding::Unchecked { what } => format!(
            "{redis} does not tell everything, as managed ones often do not; could not be checked: {}. \
             It should have maxmemory-policy noeviction and appendonly yes",
            what.join(", ")
        ),
    }
}

fn denied(commands: &[String], keys: &[String]) -> String {
    let listed = |names: &[String]| format!("`{}`", names.join("`, `"));
    match (commands, keys) {
        (commands, []) => format!("run {}", listed(commands)),
        ([], keys) => format!("touch keys like {}", listed(keys)),
        (commands, keys) => format!("run {}, nor touch keys like {}", listed(commands), listed(keys)),
    }
}

fn bytes(bytes: u64) -> String {
    match bytes {
        0..0x10_0000 => format!("{bytes} bytes"),
        _ => format!("{} MiB", bytes >> 20),
    }
}
