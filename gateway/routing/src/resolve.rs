//! A requested name becomes a group, or one deployment of it.
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a name stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolved {
    /// The group's number in the catalog.
    pub group: usize,
    /// Set where the name is a deployment's id: its place in the group.
    pub only: Option<usize>,
}

/// Every name that a request may use. Built once per config; holds numbers of the catalog's groups.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Names {
    groups: BTreeMap<Arc<str>, usize>,
    aliases: BTreeMap<Arc<str>, usize>,
    ids: BTreeMap<Arc<str>, (usize, usize)>,
}

impl Names {
    /// A `model_name` stands for a group.
    pub fn add_group(&mut self, name: Arc<str>, group: usize) {
        self.groups.insert(name, group);
    }

    /// `router_settings.model_group_alias`: another name for a group.
    pub fn add_alias(&mut self, alias: Arc<str>, group: usize) {
        self.aliases.insert(alias, group);
    }

    /// A deployment may be named by its id.
    pub fn add_id(&mut self, id: Arc<str>, group: usize, place: usize) {
        self.ids.insert(id, (group, place));
    }
}
