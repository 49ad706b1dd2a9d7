//! Reads a LiteLLM config into a [`Catalog`], or tells of everything that is wrong with it at once.
//!
//! The way: text -> tree (`yaml`), files and environment joined (`layers`), references resolved
//! (`references`), then typed reading section by section. There is no serde on it: serde stops at the first
//! fault, and this reports all.
mod assemble;
mod environment;
mod fallbacks;
mod identity;
mod json;
mod keys;
mod known;
mod layers;
mod ledger;
mod model_list;
mod number;
mod outage;
mod problem;
mod read;
mod redis;
mod references;
mod router;
mod secrets;
mod tree;
mod upstream;
mod yaml;

#[cfg(test)]
mod tests;

pub use environment::Environment;
pub use problem::{Problem, Problems, Severity};

use crate::catalog::{Catalog, Settings};
use crate::secret::Secret;
use ::ledger::RedisSettings;
use layers::Files;
use problem::{Path as KeyPath, Place};
use read::{Field, Section};
use references::Variables;
use routing::Strategy;
use std::path::Path;
use tree::Map;

/// A config that may be served.
#[derive(Debug)]
pub struct Loaded {
    /// What requests need.
    pub catalog: Catalog,
    /// The Redis that replicas share; `None`: one replica alone.
    pub redis: Option<RedisSettings>,
    /// What the config says and we do not do.
    pub warnings: Vec<Problem>,
}

/// Reads the config in this file.
///
/// # Errors
/// Everything that is wrong with it, warnings included, in the order of the file.
pub fn load(path: &Path, environment: &Environment) -> Result<Loaded, Problems> {
    let mut problems = Problems::default();
    let tree = Files::new(environment, &mut problems).file(path);
    finish(&path.display().to_string(), tree, environment, problems)
}

/// Reads the config in this text. Messages call it `name`; what it includes is looked for beside that.
///
/// # Errors
/// As [`load`].
pub fn load_text(name: &str, text: &str, environment: &Environment) -> Result<Loaded, Problems> {
    let mut problems = Problems::default();
    let tree = Files::new(environment, &mut problems).text(name, text, Path::new(name));
    finish(name, tree, environment, problems)
}

fn finish(
    name: &str,
    tree: Option<Map>,
    environment: &Environment,
    mut problems: Problems,
) -> Result<Loaded, Problems> {
    let Some(mut tree) = tree else { return Err(problems.sorted()) };
    layers::override_by(environment, &mut tree, &mut problems);
    let variables = Variables::take(environment, &mut tree, &mut problems);
    references::resolve_map(&mut tree, &KeyPath::default(), &variables, &mut problems);
    let whole = Place::File { number: 0, line: 0, column: 0, name: name.into() };
    let (catalog, redis) = compile(&tree, &whole, &variables, &mut problems);
    let problems = problems.without(&secrets::collect(&tree)).sorted();
    if problems.has_errors() {
        return Err(problems);
    }
    Ok(Loaded { catalog, redis, warnings: problems.into_vec() })
}

/// Reads every section, whatever is wrong with the others.
fn compile(
    tree: &Map,
    whole: &Place,
    variables: &Variables<'_>,
    problems: &mut Problems,
) -> (Catalog, Option<RedisSettings>) {
    let top = Section::top(tree);
    let redis_variables = redis::variables(variables);
    // Under `x-` a file may keep what it only refers to by anchors.
    known::check_fields(top.keys().filter(|field| !field.key.starts_with("x-")), &keys::TOP, problems);
    let router = top.section("router_settings", problems);
    let litellm = top.section("litellm_settings", problems);
    let general = top.section("general_settings", problems);
    let onegate = top.section("onegate_settings", problems);
    known::check(&onegate, &keys::ONEGATE, problems);

    let drafts = model_list::read(&top, whole, variables.get("OPENAI_API_KEY"), problems);
    let ids = assemble::ids(&drafts, problems);
    let names = fallbacks::Known::of(&drafts, &ids, &router);
    let tpm_hold = ledger::tpm_hold(&onegate, problems);
    let outage = ledger::outage(&onegate, problems);
    let settings =
        Settings { tpm_hold, outage, ..router::settings(&router, &litellm, &onegate, &names, problems) };
    if settings.strategy == Strategy::SimpleShuffle {
        assemble::warn_of_starved(&drafts, problems);
    }
    let timeouts = router::timeouts(&router, &litellm, problems);
    let aliases = fallbacks::aliases(&router, &names, problems);
    let redis = redis::settings(
        &router,
        &litellm,
        &onegate,
        &Section::top(&redis_variables),
        outage.limits,
        problems,
    );
    let master_key = master_key(&general, problems);

    let (groups, mut names) = assemble::groups(drafts, &ids, timeouts);
    for fallbacks::Alias { alias, group: target, hidden } in aliases {
        if let Some(number) = groups.iter().position(|group| &*group.name == target) {
            names.add_alias(alias.into(), number);
            if hidden {
                names.hide_alias(alias);
            }
        }
    }
    (Catalog { names, groups, settings, master_key }, redis)
}

fn master_key(general: &Section<'_>, problems: &mut Problems) -> Option<Secret> {
    for field in general.fields().filter(|field| keys::GENERAL_LATER.contains(&field.key)) {
        problems.push(field.warning(format!("`{}` is not acted on yet", field.key)));
    }
    let others = general.keys().filter(|field| !keys::GENERAL_LATER.contains(&field.key));
    known::check_fields(others, &keys::GENERAL, problems);
    general.read("master_key", Field::name, problems).map(|key| Secret::new(key.to_owned()))
}
