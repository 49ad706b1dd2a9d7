//! `POST /route/explain`: the decision that a body would get. No provider is called, nothing is reserved.
use super::body;
use crate::admit::admit;
use crate::app::App;
use crate::catalog::Group;
use crate::handle::decide;
use crate::prompt::{Endpoint, Prompt};
use crate::refusal::Refusal;
use crate::rings::fallback::Walk;
use crate::rings::retry::Tries;
use axum::Json;
use axum::body::Body;
use axum::extract::State;
use http::HeaderMap;
use ledger::View;
use routing::Decision;
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// Explains.
///
/// # Errors
/// The body cannot be understood, or its model is unknown.
pub(super) async fn explain(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Value>, Refusal> {
    let catalog = app.catalog.clone();
    admit(&catalog, &headers)?;
    let prompt = Prompt::parse(Endpoint::Chat, body::read(&headers, body).await?)?;
    let walk = Walk::begin(&catalog, &prompt.model, prompt.disable_fallbacks)?;
    let (decision, view) = decide(&app, &catalog, walk.resolved(), &Tries::default()).await;
    Ok(Json(shown(&decision, walk.group(), &view)))
}

/// A decision as JSON.
#[must_use]
pub(super) fn shown(decision: &Decision, group: &Group, view: &View) -> Value {
    let ranked = decision.ranked.iter().map(|ranked| {
        json!({
            "deployment": ranked.id, "score": ranked.score, "limit_spent": ranked.spent,
            "on_probation": ranked.probation,
        })
    });
    let removed = decision.removed.iter().map(|removed| {
        json!({"deployment": removed.id, "gate": removed.gate, "reason": removed.reason.to_string()})
    });
    json!({
        "group": decision.group,
        "strategy": decision.strategy.name(),
        "picked": decision.ranked.first().map(|first| &first.id),
        "ranked": ranked.collect::<Vec<_>>(),
        "removed": removed.collect::<Vec<_>>(),
        "ledger": ledger_values(group, view),
    })
}

fn ledger_values(group: &Group, view: &View) -> Map<String, Value> {
    let pairs = group.deployments.iter().zip(&view.readings).map(|(deployment, reading)| {
        let cooldown = reading.cooldown.as_ref();
        let value = json!({
            "rpm": {"used": reading.rpm, "limit": deployment.facts.rpm},
            "tpm": {"used": reading.tpm, "limit": deployment.facts.tpm},
            "in_flight": reading.in_flight,
            "mean_tokens": reading.sizes.mean_tokens(),
            "calls": reading.calls,
            "fails": reading.fails,
            "cooldown_until_ms": cooldown.map(|cooling| cooling.until_ms),
            "trips": reading.trips,
            "probing": reading.probing,
        });
        (deployment.member.id.to_string(), value)
    });
    pairs.collect()
}
