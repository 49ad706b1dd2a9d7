//! Typed reading: a value of the wrong type becomes a problem, and reading goes on.
use super::number;
use super::problem::{Path, Place, Problem, Problems};
use super::secrets;
use super::tree::{Entry, Map, Node, Scalar, Value};
use crate::secret::Secret;
use std::time::Duration;

/// No wait is longer than a year: more is a slip of the pen.
const SECONDS_MAX: f64 = 31_536_000.0;

/// A map of the config with its path. Empty where the config has none.
#[derive(Clone)]
pub(super) struct Section<'t> {
    pub(super) entries: &'t [Entry],
    pub(super) path: Path,
    pub(super) place: Option<&'t Place>,
}

/// A value with its key and path. It is there, and not null.
#[derive(Clone)]
pub(super) struct Field<'t> {
    pub(super) key: &'t str,
    pub(super) node: &'t Node,
    pub(super) path: Path,
    /// Where the key stands.
    pub(super) key_place: &'t Place,
    secret: bool,
    /// An item of the list that has the key.
    item: bool,
}

impl<'t> Section<'t> {
    /// The whole config.
    pub(super) fn top(map: &'t Map) -> Self {
        Self { entries: &map.0, path: Path::default(), place: None }
    }

    /// The value of a key; `None` if it is absent or null.
    pub(super) fn get(&self, key: &str) -> Option<Field<'t>> {
        self.fields().find(|field| field.key == key)
    }

    /// Every value that is not null.
    pub(super) fn fields(&self) -> impl Iterator<Item = Field<'t>> {
        self.keys().filter(|field| !matches!(field.node.value, Value::Null))
    }

    /// Every key, also those without a value.
    pub(super) fn keys(&self) -> impl Iterator<Item = Field<'t>> {
        let entries: &'t [Entry] = self.entries;
        let path = self.path.clone();
        entries.iter().map(move |entry| Field {
            key: &entry.key,
            node: &entry.node,
            path: path.key(&entry.key),
            key_place: &entry.place,
            item: false,
            secret: secrets::is_secret_key(&entry.key),
        })
    }

    /// Reads a key's value, if it is there, in this way.
    pub(super) fn read<T>(
        &self,
        key: &str,
        how: impl FnOnce(&Field<'t>, &mut Problems) -> Option<T>,
        problems: &mut Problems,
    ) -> Option<T> {
        self.get(key).and_then(|field| how(&field, problems))
    }

    /// The map under a key; an empty one if there is none.
    pub(super) fn section(&self, key: &str, problems: &mut Problems) -> Self {
        self.read(key, Field::section, problems).unwrap_or_else(|| Self {
            entries: &[],
            path: self.path.key(key),
            place: self.place,
        })
    }
}

impl<'t> Field<'t> {
    /// A refusal of this value, which it shows if it may.
    pub(super) fn error(&self, what: impl Into<String>) -> Problem {
        Problem::error(what, &self.node.place, &self.path).found(self.found())
    }

    /// A remark on this value, which it shows if it may.
    pub(super) fn warning(&self, what: impl Into<String>) -> Problem {
        Problem::warning(what, &self.node.place, &self.path).found(self.found())
    }

    /// The value as messages show it.
    pub(super) fn found(&self) -> String {
        match &self.node.value {
            Value::Scalar(Scalar { variable: Some(variable), .. }) => format!("the value of `{variable}`"),
            Value::Scalar(_) if self.secret => secrets::HIDDEN.to_owned(),
            Value::Scalar(scalar) if scalar.plain => secrets::shown_text(&scalar.text),
            Value::Scalar(scalar) => format!("\"{}\"", secrets::shown_text(&scalar.text)),
            Value::Null | Value::List(_) | Value::Map(_) | Value::Broken => self.node.kind().to_owned(),
        }
    }

    /// The value as a name in a sentence, if it may be shown.
    pub(super) fn named(&self) -> String {
        match &self.node.value {
            Value::Scalar(scalar) if scalar.variable.is_none() && !self.secret => {
                format!("`{}`", secrets::shown_text(&scalar.text))
            }
            _ => self.found(),
        }
    }

    /// Whether a variable gave the value: then it is never shown.
    pub(super) fn is_from_environment(&self) -> bool {
        matches!(&self.node.value, Value::Scalar(Scalar { variable: Some(_), .. }))
    }

    /// What a sentence about the value begins with.
    fn subject(&self) -> String {
        let key = secrets::shown_key(self.key);
        if self.item { format!("an item of `{key}`") } else { format!("`{key}`") }
    }

    /// What kind of value it is, without showing it.
    fn wrong_kind(&self, kind: &str) -> Problem {
        let what = format!("{} must be {kind}", self.subject());
        Problem::error(what, &self.node.place, &self.path).found(self.node.kind())
    }

