//! The outer ring: which group is asked. Each group at most once, `max_fallbacks` bounds the walk, and if all
//! fail the caller sees what the first one said.
use super::Miss;
use crate::catalog::{Catalog, Group};
use crate::refusal::Refusal;
use routing::Resolved;
use std::collections::VecDeque;

/// A request's walk over model groups.
#[derive(Debug)]
pub struct Walk<'a> {
    catalog: &'a Catalog,
    here: Resolved,
    seen: Vec<Resolved>,
    ahead: VecDeque<&'a str>,
    hops_max: usize,
    first: Option<Miss>,
}

impl<'a> Walk<'a> {
    /// Starts at the group that `name` stands for. An unknown name goes to the first default fallback, where
    /// the config has one.
    ///
    /// # Errors
    /// Nothing has this name.
    pub fn begin(catalog: &'a Catalog, name: &'a str, fallbacks_disabled: bool) -> Result<Self, Refusal> {
        let settings = &catalog.settings;
        let default = settings.default_fallbacks.iter().find_map(|name| catalog.names.resolve(name));
        let here = catalog.names.resolve(name).or(default).ok_or_else(|| Refusal::UnknownModel {
            name: name.to_owned(),
            near: catalog.names.near(name).into_iter().map(str::to_owned).collect(),
        })?;
        let hops_max = if fallbacks_disabled { 0 } else { settings.max_fallbacks };
        let seen = vec![here.clone()];
        let mut walk = Self { catalog, here, seen, ahead: VecDeque::new(), hops_max, first: None };
        walk.look_ahead(name);
        Ok(walk)
    }

    /// The group being asked.
    #[must_use]
    pub fn group(&self) -> &'a Group {
        &self.catalog.groups[self.here.group]
    }

    /// How the name of this visit resolved.
    #[must_use]
    pub fn resolved(&self) -> &Resolved {
        &self.here
    }

    /// Groups visited after the first.
    #[must_use]
    pub fn hops(&self) -> usize {
        self.seen.len() - 1
    }

    /// Goes on to the next group.
    ///
    /// # Errors
    /// None is left: what the first group said.
    pub fn go_on(&mut self, miss: Miss) -> Result<(), Refusal> {
        let first = self.first.take().unwrap_or(miss);
        while self.hops() < self.hops_max
            && let Some(name) = self.ahead.pop_front()
        {
            let Some(next) = self.catalog.names.resolve(name) else { continue };
            if self.seen.iter().any(|seen| seen.group == next.group && seen.only == next.only) {
                continue;
            }
            self.here = next.clone();
            self.seen.push(next);
            self.look_ahead(name);
            self.first = Some(first);
            return Ok(());
        }
        Err(first.into())
    }

    /// A group's own fallbacks come before what the groups before it had left.
    fn look_ahead(&mut self, name: &str) {
        for next in self.fallbacks_of(name).iter().rev() {
            self.ahead.push_front(next);
        }
    }

    /// By the requested name, else by the group's, else `*`, else the default.
    fn fallbacks_of(&self, name: &str) -> &'a [String] {
        let settings = &self.catalog.settings;
        let own = settings.fallbacks.get(name).or_else(|| settings.fallbacks.get(&*self.group().name));
        own.or_else(|| settings.fallbacks.get("*")).unwrap_or(&settings.default_fallbacks)
    }
}

#[cfg(test)]
mod tests;
