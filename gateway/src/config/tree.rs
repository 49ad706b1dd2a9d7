//! A config as it was written: every value with its place, every scalar with its text.
use super::problem::Place;
use std::sync::Arc;

/// A value and where it was written. Not `Debug`: it holds secrets.
#[derive(Clone)]
pub(super) struct Node {
    pub(super) value: Value,
    pub(super) place: Place,
}

#[derive(Clone)]
pub(super) enum Value {
    /// Nothing, `~` or `null`: as if the key were not there.
    Null,
    Scalar(Scalar),
    List(Vec<Node>),
    Map(Map),
    /// A value whose problem is reported already: readers pass it over in silence.
    Broken,
}

/// Text whose type is that of the place where it stands.
#[derive(Clone)]
pub(super) struct Scalar {
    pub(super) text: String,
    /// Written without quotes, so that YAML's own types may apply.
    pub(super) plain: bool,
    /// The environment variable that it came from: then it is never printed.
    pub(super) variable: Option<Arc<str>>,
}

/// Keys in the order of the file, each once.
#[derive(Clone, Default)]
pub(super) struct Map(pub(super) Vec<Entry>);

#[derive(Clone)]
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) place: Place,
    pub(super) node: Node,
}

impl Map {
    pub(super) fn get(&self, key: &str) -> Option<&Entry> {
        self.0.iter().find(|entry| entry.key == key)
    }

    pub(super) fn get_mut(&mut self, key: &str) -> Option<&mut Entry> {
        self.0.iter_mut().find(|entry| entry.key == key)
    }

    /// Takes a key out.
    pub(super) fn take(&mut self, key: &str) -> Option<Entry> {
        let index = self.0.iter().position(|entry| entry.key == key)?;
        Some(self.0.remove(index))
    }
}

impl Node {
    /// What it is, for messages about a value of the wrong kind. Never the value itself.
    pub(super) fn kind(&self) -> &'static str {
        match &self.value {
            Value::Null => "nothing",
            Value::Scalar(_) | Value::Broken => "text",
            Value::List(_) => "a list",
            Value::Map(_) => "a map",
        }
    }

    /// How deep it goes: 1 for a scalar.
    pub(super) fn depth(&self) -> usize {
        let deepest = match &self.value {
            Value::Null | Value::Scalar(_) | Value::Broken => None,
            Value::List(items) => items.iter().map(Self::depth).max(),
            Value::Map(map) => map.0.iter().map(|entry| entry.node.depth()).max(),
        };
        1 + deepest.unwrap_or(0)
    }

    /// About how many bytes a copy takes.
    pub(super) fn weight(&self) -> usize {
        const NODE: usize = 64;
        let inside: usize = match &self.value {
            Value::Null | Value::Broken => 0,
            Value::Scalar(scalar) => scalar.text.len(),
            Value::List(items) => items.iter().map(Self::weight).sum(),
            Value::Map(map) => map.0.iter().map(|entry| NODE + entry.key.len() + entry.node.weight()).sum(),
        };
        NODE + inside
    }
}
