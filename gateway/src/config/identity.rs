//! The id of a deployment that names none: equal entries have equal ids on every replica and after every
//! restart, whatever the order of keys and entries. How much a deployment may do is no part of what it is: a new
//! limit or price must not make its counters and cooldown forget.
use super::read::Section;
use super::secrets;
use super::tree::{Node, Value};
use sha2::{Digest as _, Sha256};
use std::fmt::Write as _;

/// Settings that tune a deployment without making it another one.
const TUNING: [&str; 13] = [
    "rpm",
    "tpm",
    "weight",
    "order",
    "timeout",
    "request_timeout",
    "stream_timeout",
    "num_retries",
    "max_retries",
    "cooldown_time",
    "max_parallel_requests",
    "input_cost_per_token",
    "output_cost_per_token",
];

/// 16 hex digits of a hash of the group's name and the `litellm_params` that say what is called.
pub(super) fn fingerprint(group: &str, params: &Section<'_>) -> String {
    let mut hash = Sha256::new();
    part(&mut hash, b"onegate deployment");
    part(&mut hash, group.as_bytes());
    let mut fields: Vec<_> = params.fields().filter(|field| !TUNING.contains(&field.key)).collect();
    fields.sort_by_key(|field| field.key);
    for field in fields {
        part(&mut hash, field.key.as_bytes());
        if secrets::is_secret_key(field.key) {
            // Two keys for one endpoint differ; what goes into the id is not the key.
            let mut secret = Sha256::new();
            part(&mut secret, b"onegate secret of a deployment");
            value(&mut secret, field.node);
            part(&mut hash, secret.finalize().get(..8).unwrap_or_default());
        } else {
            value(&mut hash, field.node);
        }
    }
    let mut id = String::with_capacity(16);
    for byte in hash.finalize().iter().take(8) {
        let _ = write!(id, "{byte:02x}");
    }
    id
}

/// Every part with its length before it: no two lists of parts give the same bytes.
fn part(hash: &mut Sha256, bytes: &[u8]) {
    hash.update(bytes.len().to_string());
    hash.update(b":");
    hash.update(bytes);
}

fn value(hash: &mut Sha256, node: &Node) {
    match &node.value {
        Value::Null | Value::Broken => part(hash, b"null"),
        Value::Scalar(scalar) => {
            part(hash, b"scalar");
            part(hash, scalar.text.as_bytes());
        }
        Value::List(items) => {
            part(hash, b"list");
            part(hash, items.len().to_string().as_bytes());
            items.iter().for_each(|item| value(hash, item));
        }
        Value::Map(map) => {
            part(hash, b"map");
            part(hash, map.0.len().to_string().as_bytes());
            let mut entries: Vec<_> = map.0.iter().collect();
            entries.sort_by(|a, b| a.key.cmp(&b.key));
            for entry in entries {
                part(hash, entry.key.as_bytes());
                value(hash, &entry.node);
            }
        }
    }
}
