//! `os.environ/NAME` as a whole value becomes the variable's text, to be read as the type of its place.
use super::environment::Environment;
use super::problem::{Path, Problem, Problems};
use super::secrets;
use super::tree::{Map, Node, Scalar, Value};
use std::collections::BTreeMap;

/// How a reference begins.
const PREFIX: &str = "os.environ/";

/// What references may name: the file's `environment_variables`, then the process' environment.
pub(super) struct Variables<'e> {
    file: BTreeMap<String, String>,
    process: &'e Environment,
}

impl<'e> Variables<'e> {
    /// Those of the process alone.
    pub(super) fn of(process: &'e Environment) -> Self {
        Self { file: BTreeMap::new(), process }
    }

    /// Takes the section out of the config. Its values may refer to the process' variables themselves.
    pub(super) fn take(process: &'e Environment, config: &mut Map, problems: &mut Problems) -> Self {
        const SECTION: &str = "environment_variables";
        let mut variables = Self::of(process);
        let Some(mut entry) = config.take(SECTION) else { return variables };
        let path = Path::default().key(SECTION);
        resolve(&mut entry.node, &path, &variables, problems);
        let Value::Map(map) = entry.node.value else {
            if !matches!(entry.node.value, Value::Null | Value::Broken) {
                let problem = Problem::error(format!("`{SECTION}` must be a map"), &entry.node.place, &path);
                problems.push(problem.found(entry.node.kind()));
            }
            return variables;
        };
        for entry in map.0 {
            match entry.node.value {
                Value::Scalar(scalar) => {
                    variables.file.insert(entry.key, scalar.text);
                }
                Value::Null | Value::Broken => {}
                Value::List(_) | Value::Map(_) => {
                    let what = format!("`{}` must be text", secrets::shown_key(&entry.key));
                    let path = path.key(&entry.key);
                    problems.push(Problem::error(what, &entry.node.place, &path).found(entry.node.kind()));
                }
            }
        }
        variables
    }

    /// A variable's value.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.file.get(name).map(String::as_str).or_else(|| self.process.get(name))
    }
}

/// Resolves every reference below this value.
pub(super) fn resolve(node: &mut Node, path: &Path, variables: &Variables<'_>, problems: &mut Problems) {
    match &mut node.value {
        Value::Null | Value::Broken => {}
        Value::List(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                resolve(item, &path.index(index), variables, problems);
            }
        }
        Value::Map(map) => resolve_map(map, path, variables, problems),
        Value::Scalar(scalar) => {
            if scalar.text.trim() == PREFIX {
                let problem = Problem::error("a reference names no variable", &node.place, path);
                problems.push(problem.found(PREFIX).allowed(format!("{PREFIX}NAME")));
                node.value = Value::Broken;
            } else if let Some(name) = scalar.text.strip_prefix(PREFIX) {
                if let Some(value) = variables.get(name) {
                    *scalar = Scalar {
                        text: value.to_owned(),
                        plain: true,
                        variable: Some(secrets::shown_text(name).into()),
                    };
                } else {
                    let name = secrets::shown_text(name);
                    problems.push(
                        Problem::error(
                            format!("the environment variable `{name}` is not set"),
                            &node.place,
                            path,
                        )
                        .found(format!("{PREFIX}{name}"))
                        .allowed(format!("`{name}` in the environment, or the value itself")),
                    );
                    node.value = Value::Broken;
                }
            } else if scalar.variable.is_none() && scalar.text.contains(PREFIX) {
                problems.push(
                    Problem::warning("a reference inside other text is not resolved", &node.place, path)
                        .allowed(format!("{PREFIX}NAME as the whole value")),
                );
            }
        }
    }
}

/// Resolves every reference below this map.
pub(super) fn resolve_map(map: &mut Map, path: &Path, variables: &Variables<'_>, problems: &mut Problems) {
    for entry in &mut map.0 {
        resolve(&mut entry.node, &path.key(&entry.key), variables, problems);
    }
}
