//! YAML text becomes a tree. Anchors, aliases and merge keys work; copies by alias are bounded.
use super::problem::{Path, Place, Problem, Problems};
use super::secrets;
use super::tree::{Entry, Map, Node, Scalar, Value};
use saphyr_parser::{Event, Parser, ScalarStyle, ScanError, Span, StrInput, Tag};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Deeper files are refused: walking the tree uses the stack.
const DEPTH_MAX: usize = 64;
/// Bytes that aliases may copy in all: a few lines of aliases to aliases could ask for gigabytes.
const COPIED_MAX: usize = 4 << 20;

/// The file cannot be read any further; the reason is among the problems.
struct Stop;

/// The tree of a file's one document; `None` where it has none or is broken, with a problem that says so.
pub(super) fn parse(name: &Arc<str>, number: usize, text: &str, problems: &mut Problems) -> Option<Node> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut builder = Builder {
        parser: Parser::new_from_str(text),
        name: Arc::clone(name),
        number,
        anchors: BTreeMap::new(),
        copied: 0,
        problems,
    };
    builder.document().ok()
}

struct Builder<'t, 'p> {
    parser: Parser<'t, StrInput<'t>>,
    name: Arc<str>,
    number: usize,
    anchors: BTreeMap<usize, Node>,
    copied: usize,
    problems: &'p mut Problems,
}

/// What a tag makes of a value.
enum Tagged {
    AsWritten,
    Text,
    Null,
    Unknown,
}

