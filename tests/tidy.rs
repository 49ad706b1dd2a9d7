//! The rules of the house that a machine can hold. Each says how to mend what it finds.
use harness::workspace;
use std::fs;
use std::path::{Path, PathBuf};

const FILE_LINES_MAX: usize = 400;
const FUNCTION_LINES_MAX: usize = 70;

/// A text file of the source tree; `path` is relative to its top.
struct File {
    path: String,
    text: String,
}

impl File {
    fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    fn stem(&self) -> &str {
        Path::new(&self.path).file_stem().and_then(|stem| stem.to_str()).unwrap_or_default()
    }

    /// Numbered from 1: what ships, up to the unit tests, without blank lines and comments.
    fn production(&self) -> Vec<(usize, &str)> {
        let numbered = self.text.lines().enumerate().map(|(place, line)| (place + 1, line));
        let shipped = numbered.take_while(|(_, line)| line.trim() != "#[cfg(test)]");
        shipped.filter(|(_, line)| !line.trim().is_empty() && !line.trim_start().starts_with("//")).collect()
    }
}

/// Every text file of the tree: what git would hold, found without git.
fn files() -> Vec<File> {
    let top = workspace();
    let mut found = Vec::new();
    let mut open = vec![top.clone()];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if ["target", ".git", "__pycache__", "node_modules"].contains(&name.as_str()) {
                continue;
            }
            if path.is_dir() {
                open.push(path);
            } else if let Ok(text) = fs::read_to_string(&path) {
                found.push(File { path: relative(&top, &path), text });
            }
        }
    }
    assert!(
        found.iter().any(|file| file.path == "Cargo.toml"),
        "{} is not the top of the tree",
        top.display()
    );
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

fn relative(top: &Path, path: &Path) -> String {
    path.strip_prefix(top).unwrap().to_string_lossy().into_owned()
}

fn rust_files() -> Vec<File> {
    files().into_iter().filter(File::is_rust).collect()
}

/// Product code only: not what tests and loads it.
fn product_files() -> Vec<File> {
    rust_files()
        .into_iter()
        .filter(|file| ["ledger/", "gateway/"].iter().any(|room| file.path.starts_with(room)))
        .collect()
}

fn read(path: &str) -> String {
    let path: PathBuf = workspace().join(path);
    assert!(path.exists(), "{} is missing", path.display());
    fs::read_to_string(&path).unwrap()
}

/// Fails with all findings at once and the way to mend them.
fn none_of(found: &[String], mend: &str) {
    assert!(found.is_empty(), "{mend}\n  {}", found.join("\n  "));
}

/// Places in production code where one of these words stands.
fn places<'a>(files: impl IntoIterator<Item = &'a File>, words: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    for file in files {
        for (number, line) in file.production() {
            for word in words.iter().filter(|word| line.contains(**word)) {
                found.push(format!("{}:{number}: `{word}`", file.path));
            }
        }
    }
    found
}

/// The names in a section of a Cargo.toml, each with the rest of its line.
fn entries<'a>(manifest: &'a str, section: &str) -> Vec<(&'a str, &'a str)> {
    let lines = manifest.lines().skip_while(|line| line.trim() != section).skip(1);
    let lines = lines.take_while(|line| !line.starts_with('['));
    lines
        .filter_map(|line| line.split_once(['.', ' ', '=']))
        .filter(|(name, _)| !name.is_empty() && *name != "#")
        .collect()
}

/// Crates from outside that we name ourselves.
fn outside_dependencies(manifest: &str) -> Vec<&str> {
    let all = entries(manifest, "[workspace.dependencies]");
    all.into_iter().filter(|(_, rest)| !rest.contains("path =")).map(|(name, _)| name).collect()
}

#[test]
fn no_file_is_longer_than_400_production_lines() {
    let long = |file: &File| {
        let lines = file.production().len();
        (lines > FILE_LINES_MAX).then(|| format!("{}: {lines} lines", file.path))
    };
    let found: Vec<String> = rust_files().iter().filter_map(long).collect();
    none_of(&found, "split these files by what they know: foo.rs keeps the outline, foo/*.rs get the parts");
}

