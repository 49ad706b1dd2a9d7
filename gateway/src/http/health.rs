//! Probes. They call nobody: a provider or a ledger that is away must not restart a replica.
use crate::app::App;
use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use ledger::Status;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The process runs.
pub(super) async fn liveness() -> Json<&'static str> {
    Json("I'm alive!")
}

/// The process takes requests. With the shared ledger away it still does, and says "degraded".
pub(super) async fn readiness(State(app): State<Arc<App>>) -> Response {
    if app.draining.load(Ordering::Relaxed) {
        return (StatusCode::SERVICE_UNAVAILABLE, Json(json!({"status": "shutting_down"}))).into_response();
    }
    let (status, ledger) = match app.ledger.status() {
        Status::Embedded => ("healthy", "embedded"),
        Status::Shared => ("healthy", "shared"),
        Status::Away => ("degraded", "away"),
    };
    Json(json!({"status": status, "ledger": ledger, "version": env!("CARGO_PKG_VERSION")})).into_response()
}
