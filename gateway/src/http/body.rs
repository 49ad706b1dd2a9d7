//! Reads a request's body up to the limit.
use crate::refusal::Refusal;
use axum::body::Body;
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use http::{HeaderMap, header};
use std::time::Duration;
use tokio::time::timeout;

/// The largest body that is taken: room for several images.
pub(super) const BODY_MAX: usize = 32 << 20;
/// So much of a larger body is read and thrown away, so that its sender reads the 413 instead of a reset.
const DISCARD_MAX: usize = 4 * BODY_MAX;

/// How long a sender is waited for: one that is slower holds memory for nothing.
#[derive(Clone, Copy)]
struct Patience {
    /// For the whole body.
    whole: Duration,
    /// For the next piece of it.
    silence: Duration,
}

const PATIENCE: Patience = Patience { whole: Duration::from_secs(300), silence: Duration::from_secs(30) };
/// So long a body that is refused is thrown away.
const DISCARD_TIMEOUT: Duration = Duration::from_secs(10);

/// The whole body.
///
/// # Errors
/// It is too large or too slow, or its sender left.
pub(super) async fn read(headers: &HeaderMap, body: Body) -> Result<Bytes, Refusal> {
    let announced = headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
    if announced.is_some_and(|length: usize| length > BODY_MAX) {
        // A sender that asks first has sent nothing yet, and now will not.
        if !headers.contains_key(header::EXPECT) {
            discard(body).await;
        }
        return Err(Refusal::TooLarge { limit: BODY_MAX });
    }
    collect(body, PATIENCE).await
}

async fn collect(body: Body, patience: Patience) -> Result<Bytes, Refusal> {
    let pieces = pieces(body, patience.silence);
    timeout(patience.whole, pieces).await.unwrap_or(Err(Refusal::TooSlow))
}

async fn pieces(body: Body, silence: Duration) -> Result<Bytes, Refusal> {
    let mut pieces = body.into_data_stream();
    // Most bodies are one piece: no copy.
    let (mut first, mut whole) = (Bytes::new(), BytesMut::new());
    loop {
        let piece = match timeout(silence, pieces.next()).await {
            Err(_) => return Err(Refusal::TooSlow),
            Ok(None) => return Ok(if whole.is_empty() { first } else { whole.freeze() }),
            Ok(Some(Ok(piece))) => piece,
            Ok(Some(Err(_))) => {
                let message = "the request body ended before it was complete".to_owned();
                return Err(Refusal::BadBody { message, param: None });
            }
        };
        if first.len().max(whole.len()) + piece.len() > BODY_MAX {
            drop(whole);
            discard(Body::from_stream(pieces)).await;
            return Err(Refusal::TooLarge { limit: BODY_MAX });
        }
        if first.is_empty() {
            first = piece;
            continue;
        }
        if whole.is_empty() {
            whole.extend_from_slice(&first);
        }
        whole.extend_from_slice(&piece);
    }
}

async fn discard(body: Body) {
    let mut pieces = body.into_data_stream();
    let mut seen = 0;
    let all = async {
        while let Some(Ok(piece)) = pieces.next().await {
            seen += piece.len();
            if seen > DISCARD_MAX {
                return;
            }
        }
    };
    // What is left unread costs its sender the 413, no more.
    let _ = timeout(DISCARD_TIMEOUT, all).await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::stream;
    use std::convert::Infallible;

    const LONG: Duration = Duration::from_secs(30);
    const SHORT: Duration = Duration::from_millis(100);

    async fn outcome(pieces: &'static [&'static str], more: bool, patience: Patience) -> String {
        let pieces = stream::iter(pieces).map(|piece| Ok::<_, Infallible>(*piece));
        let rest = if more { stream::pending().left_stream() } else { stream::empty().right_stream() };
        match collect(Body::from_stream(pieces.chain(rest)), patience).await {
            Ok(body) => String::from_utf8(body.to_vec()).unwrap(),
            Err(refusal) => refusal.name().to_owned(),
        }
    }

    #[tokio::test]
    async fn a_body_is_its_pieces_in_order() {
        let patience = Patience { whole: LONG, silence: LONG };
        assert_eq!(outcome(&[], false, patience).await, "");
        assert_eq!(outcome(&["abc"], false, patience).await, "abc");
        assert_eq!(outcome(&["a", "", "b", "c"], false, patience).await, "abc");
    }

    #[tokio::test]
    async fn a_body_that_stops_coming_or_does_not_end_is_refused() {
        for patience in [Patience { whole: LONG, silence: SHORT }, Patience { whole: SHORT, silence: LONG }] {
            assert_eq!(outcome(&["a", "b"], true, patience).await, "too_slow");
        }
    }
}
