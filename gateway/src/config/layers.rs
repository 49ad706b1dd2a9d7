//! Files are joined by `include`, then environment variables are laid over them.
use super::environment::{Environment, Override};
use super::problem::{Path, Place, Problem, Problems};
use super::references;
use super::tree::{Entry, Map, Node, Scalar, Value};
use super::yaml;
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path as FilePath, PathBuf};
use std::sync::Arc;

/// Larger files are refused unread: a config is written by people.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// Reads files, each once.
pub(super) struct Files<'a> {
    environment: &'a Environment,
    read: BTreeSet<PathBuf>,
    count: usize,
    problems: &'a mut Problems,
}

impl<'a> Files<'a> {
    pub(super) fn new(environment: &'a Environment, problems: &'a mut Problems) -> Self {
        Self { environment, read: BTreeSet::new(), count: 0, problems }
    }

    /// The config in this file, with all that it includes.
    pub(super) fn file(&mut self, path: &FilePath) -> Option<Map> {
        let name = path.display().to_string();
        match read(path) {
            Ok(text) => {
                self.read.insert(canonical(path));
                self.text(&name, &text, path)
            }
            Err(error) => {
                let place = Place::File { number: 0, line: 0, column: 0, name: name.into() };
                let problem = Problem::error("the config cannot be read", &place, &Path::default());
                self.problems.push(problem.found(error.to_string()));
                None
            }
        }
    }

    /// The config in this text, which came from `path`.
    pub(super) fn text(&mut self, name: &str, text: &str, path: &FilePath) -> Option<Map> {
        let name: Arc<str> = name.into();
        let number = self.count;
        self.count += 1;
        let node = yaml::parse(&name, number, text, self.problems)?;
        let mut map = match node.value {
            Value::Map(map) => map,
            Value::Broken => return None,
            Value::Null | Value::Scalar(_) | Value::List(_) => {
                let problem = Problem::error("a config must be a map", &node.place, &Path::default());
                let problem = problem.found(node.kind()).allowed("sections such as `model_list:`");
                self.problems.push(problem);
                return None;
            }
        };
        if let Some(include) = map.take("include") {
            self.include(&mut map, &include.node, path);
        }
        Some(map)
    }

    fn include(&mut self, map: &mut Map, include: &Node, declaring: &FilePath) {
        let path = Path::default().key("include");
        let Value::List(items) = &include.value else {
            if !matches!(include.value, Value::Null | Value::Broken) {
                let problem = Problem::error("`include` must be a list", &include.place, &path);
                self.problems.push(problem.found(include.kind()).allowed("a list of files"));
            }
            return;
        };
        for (index, item) in items.iter().enumerate() {
            if let Some(included) = self.included(item, &path.index(index), declaring) {
                join(map, included);
            }
        }
    }

    fn included(&mut self, item: &Node, path: &Path, declaring: &FilePath) -> Option<Map> {
        let mut item = item.clone();
        references::resolve(&mut item, path, &references::Variables::of(self.environment), self.problems);
        let scalar = match item.value {
            Value::Scalar(scalar) => scalar,
            Value::Broken => return None,
            Value::Null | Value::List(_) | Value::Map(_) => {
                let problem = Problem::error("a file to include must be text", &item.place, path);
                self.problems.push(problem.found(item.kind()));
                return None;
            }
        };
        let file = declaring.parent().unwrap_or(FilePath::new("")).join(&scalar.text);
        match read(&file) {
            Ok(text) => {
                if !self.read.insert(canonical(&file)) {
                    return None;
                }
                self.text(&file.display().to_string(), &text, &file)
            }
            Err(error) => {
                let problem = Problem::error("an included file cannot be read", &item.place, path);
                self.problems.push(match scalar.variable {
                    Some(variable) => {
                        problem.found(format!("the file that `{variable}` names: {}", error.kind()))
                    }
                    None => problem.found(format!("{}: {}", file.display(), error.kind())),
                });
                None
            }
        }
    }
}

fn canonical(path: &FilePath) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

fn read(path: &FilePath) -> io::Result<String> {
    if fs::metadata(path)?.len() > FILE_BYTES_MAX {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "larger than 16 MiB"));
    }
    let bytes = fs::read(path)?;
    String::from_utf8(bytes).map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "the text is not UTF-8"))
}

/// Lists grow; any other value of the included file replaces that of the including one, as in LiteLLM.
fn join(map: &mut Map, included: Map) {
    for entry in included.0 {
        match (map.get_mut(&entry.key), entry.node.value) {
            (_, Value::Null) => {}
            (Some(Entry { node: Node { value: Value::List(items), .. }, .. }), Value::List(more)) => {
                items.extend(more);
            }
            (Some(present), value) => {
                present.place = entry.place;
                present.node = Node { value, place: entry.node.place };
            }
            (None, value) => {
                let node = Node { value, place: entry.node.place };
                map.0.push(Entry { key: entry.key, place: entry.place, node });
            }
        }
    }
}

/// Lays the `ONEGATE__SECTION__KEY` variables over the tree.
pub(super) fn override_by(environment: &Environment, map: &mut Map, problems: &mut Problems) {
    for over in environment.overrides() {
        let place = Place::Environment(over.variable.as_str().into());
        if let Err(path) = lay(map, &over, &over.keys, &place, &Path::default()) {
            problems.push(
                Problem::error("an override does not fit the file", &place, &path)
                    .found("something other than a map on the way")
                    .allowed("keys of maps only, such as ONEGATE__ROUTER_SETTINGS__NUM_RETRIES"),
            );
        }
    }
}

/// Fails with the path of what is no map.
fn lay(map: &mut Map, over: &Override, keys: &[String], place: &Place, path: &Path) -> Result<(), Path> {
    let Some((key, rest)) = keys.split_first() else { return Ok(()) };
    let path = path.key(key);
    if key.is_empty() {
        return Err(path);
    }
    if map.get(key).is_none() {
        let node = Node { value: Value::Null, place: place.clone() };
        map.0.push(Entry { key: key.clone(), place: place.clone(), node });
    }
    let Some(entry) = map.get_mut(key) else { return Err(path) };
    if rest.is_empty() {
        let scalar =
            Scalar { text: over.text.clone(), plain: true, variable: Some(over.variable.as_str().into()) };
        *entry = Entry {
            key: key.clone(),
            place: place.clone(),
            node: Node { value: Value::Scalar(scalar), place: place.clone() },
        };
        return Ok(());
    }
    if matches!(entry.node.value, Value::Null) {
        entry.node.value = Value::Map(Map::default());
    }
    match &mut entry.node.value {
        Value::Map(inner) => lay(inner, over, rest, place, &path),
        Value::Broken => Ok(()),
        Value::Null | Value::Scalar(_) | Value::List(_) => Err(path),
    }
}
