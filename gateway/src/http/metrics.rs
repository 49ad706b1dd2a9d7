//! `GET /metrics` in Prometheus' text form.
use crate::app::App;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header;
use std::sync::Arc;

/// Counters of this replica, and the ledger's state per deployment as this replica sees it.
pub(super) async fn scrape(State(app): State<Arc<App>>) -> Response {
    let now_ms = app.ledger.now_ms();
    for group in &app.catalog.groups {
        let view = app.ledger.view(&group.ledger).await;
        app.metrics.ledger(group, &view, now_ms);
    }
    app.metrics.shared(app.ledger.status(), app.ledger.tally());
    ([(header::CONTENT_TYPE, prometheus::TEXT_FORMAT)], app.metrics.text()).into_response()
}