impl<'t> Builder<'t, '_> {
    fn document(&mut self) -> Result<Node, Stop> {
        loop {
            match self.next()? {
                (Event::StreamStart | Event::DocumentStart(_), _) => {}
                (Event::StreamEnd, _) => {
                    let whole =
                        Place::File { line: 0, column: 0, number: self.number, name: self.name.clone() };
                    self.problems.push(
                        Problem::error("the file is empty", &whole, &Path::default())
                            .allowed("a config with at least `model_list`"),
                    );
                    return Err(Stop);
                }
                (event, place) => {
                    let root = self.node(event, place, &Path::default(), 1)?;
                    self.end()?;
                    return Ok(root);
                }
            }
        }
    }

    fn end(&mut self) -> Result<(), Stop> {
        loop {
            match self.next()? {
                (Event::StreamEnd, _) => return Ok(()),
                (Event::DocumentStart(_), place) => {
                    self.problems.push(
                        Problem::error("the file holds several YAML documents", &place, &Path::default())
                            .found("another `---`")
                            .allowed("one document; `include` joins several files"),
                    );
                    return Err(Stop);
                }
                _ => {}
            }
        }
    }

    fn next(&mut self) -> Result<(Event<'t>, Place), Stop> {
        match self.parser.next_event() {
            Some(Ok((event, span))) => Ok((event, self.place(span))),
            Some(Err(error)) => Err(self.broken(&error)),
            None => Err(Stop),
        }
    }

    fn place(&self, span: Span) -> Place {
        self.position(span.start.line(), span.start.col() + 1)
    }

    fn position(&self, line: usize, column: usize) -> Place {
        Place::File { number: self.number, line, column, name: Arc::clone(&self.name) }
    }

    fn broken(&mut self, error: &ScanError) -> Stop {
        let place = self.position(error.marker().line(), error.marker().col() + 1);
        let problem = Problem::error(format!("broken YAML: {}", error.info()), &place, &Path::default());
        let tabs = error.info().contains("tab");
        self.problems.push(if tabs { problem.allowed("spaces, not tabs, before a key") } else { problem });
        Stop
    }

    fn node(&mut self, event: Event<'t>, place: Place, path: &Path, depth: usize) -> Result<Node, Stop> {
        if depth > DEPTH_MAX {
            return Err(self.too_deep(&place, path));
        }
        let (anchor, value) = match event {
            Event::Alias(id) => return self.alias(id, place, path, depth),
            Event::Scalar(text, style, anchor, tag) => {
                (anchor, self.scalar(&text, style, tag.as_deref(), &place, path))
            }
            Event::SequenceStart(anchor, tag) => {
                let items = self.list(path, depth)?;
                (anchor, self.collection(Value::List(items), tag.as_deref(), &place, path))
            }
            Event::MappingStart(anchor, tag) => {
                let map = self.map(path, depth)?;
                (anchor, self.collection(Value::Map(map), tag.as_deref(), &place, path))
            }
            // The parser gives these only between values, never in a value's place.
            Event::Nothing
            | Event::StreamStart
            | Event::StreamEnd
            | Event::DocumentStart(_)
            | Event::DocumentEnd
            | Event::SequenceEnd
            | Event::MappingEnd => (0, Value::Null),
        };
        let node = Node { value, place };
        if anchor != 0 {
            self.anchors.insert(anchor, node.clone());
        }
        Ok(node)
    }

    fn alias(&mut self, id: usize, place: Place, path: &Path, depth: usize) -> Result<Node, Stop> {
        let Some(anchored) = self.anchors.get(&id) else {
            self.problems.push(Problem::error("an alias stands inside its own anchor", &place, path));
            return Ok(Node { value: Value::Broken, place });
        };
        self.copied = self.copied.saturating_add(anchored.weight());
        if self.copied > COPIED_MAX {
            self.problems.push(
                Problem::error("aliases make the config too large", &place, path)
                    .allowed(format!("{} MiB of copies in all", COPIED_MAX >> 20)),
            );
            return Err(Stop);
        }
        if depth + anchored.depth() > DEPTH_MAX + 1 {
            return Err(self.too_deep(&place, path));
        }
        Ok(anchored.clone())
    }

    fn too_deep(&mut self, place: &Place, path: &Path) -> Stop {
        let problem = Problem::error("the config is nested too deeply", place, path);
        self.problems.push(problem.allowed(format!("{DEPTH_MAX} levels")));
        Stop
    }

    fn list(&mut self, path: &Path, depth: usize) -> Result<Vec<Node>, Stop> {
        let mut items = Vec::new();
        loop {
            match self.next()? {
                (Event::SequenceEnd, _) => return Ok(items),
                (event, place) => {
                    let path = path.index(items.len());
                    items.push(self.node(event, place, &path, depth + 1)?);
                }
            }
        }
    }

    fn map(&mut self, path: &Path, depth: usize) -> Result<Map, Stop> {
        let mut map = Map::default();
        let mut merged = None;
        loop {
            let (event, place) = match self.next()? {
                (Event::MappingEnd, _) => break,
                next => next,
            };
            let key = self.node(event, place.clone(), path, depth + 1)?;
            let is_merge = matches!(&key.value, Value::Scalar(scalar) if scalar.plain && scalar.text == "<<");
            let key = self.key(key, &place, path);
            let path = path.key(key.as_deref().unwrap_or("?"));
            let (event, value_place) = self.next()?;
            let node = self.node(event, value_place, &path, depth + 1)?;
            let Some(key) = key else { continue };
            let first = if is_merge { merged.as_ref() } else { map.get(&key) };
            match first {
                Some(first) => self.duplicate(&key, &first.place, &place, &path),
                None if is_merge => merged = Some(Entry { key, place, node }),
                None => map.0.push(Entry { key, place, node }),
            }
        }
        if let Some(entry) = merged {
            self.merge(&mut map, entry.node, &path.key("<<"), true);
        }
        Ok(map)
    }

    fn key(&mut self, key: Node, place: &Place, path: &Path) -> Option<String> {
        match key.value {
            Value::Scalar(scalar) => Some(scalar.text),
            Value::Null => Some(String::new()),
            Value::Broken => None,
            Value::List(_) | Value::Map(_) => {
                self.problems.push(
                    Problem::error("a key must be text", place, path)
                        .found(if matches!(key.value, Value::Map(_)) { "a map" } else { "a list" }),
                );
                None
            }
        }
    }

    fn duplicate(&mut self, key: &str, first: &Place, again: &Place, path: &Path) {
        let found = format!("line {}, and again line {}", first.line(), again.line());
        self.problems.push(
            Problem::error(format!("duplicate key `{}`", secrets::shown_key(key)), again, path)
                .found(found)
                .allowed("each key once"),
        );
    }

    /// `<<: *a` adds what the map lacks; of several maps the first that has a key gives it.
    fn merge(&mut self, map: &mut Map, node: Node, path: &Path, lists: bool) {
        match node.value {
            Value::Map(other) => {
                let lacking =
                    other.0.into_iter().filter(|entry| map.get(&entry.key).is_none()).collect::<Vec<_>>();
                map.0.extend(lacking);
            }
            Value::List(items) if lists => {
                for (index, item) in items.into_iter().enumerate() {
                    self.merge(map, item, &path.index(index), false);
                }
            }
            Value::Broken => {}
            Value::Null | Value::Scalar(_) | Value::List(_) => {
                self.problems.push(
                    Problem::error("`<<` must be a map", &node.place, path)
                        .allowed("an alias of a map, or a list of such"),
                );
            }
        }
    }

    fn scalar(
        &mut self,
        text: &str,
        style: ScalarStyle,
        tag: Option<&Tag>,
        place: &Place,
        path: &Path,
    ) -> Value {
        let plain = style == ScalarStyle::Plain;
        let scalar = |plain| Value::Scalar(Scalar { text: text.to_owned(), plain, variable: None });
        match tag.map_or(Tagged::AsWritten, |tag| tagged(tag, true)) {
            Tagged::Text => scalar(false),
            Tagged::Null => Value::Null,
            Tagged::AsWritten if tag.is_some() => scalar(true),
            Tagged::AsWritten if plain && matches!(text, "" | "~" | "null" | "Null" | "NULL") => Value::Null,
            Tagged::AsWritten => scalar(plain),
            Tagged::Unknown => self.unknown_tag(place, path),
        }
    }

    fn collection(&mut self, value: Value, tag: Option<&Tag>, place: &Place, path: &Path) -> Value {
        match tag.map_or(Tagged::AsWritten, |tag| tagged(tag, false)) {
            Tagged::AsWritten => value,
            Tagged::Text | Tagged::Null | Tagged::Unknown => self.unknown_tag(place, path),
        }
    }

    fn unknown_tag(&mut self, place: &Place, path: &Path) -> Value {
        let problem = Problem::error("a YAML tag that means nothing here", place, path);
        self.problems.push(problem.allowed("the value without its `!tag`"));
        Value::Broken
    }
}

fn tagged(tag: &Tag, scalar: bool) -> Tagged {
    if !tag.is_yaml_core_schema() {
        let nonspecific = tag.handle.is_empty() && tag.suffix == "!";
        return if nonspecific && scalar { Tagged::Text } else { Tagged::Unknown };
    }
    match tag.suffix.as_str() {
        "str" if scalar => Tagged::Text,
        "null" if scalar => Tagged::Null,
        "int" | "float" | "bool" if scalar => Tagged::AsWritten,
        "map" | "seq" if !scalar => Tagged::AsWritten,
        _ => Tagged::Unknown,
    }
}
