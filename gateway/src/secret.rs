//! Text that must not be shown.
use std::fmt;

/// A credential. It shows as `[secret]` wherever it is printed; only `reveal` gives the text.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a credential.
    #[must_use]
    pub fn new(text: String) -> Self {
        Self(text)
    }

    /// The text itself, for the wire only.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// `text` with every occurrence of this credential made unreadable: providers repeat keys in error texts.
    #[must_use]
    pub fn redact(&self, text: &str) -> String {
        if self.0.is_empty() { text.to_owned() } else { text.replace(&self.0, "[secret]") }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_does_not_show_in_debug_output() {
        assert_eq!(format!("{:?}", Secret::new("sk-1".into())), "[secret]");
    }

    #[test]
    fn a_provider_that_repeats_the_key_is_redacted() {
        assert_eq!(Secret::new("sk-1".into()).redact("bad key sk-1!"), "bad key [secret]!");
    }
}
