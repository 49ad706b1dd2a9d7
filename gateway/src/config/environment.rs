//! The process' environment, read once; the rest of the program sees it only through this value.
use config::Source as _;
use std::collections::BTreeMap;

/// Overrides are called `ONEGATE__SECTION__KEY`.
const PREFIX: &str = "ONEGATE";
const SEPARATOR: &str = "__";

/// Environment variables. Not `Debug`: most of them are secrets.
#[derive(Clone, Default)]
pub struct Environment(BTreeMap<String, String>);

/// A value of the environment that is laid over the file.
pub(super) struct Override {
    /// The variable, as an operator would write it.
    pub(super) variable: String,
    /// The keys on the way from the top, in lower case.
    pub(super) keys: Vec<String>,
    /// The value.
    pub(super) text: String,
}

impl Environment {
    /// The variables of this process. Those that are not Unicode cannot stand in a config and are left out.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the environment")]
    pub fn of_process() -> Self {
        let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        Self(std::env::vars_os().filter_map(text).collect())
    }

    /// These variables, for tests and programs that bring their own.
    pub fn of<K: Into<String>, V: Into<String>>(pairs: impl IntoIterator<Item = (K, V)>) -> Self {
        Self(pairs.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
    }

    /// The value of a variable.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// The overrides, by name. An empty variable overrides nothing.
    pub(super) fn overrides(&self) -> Vec<Override> {
        let source = config::Environment::with_prefix(PREFIX)
            .separator(SEPARATOR)
            .ignore_empty(true)
            .source(Some(self.0.clone().into_iter().collect()));
        let values: BTreeMap<String, config::Value> =
            source.collect().unwrap_or_default().into_iter().collect();
        values
            .into_iter()
            .map(|(key, value)| Override {
                variable: format!("{PREFIX}{SEPARATOR}{}", key.replace('.', SEPARATOR).to_uppercase()),
                keys: key.split('.').map(str::to_owned).collect(),
                text: value.into_string().unwrap_or_default(),
            })
            .collect()
    }
}
