//! `onegate check`: every fault of a config, without any network.
use super::Failed;
use crate::config::{self, Environment};
use std::io::Write;
use std::path::Path;

/// Prints warnings and what the config holds; fails with all faults.
pub(super) fn run(out: &mut dyn Write, path: &Path, environment: &Environment) -> Result<(), Failed> {
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
    Ok(())
}
