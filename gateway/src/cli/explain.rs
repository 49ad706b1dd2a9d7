//! `onegate explain`: the decision for a model name on an unused ledger.
use super::Failed;
use crate::config::{self, Environment};
use crate::refusal::Refusal;
use crate::rings::fallback::Walk;
use ledger::{Minute, Reading, View};
use routing::Facts;
use std::io::Write;
use std::path::Path;

/// Prints the ranking and the removals.
pub(super) fn run(
    out: &mut dyn Write,
    path: &Path,
    model: &str,
    environment: &Environment,
) -> Result<(), Failed> {
    let catalog = config::load(path, environment)?.catalog;
    let walk = Walk::begin(&catalog, model, false).map_err(|refusal| match refusal {
        Refusal::UnknownModel { name, near } if near.is_empty() => format!("no model `{name}`"),
        Refusal::UnknownModel { name, near } => format!("no model `{name}`; near names: {}", near.join(", ")),
        other => other.name().to_owned(),
    })?;
    let group = walk.group();
    let readings = vec![Reading::default(); group.deployments.len()];
    let view = View { minute: Minute::of(0), read_at_ms: 0, readings };
    let settings = &catalog.settings;
    let facts = Facts {
        now_ms: 0,
        dice: 0,
        view: &view,
        strategy: settings.strategy,
        limits_bind: settings.limits_bind,
        only: walk.resolved().only,
        excluded: &[],
        failed: &[],
    };
    let decision = routing::decide(&group.routing, &facts);
    writeln!(out, "{model} -> group {} by {}", decision.group, decision.strategy.name())?;
    for (place, ranked) in decision.ranked.iter().enumerate() {
        writeln!(out, "  {}. {} (score {})", place + 1, ranked.id, ranked.score)?;
    }
    for removed in &decision.removed {
        writeln!(out, "  not {}: {} ({})", removed.id, removed.reason, removed.gate)?;
    }
    Ok(())
}
