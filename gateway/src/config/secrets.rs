//! Decides what may be printed: values under secret-looking keys, and values that look like secrets, may not.

use super::tree::{Map, Node, Value};

/// Stands in a message for what must not be shown.
pub(super) const HIDDEN: &str = "[secret]";

/// A message shows at most so many characters of a value.
const SHOWN_MAX: usize = 60;

/// Shorter texts are not looked for in messages: they would stand there by chance.
const SOUGHT_MIN: usize = 5;

/// Every credential of the config, the longest first: they must not show either where one was pasted into a
/// harmless place.
pub(super) fn collect(map: &Map) -> Vec<String> {
    let mut found = Vec::new();
    for entry in &map.0 {
        collect_below(&entry.node, is_secret_key(&entry.key), &mut found);
    }
    found.sort_by_key(|text| std::cmp::Reverse(text.len()));
    found
}

/// The keys of a map say for themselves what is secret: an entry of `keys` has names in it, too.
fn collect_below(node: &Node, is_secret: bool, found: &mut Vec<String>) {
    match &node.value {
        Value::Scalar(scalar) if is_secret && scalar.text.len() >= SOUGHT_MIN => {
            found.push(scalar.text.clone());
        }
        Value::Null | Value::Scalar(_) | Value::Broken => {}
        Value::List(items) => items.iter().for_each(|item| collect_below(item, is_secret, found)),
        Value::Map(map) => found.extend(collect(map)),
    }
}

/// Whether the value under this key is a credential, going by the key's name alone.
pub(super) fn is_secret_key(key: &str) -> bool {
    const PARTS: [&str; 9] = [
        "password",
        "passwd",
        "secret",
        "credential",
        "authorization",
        "bearer",
        "webhook",
        "private",
        "dsn",
    ];
    let key = key.to_ascii_lowercase();
    if key.contains("cost_per") {
        return false;
    }
    PARTS.iter().any(|part| key.contains(part))
        || ["key", "keys", "token", "redis_url", "database_url"].iter().any(|end| key.ends_with(end))
}

/// A value as messages show it.
pub(super) fn shown_text(text: &str) -> String {
    if looks_secret(text) { HIDDEN.to_owned() } else { printable(text) }
}

/// A key as messages and paths show it. `api_key:sk-1` without a space is one long key, secret included.
pub(super) fn shown_key(key: &str) -> String {
    match key.split_once(separates) {
        Some((name, rest)) if is_secret_key(name) && !rest.is_empty() => {
            format!("{}:{HIDDEN}", printable(name))
        }
        _ => shown_text(key),
    }
}

/// What may stand between a key and its value where somebody forgot a colon, or the space after it.
fn separates(c: char) -> bool {
    matches!(c, ':' | '=') || c.is_whitespace()
}

fn looks_secret(text: &str) -> bool {
    let words = || text.split(|c: char| !(c.is_alphanumeric() || matches!(c, '-' | '_')));
    let begins = words().any(|word| word.starts_with("sk-") || word.starts_with("sk_"));
    let names = text.contains("Bearer ") || text.contains("-----BEGIN");
    let has_credentials = text.contains("://") && (text.contains('@') || text.contains('?'));
    let assigns = text.trim().split_once(separates).is_some_and(|(name, _)| is_secret_key(name));
    begins || names || has_credentials || assigns
}

fn printable(text: &str) -> String {
    let mut shown: String = text.chars().take(SHOWN_MAX).flat_map(escaped).collect();
    if text.chars().nth(SHOWN_MAX).is_some() {
        shown.push('…');
    }
    shown
}

/// A value with line breaks or terminal codes must not break the message.
fn escaped(c: char) -> impl Iterator<Item = char> {
    let (plain, escape) = if c.is_control() { (None, Some(c.escape_default())) } else { (Some(c), None) };
    plain.into_iter().chain(escape.into_iter().flatten())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_name_a_credential_are_secret() {
        for key in
            ["api_key", "master_key", "redis_password", "redis_url", "aws_secret_access_key", "auth_token"]
        {
            assert!(is_secret_key(key), "{key}");
        }
    }

    #[test]
    fn prices_limits_and_names_are_not_secret() {
        for key in ["input_cost_per_token", "rpm", "max_tokens", "model_name", "api_base", "redis_host"] {
            assert!(!is_secret_key(key), "{key}");
        }
    }

    #[test]
    fn a_key_that_swallowed_its_value_does_not_show_it() {
        assert_eq!(shown_key("api_key:hunter2"), "api_key:[secret]");
        assert_eq!(shown_key("api_key hunter2"), "api_key:[secret]");
        assert_eq!(shown_key("model: m, api_key sk-1"), "[secret]");
        assert_eq!(shown_key("llama3:8b"), "llama3:8b");
    }

    #[test]
    fn a_long_value_is_cut_and_control_characters_are_escaped() {
        assert_eq!(shown_text("a\u{1b}[31m\nb"), "a\\u{1b}[31m\\nb");
        assert_eq!(shown_text(&"x".repeat(61)).chars().count(), 61);
    }
}
