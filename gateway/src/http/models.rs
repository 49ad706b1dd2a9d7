//! `GET /v1/models`: the names that a request may use.
use crate::admit::admit;
use crate::app::App;
use crate::refusal::Refusal;
use axum::Json;
use axum::extract::State;
use http::HeaderMap;
use serde_json::{Value, json};
use std::sync::Arc;

/// Model groups and aliases in OpenAI's list shape. They have no date of creation, so it is 0.
///
/// # Errors
/// The caller may not ask.
pub(super) async fn list(State(app): State<Arc<App>>, headers: HeaderMap) -> Result<Json<Value>, Refusal> {
    admit(&app.catalog, &headers)?;
    let model = |name| json!({"id": name, "object": "model", "created": 0, "owned_by": "onegate"});
    let data: Vec<Value> = app.catalog.names.public().map(model).collect();
    Ok(Json(json!({"object": "list", "data": data})))
}
