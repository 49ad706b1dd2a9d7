//! Reads a request's body up to the limit.
use crate::refusal::Refusal;
use axum::body::Body;
use bytes::Bytes;
use futures_util::StreamExt;
use http::{HeaderMap, header};
use http_body_util::{BodyExt, LengthLimitError, Limited};

/// The largest body that is taken: room for several images.
pub(super) const BODY_MAX: usize = 32 << 20;
/// So much of a larger body is read and thrown away, so that its sender reads the 413 instead of a reset.
const DISCARD_MAX: usize = 4 * BODY_MAX;

/// The whole body.
///
/// # Errors
/// It is too large, or its sender left.
pub(super) async fn read(headers: &HeaderMap, body: Body) -> Result<Bytes, Refusal> {
    let announced = headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
    if announced.is_some_and(|length: usize| length > BODY_MAX) {
        discard(body).await;
        return Err(Refusal::TooLarge { limit: BODY_MAX });
    }
    let mut body = body;
    match Limited::new(&mut body, BODY_MAX).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => {
            discard(body).await;
            Err(Refusal::TooLarge { limit: BODY_MAX })
        }
        Err(_) => {
            let message = "the request body ended before it was complete".to_owned();
            Err(Refusal::BadBody { message, param: None })
        }
    }
}

async fn discard(body: Body) {
    let mut seen = 0;
    let mut chunks = body.into_data_stream();
    while let Some(Ok(chunk)) = chunks.next().await {
        seen += chunk.len();
        if seen > DISCARD_MAX {
            return;
        }
    }
}
