//! What asks a model for something (`/v1/chat/completions`, `/v1/embeddings`): admit, parse, handle, respond.
use super::body;
use super::line::Line;
use crate::admit::admit;
use crate::app::App;
use crate::handle::{Handled, handle};
use crate::prompt::{Endpoint, Prompt};
use crate::refusal::Refusal;
use crate::rings::attempt::Answer;
use crate::running::Run;
use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, header};
use http_body::{Frame, SizeHint};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

/// `POST /v1/chat/completions`.
pub(crate) async fn chat(State(app): State<Arc<App>>, headers: HeaderMap, body: Body) -> Response {
    complete(app, Endpoint::Chat, headers, body).await
}

/// `POST /v1/embeddings`.
pub(crate) async fn embeddings(State(app): State<Arc<App>>, headers: HeaderMap, body: Body) -> Response {
    complete(app, Endpoint::Embeddings, headers, body).await
}

async fn complete(app: Arc<App>, endpoint: Endpoint, headers: HeaderMap, body: Body) -> Response {
    let started = app.clock.instant();
    let request_id = request_id(&headers);
    let mut line = Line::begin(&request_id);
    let result = answer(&app, endpoint, &headers, body, &mut line).await;
    let took = started.elapsed();
    let mut response = match result {
        Ok((handled, run)) => respond(handled, took).map(|body| Body::new(Counted { body, _run: run })),
        Err(refusal) => {
            line.refused(&refusal);
            refusal.into_response()
        }
    };
    if let Ok(value) = HeaderValue::from_str(&request_id) {
        response.headers_mut().insert("x-request-id", value);
    }
    app.metrics.request(line.group_label(), response.status(), took);
    line.end(response.status(), took);
    response
}

async fn answer(
    app: &Arc<App>,
    endpoint: Endpoint,
    headers: &HeaderMap,
    body: Body,
    line: &mut Line,
) -> Result<(Handled, Run), Refusal> {
    let catalog = app.catalog.clone();
    admit(&catalog, headers)?;
    let prompt = Prompt::parse(endpoint, body::read(headers, body).await?)?;
    let run = app.running.begin();
    line.asked(&catalog, &prompt.model);
    let handled = handle(app, &catalog, &prompt).await?;
    line.served(&handled);
    Ok((handled, run))
}

/// An answer on its way: its request runs until the last of it was handed over, or its client has left.
struct Counted {
    body: Body,
    _run: Run,
}

impl http_body::Body for Counted {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The caller's id for this request if it is a plain one, else a new one.
fn request_id(headers: &HeaderMap) -> String {
    let plain = |id: &&str| {
        (1..=128).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.:".contains(&b))
    };
    let given = headers.get("x-request-id").and_then(|value| value.to_str().ok()).filter(plain);
    given.map_or_else(|| uuid::Uuid::now_v7().to_string(), str::to_owned)
}

fn respond(handled: Handled, took: Duration) -> Response {
    let overhead = took.saturating_sub(handled.served.provider_took);
    let headers = [
        ("x-litellm-model-id", handled.served.deployment.member.id.to_string()),
        ("x-litellm-model-group", handled.group.to_string()),
        ("x-litellm-attempted-retries", handled.retries.to_string()),
        ("x-litellm-attempted-fallbacks", handled.fallbacks.to_string()),
        ("x-litellm-overhead-duration-ms", format!("{:.3}", overhead.as_secs_f64() * 1000.0)),
    ];
    let mut response = match handled.served.answer {
        Answer::Plain(plain) => {
            let mut response = Response::new(Body::from(plain.body));
            response.headers_mut().insert(header::CONTENT_TYPE, plain.content_type);
            response
        }
        Answer::Stream(relay) => {
            let mut response = Response::new(Body::from_stream(relay.into_events()));
            let headers = response.headers_mut();
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
            headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
            // Tells nginx and its kin to pass each event on as it comes.
            headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
            response
        }
    };
    for (name, value) in headers {
        // An id with characters that no header can hold is left out rather than mangled.
        if let Ok(value) = HeaderValue::from_str(&value) {
            response.headers_mut().insert(HeaderName::from_static(name), value);
        }
    }
    response
}
