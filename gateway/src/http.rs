//! The edge: which path goes where. One file an endpoint; `refusal` is the only table from a refusal to the wire.
mod body;
mod completions;
mod explain;
mod health;
mod line;
mod metrics;
mod models;
mod refusal;
pub mod server;

use crate::app::App;
use crate::refusal::Refusal;
use axum::Router;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use http::{Method, Uri};
use std::sync::Arc;

/// All endpoints.
pub fn router(app: Arc<App>) -> Router {
    Router::new()
        .route("/v1/chat/completions", post(completions::chat))
        .route("/chat/completions", post(completions::chat))
        .route("/v1/embeddings", post(completions::embeddings))
        .route("/embeddings", post(completions::embeddings))
        .route("/v1/models", get(models::list))
        .route("/models", get(models::list))
        .route("/route/explain", post(explain::explain))
        .route("/health/liveliness", get(health::liveness))
        .route("/health/liveness", get(health::liveness))
        .route("/health/readiness", get(health::readiness))
        .route("/metrics", get(metrics::scrape))
        .fallback(async |method: Method, uri: Uri| no_such_endpoint(&method, &uri, false))
        .method_not_allowed_fallback(async |method: Method, uri: Uri| no_such_endpoint(&method, &uri, true))
        .with_state(app)
}

fn no_such_endpoint(method: &Method, uri: &Uri, wrong_method: bool) -> Response {
    let path: String = uri.path().chars().take(200).collect();
    Refusal::NoSuchEndpoint { asked: format!("{method} {path}"), wrong_method }.into_response()
}