#[test]
fn no_function_is_longer_than_70_lines() {
    let found: Vec<String> = rust_files().iter().flat_map(long_functions).collect();
    none_of(&found, "name the steps of these functions and move each into a function of its own");
}

/// Relies on rustfmt: a function ends at the first brace that stands as far in as its `fn` line.
fn long_functions(file: &File) -> Vec<String> {
    let lines = file.production();
    let mut found = Vec::new();
    for (at, (number, line)) in lines.iter().enumerate() {
        let code = line.trim_start();
        let is_function = code.starts_with("fn ") || code.contains(" fn ");
        if !is_function || code.ends_with([';', '}']) || code.starts_with(['*', '"']) {
            continue;
        }
        let end = format!("{}}}", &line[..line.len() - code.len()]);
        let Some(length) = lines[at..].iter().position(|(_, line)| *line == end) else { continue };
        if length - 1 > FUNCTION_LINES_MAX {
            found.push(format!("{}:{number}: {} lines", file.path, length - 1));
        }
    }
    found
}

#[test]
fn a_file_name_says_what_is_in_it() {
    const EMPTY_NAMES: &[&str] =
        &["mod", "utils", "util", "common", "helpers", "helper", "manager", "misc", "types"];
    let empty = |file: &File| EMPTY_NAMES.contains(&file.stem()).then(|| file.path.clone());
    let found: Vec<String> = rust_files().iter().filter_map(empty).collect();
    none_of(
        &found,
        "name these files after the noun or verb they hold; a folder's outline is foo.rs beside foo/",
    );
}

#[test]
fn every_file_opens_with_its_contract() {
    let silent = |file: &File| !file.text.starts_with("//! ");
    let found: Vec<String> = rust_files().into_iter().filter(silent).map(|file| file.path).collect();
    none_of(&found, "open these files with `//!`: what they promise, in one or two sentences");
}

#[test]
fn routing_depends_on_plain_values_only() {
    let manifest = read("gateway/routing/Cargo.toml");
    let allowed = ["ledger", "rand", "strsim"];
    let names = entries(&manifest, "[dependencies]").into_iter().map(|(name, _)| name.to_owned());
    let found: Vec<String> = names.filter(|name| !allowed.contains(&name.as_str())).collect();
    none_of(
        &found,
        "take these out of gateway/routing/Cargo.toml: a decision is a pure function of its Facts",
    );
}

#[test]
fn routing_does_no_io_and_has_no_clock_and_no_dice() {
    const BANNED: &[&str] = &[
        "async ",
        ".await",
        "tokio::",
        "std::fs",
        "std::net",
        "std::thread",
        "std::env",
        "SystemTime",
        "Instant::now",
        "rand::rng(",
        "thread_rng",
        "rand::random",
    ];
    let all = product_files();
    let routing: Vec<&File> = all.iter().filter(|file| file.path.starts_with("gateway/routing/")).collect();
    assert!(!routing.is_empty(), "gateway/routing has moved: mend this rule");
    none_of(&places(routing, BANNED), "read it before the decision and hand it over in Facts");
}

#[test]
fn the_clock_is_read_in_one_place() {
    let all = product_files();
    let others = all.iter().filter(|file| file.path != "ledger/src/clock.rs");
    let found = places(others, &["SystemTime::now", "Instant::now"]);
    none_of(&found, "ask a Clock (ledger/src/clock.rs) instead, so that a test can hold the time");
}

#[test]
fn the_environment_is_read_in_one_place() {
    let all = product_files();
    let others = all.iter().filter(|file| file.path != "gateway/src/config/environment.rs");
    let found = places(others, &["env::var", "env::set_var", "env::remove_var"]);
    none_of(&found, "ask gateway/src/config/environment.rs instead, so that check knows what a config needs");
}

#[test]
fn every_script_is_used() {
    let sources: String = product_files().into_iter().map(|file| file.text).collect();
    let unused = |file: &File| {
        let used = sources.match_indices("include_str!(").any(|(at, _)| {
            let call = sources[at..].split(')').next().unwrap_or_default();
            call.contains(&format!("/{}\"", file.path))
        });
        (!used).then(|| file.path.clone())
    };
    let found: Vec<String> = scripts().iter().filter_map(unused).collect();
    none_of(&found, "load these by include_str! in ledger/src/redis/scripts.rs, or delete them");
}

