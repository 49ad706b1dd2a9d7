//! Names that stand for other names: fallbacks and aliases, checked against what the config defines.
use super::keys;
use super::known;
use super::model_list::Draft;
use super::problem::{Problem, Problems};
use super::read::{Field, Section};
use super::secrets;
use super::tree::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Stands for every group without an entry of its own.
const ANY: &str = "*";

/// Every name that the config defines.
#[derive(Default)]
pub(super) struct Known<'t> {
    groups: BTreeSet<&'t str>,
    aliases: BTreeSet<&'t str>,
    ids: BTreeSet<Arc<str>>,
    /// Those groups that messages may show.
    shown: BTreeSet<&'t str>,
}

impl<'t> Known<'t> {
    /// Those of these deployments and of `model_group_alias`.
    pub(super) fn of(drafts: &[Draft<'t>], ids: &[Arc<str>], router: &Section<'t>) -> Self {
        // A value that is no map is reported where the aliases are read.
        let mut unheard = Problems::default();
        let aliases = router.section("model_group_alias", &mut unheard);
        Self {
            groups: drafts.iter().map(|draft| draft.group).collect(),
            aliases: aliases.entries.iter().map(|entry| entry.key.as_str()).collect(),
            ids: ids.iter().cloned().collect(),
            shown: drafts.iter().filter(|draft| draft.is_shown).map(|draft| draft.group).collect(),
        }
    }

    fn has(&self, name: &str) -> bool {
        self.groups.contains(name)
            || self.aliases.contains(name)
            || self.ids.contains(name)
            || self.groups.iter().any(|group| covers(group, name))
    }

    /// What to write instead of a name that nobody has.
    fn suggestion(&self, name: &str, kinds: &str) -> String {
        let names = self.shown.iter().chain(&self.aliases).copied();
        match known::nearest(name, names).filter(|(_, distance)| known::is_near(name, *distance)) {
            Some((near, _)) => format!("{kinds}; the nearest is `{}`", secrets::shown_text(near)),
            None => kinds.to_owned(),
        }
    }
}

/// Whether a group's pattern stands for this name as a whole. `*` is any text.
fn covers(pattern: &str, name: &str) -> bool {
    let Some((begin, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(mut name) = name.strip_prefix(begin) else { return false };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let end = parts.pop().unwrap_or_default();
    for part in parts {
        match name.find(part) {
            Some(at) => name = name.get(at + part.len()..).unwrap_or_default(),
            None => return false,
        }
    }
    name.ends_with(end)
}

/// `fallbacks` by group, `*` among them, and `default_fallbacks`.
pub(super) fn read(
    router: &Section<'_>,
    litellm: &Section<'_>,
    names: &Known<'_>,
    problems: &mut Problems,
) -> (BTreeMap<String, Vec<String>>, Vec<String>) {
    let read_lists = |field: &Field<'_>, problems: &mut Problems| lists(field, names, problems);
    let own = router.read("fallbacks", read_lists, problems).filter(|lists| !lists.is_empty());
    let other = litellm.read("fallbacks", read_lists, problems).unwrap_or_default();
    let by_group = own.unwrap_or(other);
    let read_targets = |field: &Field<'_>, problems: &mut Problems| targets(field, names, problems);
    let own = router.read("default_fallbacks", read_targets, problems).filter(|targets| !targets.is_empty());
    let other = litellm.read("default_fallbacks", read_targets, problems).unwrap_or_default();
    (by_group, own.unwrap_or(other))
}

fn lists(
    field: &Field<'_>,
    names: &Known<'_>,
    problems: &mut Problems,
) -> Option<BTreeMap<String, Vec<String>>> {
    let mut by_group = BTreeMap::new();
    for item in field.list(problems)? {
        let Some(entry) = item.section(problems) else { continue };
        if entry.entries.len() != 1 {
            let problem = item.error("an entry of `fallbacks` must have one key");
            problems
                .push(problem.found(format!("{} keys", entry.entries.len())).allowed("{group: [next, …]}"));
        }
        for group in entry.fields() {
            if group.key != ANY && !names.has(group.key) {
                let shown = format!("`{}`", secrets::shown_key(group.key));
                problems.push(unknown(&group, &shown, group.key, names));
            }
            let Some(targets) = targets(&group, names, problems) else { continue };
            if by_group.contains_key(group.key) {
                let what =
                    format!("`{}` has fallbacks already; these are not used", secrets::shown_text(group.key));
                problems.push(group.warning(what).allowed("one entry a group"));
            } else {
                by_group.insert(group.key.to_owned(), targets);
            }
        }
    }
    Some(by_group)
}

fn targets(field: &Field<'_>, names: &Known<'_>, problems: &mut Problems) -> Option<Vec<String>> {
    let mut targets = Vec::new();
    for item in field.list(problems)? {
        if matches!(item.node.value, Value::Map(_)) {
            problems.push(item.error("a fallback with parameters is not built yet").allowed("a name"));
            continue;
        }
        let Some(target) = item.name(problems) else { continue };
        if names.has(target) {
            targets.push(target.to_owned());
        } else {
            problems.push(unknown(&item, &item.named(), target, names));
        }
    }
    Some(targets)
}

fn unknown(field: &Field<'_>, shown: &str, name: &str, names: &Known<'_>) -> Problem {
    const KINDS: &str = "a `model_name`, an alias, an id, or a name that a wildcard covers";
    let problem = Problem::error(format!("nothing is called {shown}"), &field.node.place, &field.path);
    problem.found(shown).allowed(names.suggestion(name, KINDS))
}

/// An alias of `model_group_alias`.
pub(super) struct Alias<'t> {
    /// The alias itself.
    pub(super) alias: &'t str,
    /// The group that it stands for.
    pub(super) group: &'t str,
    /// It works, and is not listed.
    pub(super) hidden: bool,
}

/// `model_group_alias`: each alias with the group that it stands for.
pub(super) fn aliases<'t>(
    router: &Section<'t>,
    names: &Known<'t>,
    problems: &mut Problems,
) -> Vec<Alias<'t>> {
    let aliases = router.section("model_group_alias", problems);
    let mut targets = Vec::new();
    for alias in aliases.fields() {
        let (target, hidden) = match alias.node.value {
            Value::Map(_) => detailed(&alias, problems),
            _ => (Some(alias.clone()), false),
        };
        let Some(target) = target else { continue };
        let Some(name) = target.name(problems) else { continue };
        if !names.groups.contains(name) {
            let what = format!("the alias `{}` stands for no group", secrets::shown_key(alias.key));
            let problem = target.error(what).allowed(names.suggestion(name, "a `model_name`, exactly"));
            problems.push(problem);
        } else if names.groups.contains(alias.key) {
            let what =
                format!("the alias `{}` is never used: a group is called so", secrets::shown_key(alias.key));
            problems.push(alias.warning(what));
        } else {
            targets.push(Alias { alias: alias.key, group: name, hidden });
        }
    }
    targets
}

/// `{model, hidden}`.
fn detailed<'t>(alias: &Field<'t>, problems: &mut Problems) -> (Option<Field<'t>>, bool) {
    let Some(section) = alias.section(problems) else { return (None, false) };
    known::check(&section, &keys::ALIAS, problems);
    let hidden = section.get("hidden").and_then(|hidden| hidden.flag(problems)).unwrap_or(false);
    let model = section.get("model");
    if model.is_none() {
        let what = format!("the alias `{}` names no `model`", secrets::shown_key(alias.key));
        problems.push(alias.error(what).allowed("{model: NAME}, or the name alone"));
    }
    (model, hidden)
}

#[cfg(test)]
mod tests {
    use super::covers;

    #[test]
    fn a_pattern_covers_whole_names_only() {
        assert!(covers("openai/*", "openai/gpt-4o"));
        assert!(covers("*-mini", "gpt-4o-mini"));
        assert!(covers("a*b*c", "a-b-b-c"));
        assert!(!covers("*-mini", "gpt-4o-mini-2024"));
        assert!(!covers("aXa", "aXaXa"));
        assert!(!covers("ab*ba", "aba"));
        assert!(!covers("chat", "chat2"));
    }
}
