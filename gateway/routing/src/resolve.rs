//! A requested name becomes a group, or one deployment of it.
mod pattern;
#[cfg(test)]
mod tests;

use pattern::Pattern;
use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What a name stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolved {
    /// The group's number in the catalog.
    pub group: usize,
    /// Set where the name is a deployment's id: its place in the group.
    pub only: Option<usize>,
    /// What the stars of the group's name caught, from left to right; empty unless a pattern matched.
    pub caught: Vec<String>,
}

impl Resolved {
    fn whole(group: usize) -> Self {
        Self { group, only: None, caught: Vec::new() }
    }

    /// The model to ask a deployment for: the stars of its own model are filled one after another with what
    /// the name's stars caught. Stars beyond the catches stay, catches beyond the stars are dropped.
    #[must_use]
    pub fn model_for<'m>(&self, deployment_model: &'m str) -> Cow<'m, str> {
        if self.caught.is_empty() || !deployment_model.contains('*') {
            return Cow::Borrowed(deployment_model);
        }
        let mut catches = self.caught.iter();
        let mut parts = deployment_model.split('*');
        let mut model = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            model.push_str(catches.next().map_or("*", String::as_str));
            model.push_str(part);
        }
        Cow::Owned(model)
    }
}

/// Every name that a request may use. Built once per config; holds numbers of the catalog's groups.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Names {
    groups: BTreeMap<Arc<str>, usize>,
    aliases: BTreeMap<Arc<str>, Resolved>,
    hidden: BTreeSet<Arc<str>>,
    ids: BTreeMap<Arc<str>, (usize, usize)>,
    /// In the order in which they are tried.
    patterns: Vec<(Pattern, usize)>,
}

impl Names {
    /// A `model_name` stands for a group. With a `*` in it, it is also a pattern for whole names.
    pub fn add_group(&mut self, name: Arc<str>, group: usize) {
        if name.contains('*') {
            let pattern = Pattern::new(name.clone());
            self.patterns.retain(|(known, _)| *known != pattern);
            let rank = |pattern: &Pattern| (Reverse(pattern.literal_chars()), pattern.matches_all());
            let place = self.patterns.partition_point(|(known, _)| rank(known) <= rank(&pattern));
            self.patterns.insert(place, (pattern, group));
        }
        self.groups.insert(name, group);
    }

    /// `router_settings.model_group_alias`: another name for a group.
    pub fn add_alias(&mut self, alias: Arc<str>, group: usize) {
        self.aliases.insert(alias, Resolved::whole(group));
    }

    /// An alias of a name that is itself no group (one that a pattern catches): what [`Names::resolve`] said
    /// of that name. Aliases do not chain.
    pub fn add_alias_as(&mut self, alias: Arc<str>, stands_for: Resolved) {
        self.aliases.insert(alias, stands_for);
    }

    /// The alias works and is not listed (`{model: ..., hidden: true}`).
    pub fn hide_alias(&mut self, alias: &str) {
        self.hidden.insert(alias.into());
    }

    /// A deployment may be named by its id.
    pub fn add_id(&mut self, id: Arc<str>, group: usize, place: usize) {
        self.ids.insert(id, (group, place));
    }

    /// What the name stands for: exact group, else alias, else deployment id, else the pattern with the most
    /// literal characters (on a tie the one that was added first; `*` after all others).
    #[must_use]
    pub fn resolve(&self, name: &str) -> Option<Resolved> {
        if let Some(&group) = self.groups.get(name) {
            return Some(Resolved::whole(group));
        }
        if let Some(stands_for) = self.aliases.get(name) {
            return Some(stands_for.clone());
        }
        if let Some(&(group, place)) = self.ids.get(name) {
            return Some(Resolved { group, only: Some(place), caught: Vec::new() });
        }
        self.patterns.iter().find_map(|(pattern, group)| {
            let caught = pattern.catch(name)?.into_iter().map(str::to_owned).collect();
            Some(Resolved { group: *group, only: None, caught })
        })
    }

    /// Up to three listed names that `name` may be a slip of, nearest first: at most a third of the letters
    /// differ, whatever their case.
    #[must_use]
    pub fn near(&self, name: &str) -> Vec<&str> {
        let asked_chars = name.chars().count();
        let mut near: Vec<(usize, &str)> = self
            .public()
            .filter_map(|known| {
                let known_chars = known.chars().count();
                let allowed = asked_chars.max(known_chars) / 3;
                // The name is a caller's and may be huge: the distance is computed for similar lengths alone.
                if asked_chars.abs_diff(known_chars) > allowed {
                    return None;
                }
                let distance = strsim::osa_distance(&name.to_lowercase(), &known.to_lowercase());
                (distance <= allowed).then_some((distance, known))
            })
            .collect();
        near.sort_unstable();
        near.into_iter().take(3).map(|(_, known)| known).collect()
    }

    /// The group names (patterns too) and the aliases that are not hidden; sorted, each once.
    pub fn public(&self) -> impl Iterator<Item = &str> {
        let aliases = self.aliases.keys().filter(|alias| !self.hidden.contains(*alias));
        let listed: BTreeSet<&str> = self.groups.keys().chain(aliases).map(AsRef::as_ref).collect();
        listed.into_iter()
    }
}