#[test]
fn every_script_tells_its_keys_arguments_and_answer() {
    let silent = |file: &File| {
        let head: String = file.text.lines().take_while(|line| line.starts_with("--")).collect();
        let missing: Vec<&str> =
            ["KEYS", "ARGV", "answer"].into_iter().filter(|word| !head.contains(word)).collect();
        (!missing.is_empty()).then(|| format!("{}: no {}", file.path, missing.join(", ")))
    };
    let found: Vec<String> = scripts().iter().filter_map(silent).collect();
    none_of(&found, "open these scripts with comment lines that begin with KEYS, ARGV and answer");
}

#[test]
fn every_script_reads_then_decides_then_writes() {
    let mixed = |file: &File| {
        let place = |phase: &str| {
            file.text.lines().position(|line| {
                let words = line
                    .strip_prefix("-- ")
                    .unwrap_or_default()
                    .trim_start_matches(['1', '2', '3', '.', ' ']);
                words == phase
                    || words.starts_with(&format!("{phase}:"))
                    || words.starts_with(&format!("{phase} ("))
            })
        };
        let phases = (place("read"), place("decide"), place("write"));
        let (Some(read), Some(decide), Some(write)) = phases else { return Some(file.path.clone()) };
        (!(read < decide && decide < write)).then(|| file.path.clone())
    };
    let found: Vec<String> = scripts().iter().filter_map(mixed).collect();
    none_of(&found, "mark three phases in these scripts, in this order: `-- read`, `-- decide`, `-- write`");
}

fn scripts() -> Vec<File> {
    let found: Vec<File> = files().into_iter().filter(|file| file.path.ends_with(".lua")).collect();
    assert!(found.iter().any(|file| file.path.starts_with("lua/")), "lua/ has moved: mend this rule");
    found
}

#[test]
fn no_file_knows_the_machine_it_was_written_on() {
    let places = ["root", "work", "home", "farm"].map(|name| format!("/{name}/"));
    let hosts = ["crates", "io", "pypi", "org"];
    let hosts = [
        hosts[..2].join("."),
        hosts[2..].join("."),
        ["registry", "npmjs"].join("."),
        ["deb", "debian"].join("."),
    ];
    let found = lines_with(&[places.as_slice(), hosts.as_slice()].concat());
    none_of(&found, "take these out: the tree has to work on any machine and with any package index");
}

#[test]
fn nothing_is_left_to_be_done_in_a_comment() {
    let found = lines_with(&[["TO", "DO"].concat(), ["FIX", "ME"].concat()]);
    none_of(&found, "do it, or write an issue; a comment is read by nobody who could");
}

fn lines_with(words: &[String]) -> Vec<String> {
    let mut found = Vec::new();
    for file in files().iter().filter(|file| file.path != "Cargo.lock") {
        for (place, line) in file.text.lines().enumerate() {
            for word in words.iter().filter(|word| line.contains(word.as_str())) {
                found.push(format!("{}:{}: {word}", file.path, place + 1));
            }
        }
    }
    found
}

#[test]
fn every_dependency_is_explained() {
    let (manifest, map) = (read("Cargo.toml"), read("ARCHITECTURE.md"));
    let missing = |name: &&str| !map.contains(&format!("`{name}`"));
    let found: Vec<String> =
        outside_dependencies(&manifest).into_iter().filter(missing).map(str::to_owned).collect();
    none_of(&found, "say in ARCHITECTURE.md what these are for, with the name in backticks, or remove them");
}

#[test]
fn there_is_one_version_of_each_crate_that_we_name() {
    let (manifest, lock) = (read("Cargo.toml"), read("Cargo.lock"));
    let versions = |name: &str| lock.lines().filter(|line| *line == format!("name = \"{name}\"")).count();
    let names = outside_dependencies(&manifest);
    assert!(
        names.len() > 5 && names.iter().all(|name| versions(name) > 0),
        "mend the reading of Cargo.toml: {names:?}"
    );
    let found: Vec<&str> = names.into_iter().filter(|name| versions(name) > 1).collect();
    let found: Vec<String> = found.into_iter().map(str::to_owned).collect();
    none_of(&found, "find who brings the other version with `cargo tree --duplicates`, and agree on one");
}
