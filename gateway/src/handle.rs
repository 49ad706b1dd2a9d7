//! A request's way, as one sentence.
use crate::app::App;
use crate::catalog::Catalog;
use crate::prompt::Prompt;
use crate::refusal::Refusal;
use crate::rings::attempt::{Call, Served};
use crate::rings::fallback::Walk;
use crate::rings::retry::{Bounds, Next, Tries};
use ledger::View;
use routing::{Decision, Facts, Resolved};
use std::sync::Arc;

/// An answer, and the way it took.
pub struct Handled {
    /// The answer and who gave it.
    pub served: Served,
    /// The decision that led to it.
    pub decision: Decision,
    /// The group that answered.
    pub group: Arc<str>,
    /// Attempts after the first, within the groups visited.
    pub retries: u32,
    /// Groups visited after the first.
    pub fallbacks: usize,
}

/// Answers one admitted request: for each group on the way, for each try, decide who is asked, and ask.
///
/// # Errors
/// What the first group said, if no group answered.
pub async fn handle(app: &Arc<App>, catalog: &Arc<Catalog>, prompt: &Prompt) -> Result<Handled, Refusal> {
    let started = app.clock.instant();
    let mut walk = Walk::begin(catalog, &prompt.model, prompt.disable_fallbacks)?;
    let (mut tries, mut retries) = (Tries::default(), 0);
    loop {
        let (decision, view) = decide(app, catalog, walk.resolved(), &tries).await;
        let again = walk.hops() + tries.failed.len() > 0;
        let call = Call { app, catalog, prompt, resolved: walk.resolved(), again };
        let miss = match call.attempt(&decision, &view).await {
            Ok(served) => {
                let (retries, group) = (retries + tries.retries, decision.group.clone());
                return Ok(Handled { served, decision, group, retries, fallbacks: walk.hops() });
            }
            Err(miss) => miss,
        };
        let left = prompt.timeout.map(|timeout| timeout.saturating_sub(started.elapsed()));
        let settings = &catalog.settings;
        let named = walk.resolved().only.is_some();
        let bounds = Bounds { settings, num_retries: prompt.num_retries, named, left, jitter: dice() };
        match tries.after(&miss, &decision, walk.group(), &bounds) {
            Next::Again(wait) => {
                tries.remember(miss);
                tokio::time::sleep(wait).await;
            }
            Next::GiveUp => {
                let tried = std::mem::take(&mut tries);
                retries += tried.retries;
                walk.go_on(tried.verdict(miss))?;
            }
        }
    }
}

/// The one place that rolls dice.
#[expect(clippy::disallowed_methods, reason = "everything else is handed what was rolled here")]
fn dice<T>() -> T
where
    rand::distr::StandardUniform: rand::distr::Distribution<T>,
{
    rand::random()
}

/// Reads the world once, then decides: candidates, gates, ranking. Returns the view it went by.
pub async fn decide(app: &App, catalog: &Catalog, resolved: &Resolved, tries: &Tries) -> (Decision, View) {
    let group = &catalog.groups[resolved.group];
    let view = app.ledger.view(&group.ledger).await;
    let facts = Facts {
        now_ms: app.ledger.now_ms(),
        dice: dice(),
        view: &view,
        strategy: catalog.settings.strategy,
        limits_bind: catalog.settings.limits_bind,
        only: resolved.only,
        excluded: &tries.excluded,
        failed: &tries.failed,
    };
    let decision = routing::decide(&group.routing, &facts);
    app.metrics.removed(&decision.removed);
    (decision, view)
}