    fn wrong(&self, kind: &str) -> Problem {
        self.error(format!("{} must be {kind}", self.subject()))
    }

    fn scalar(&self, kind: &str, problems: &mut Problems) -> Option<&'t Scalar> {
        match &self.node.value {
            Value::Scalar(scalar) => Some(scalar),
            Value::Broken => None,
            Value::Null | Value::List(_) | Value::Map(_) => {
                problems.push(self.wrong_kind(kind));
                None
            }
        }
    }

    /// Reads the scalar, or reports what it must be.
    fn parse<T>(
        &self,
        kind: &str,
        allowed: &str,
        parse: impl FnOnce(&str) -> Option<T>,
        problems: &mut Problems,
    ) -> Option<T> {
        let scalar = self.scalar(kind, problems)?;
        let value = parse(&scalar.text);
        if value.is_none() {
            problems.push(self.wrong(kind).allowed(allowed));
        }
        value
    }

    /// Text as it was written.
    pub(super) fn text(&self, problems: &mut Problems) -> Option<&'t str> {
        self.scalar("text", problems).map(|scalar| scalar.text.as_str())
    }

    /// Text of at least one letter.
    pub(super) fn name(&self, problems: &mut Problems) -> Option<&'t str> {
        let text = self.text(problems)?;
        if text.trim().is_empty() {
            problems.push(self.wrong("text").allowed("at least one letter"));
            return None;
        }
        Some(text)
    }

    /// A credential. An empty one counts as none.
    pub(super) fn secret(&self, problems: &mut Problems) -> Option<Secret> {
        self.text(problems).filter(|text| !text.is_empty()).map(|text| Secret::new(text.to_owned()))
    }

    /// A whole number from 0 on.
    pub(super) fn count(&self, problems: &mut Problems) -> Option<u64> {
        self.parse("a whole number", "0 or more, such as 60", number::count, problems)
    }

    /// A whole number from 0 to a thousand: a number of tries.
    pub(super) fn few(&self, problems: &mut Problems) -> Option<u32> {
        let few = |text: &str| number::count(text).filter(|&n| n <= 1000).and_then(|n| u32::try_from(n).ok());
        self.parse("a whole number", "0 to 1000", few, problems)
    }

    /// A whole number of either sign.
    pub(super) fn whole(&self, problems: &mut Problems) -> Option<i64> {
        self.parse("a whole number", "such as 1 or 2", number::whole, problems)
    }

    /// A finite number from 0 on.
    pub(super) fn number(&self, problems: &mut Problems) -> Option<f64> {
        let from_zero = |text: &str| number::decimal(text).filter(|&n| n >= 0.0);
        self.parse("a number", "0 or more, such as 0.5 or 1e-06", from_zero, problems)
    }

    /// Seconds from 0 on.
    pub(super) fn seconds(&self, problems: &mut Problems) -> Option<Duration> {
        let seconds = |text: &str| {
            let seconds = number::decimal(text).filter(|&n| (0.0..=SECONDS_MAX).contains(&n))?;
            Duration::try_from_secs_f64(seconds).ok()
        };
        self.parse(
            "a number of seconds",
            "0 to 31536000, without a unit, such as 30 or 0.5",
            seconds,
            problems,
        )
    }

    /// Seconds above 0: with a timeout of 0 nothing could ever answer.
    pub(super) fn timeout(&self, problems: &mut Problems) -> Option<Duration> {
        let seconds = self.seconds(problems)?;
        if seconds.is_zero() {
            problems.push(self.wrong("a number of seconds").allowed("more than 0"));
            return None;
        }
        Some(seconds)
    }

    /// A flag.
    pub(super) fn flag(&self, problems: &mut Problems) -> Option<bool> {
        self.parse("a flag", "true or false", number::flag, problems)
    }

    /// The items of a list. They have its key.
    pub(super) fn list(&self, problems: &mut Problems) -> Option<Vec<Field<'t>>> {
        match &self.node.value {
            Value::List(items) => Some(
                items
                    .iter()
                    .enumerate()
                    .map(|(index, node)| Field {
                        key: self.key,
                        node,
                        path: self.path.index(index),
                        key_place: self.key_place,
                        item: true,
                        secret: self.secret,
                    })
                    .collect(),
            ),
            Value::Broken => None,
            Value::Null | Value::Scalar(_) | Value::Map(_) => {
                problems.push(self.wrong_kind("a list"));
                None
            }
        }
    }

    /// A map.
    pub(super) fn section(&self, problems: &mut Problems) -> Option<Section<'t>> {
        match &self.node.value {
            Value::Map(map) => {
                Some(Section { entries: &map.0, path: self.path.clone(), place: Some(&self.node.place) })
            }
            Value::Broken => None,
            Value::Null | Value::Scalar(_) | Value::List(_) => {
                problems.push(self.wrong_kind("a map"));
                None
            }
        }
    }
}
