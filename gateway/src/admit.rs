//! Who asks, and may they ask at all.
use crate::catalog::Catalog;
use crate::refusal::Refusal;
use http::{HeaderMap, header};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// Checks the caller's key. Without a master key everyone may ask: the gateway then listens on loopback only.
///
/// # Errors
/// No key, or one that is not the master key.
pub fn admit(catalog: &Catalog, headers: &HeaderMap) -> Result<(), Refusal> {
    let Some(master) = &catalog.master_key else { return Ok(()) };
    let key = key_of(headers).ok_or(Refusal::BadKey { missing: true })?;
    // Hashes are compared, so that the time taken tells nothing of the key, its length included.
    let (asked, wanted) = (Sha256::digest(key), Sha256::digest(master.reveal()));
    if bool::from(asked.as_slice().ct_eq(wanted.as_slice())) {
        Ok(())
    } else {
        Err(Refusal::BadKey { missing: false })
    }
}

/// The key as OpenAI's, Anthropic's and Azure's clients send it.
fn key_of(headers: &HeaderMap) -> Option<&[u8]> {
    let bearer = headers.get(header::AUTHORIZATION).and_then(|value| {
        let (scheme, key) = value.as_bytes().split_at_checked(7)?;
        scheme.eq_ignore_ascii_case(b"bearer ").then(|| key.trim_ascii())
    });
    bearer
        .or_else(|| headers.get("x-api-key").map(http::HeaderValue::as_bytes))
        .or_else(|| headers.get("api-key").map(http::HeaderValue::as_bytes))
        .filter(|key| !key.is_empty())
}
