//! `onegate check`: every fault of a config, without any network; with `--online` Redis is looked at too.
use super::{Failed, inspection};
use crate::config::{self, Environment};
use ledger::{RedisLedger, RedisSettings, Severity, SystemClock};
use std::io::Write;
use std::path::Path;

/// Prints warnings and what the config holds; fails with all faults. Online, it fails too if Redis cannot be
/// reached or used.
pub(super) fn run(
    out: &mut dyn Write,
    path: &Path,
    online: bool,
    environment: &Environment,
) -> Result<(), Failed> {
    let loaded = config::load(path, environment)?;
    for warning in &loaded.warnings {
        writeln!(out, "{warning}\n")?;
    }
    let groups = loaded.catalog.groups.len();
    let deployments: usize = loaded.catalog.groups.iter().map(|group| group.deployments.len()).sum();
    writeln!(
        out,
        "{}: {groups} model groups, {deployments} deployments, {} warnings, no faults",
        path.display(),
        loaded.warnings.len()
    )?;
    match loaded.redis {
        Some(redis) if online => look(out, redis),
        None if online => Ok(writeln!(out, "no Redis is named: the ledger lives in the process")?),
        Some(_) | None => Ok(()),
    }
}

fn look(out: &mut dyn Write, redis: RedisSettings) -> Result<(), Failed> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut unfit = Vec::new();
    for found in runtime.block_on(RedisLedger::inspect(redis, &SystemClock))? {
        let remarks = inspection::remarks(&found);
        for (severity, text) in &remarks {
            let word = match severity {
                Severity::Fault => "error",
                Severity::Warning => "warning",
                Severity::Note => "note",
            };
            writeln!(out, "{word}: {text}\n")?;
        }
        let product = found.product.as_deref().unwrap_or("redis");
        if remarks.iter().any(|(severity, _)| *severity == Severity::Fault) {
            unfit.push(format!("{product} at {} cannot be used for the ledger", found.address));
        } else {
            writeln!(out, "{product} at {} can be used for the ledger", found.address)?;
        }
    }
    if unfit.is_empty() { Ok(()) } else { Err(unfit.join("\n").into()) }
}
