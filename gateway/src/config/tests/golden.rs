//! `tests/golden/config`: files beside the exact text that is printed of them. `NAME.env` is their environment.
use super::super::{Environment, Loaded, Problems, load};
use std::fs;
use std::path::{Path, PathBuf};

fn directory(kind: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/golden/config").join(kind)
}

fn files(kind: &str) -> Vec<PathBuf> {
    let mut files: Vec<_> = fs::read_dir(directory(kind))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "yaml"))
        .collect();
    files.sort();
    files
}

pub(super) fn environment_of(path: &Path) -> Environment {
    let text = fs::read_to_string(path.with_extension("env")).unwrap_or_default();
    Environment::of(text.lines().filter_map(|line| line.split_once('=')))
}

pub(super) fn good(name: &str) -> Result<Loaded, Problems> {
    let path = directory("good").join(name);
    load(&path, &environment_of(&path))
}

/// What is printed of a file, with its directory taken out.
fn printed(path: &Path) -> (bool, String) {
    let (taken, text) = match load(path, &environment_of(path)) {
        Ok(loaded) => (true, loaded.warnings.iter().map(|problem| format!("{problem}\n\n")).collect()),
        Err(problems) => (false, format!("{problems}\n")),
    };
    let directory = format!("{}/", path.parent().unwrap().display());
    (taken, format!("{}\n", text.replace(&directory, "").trim_end()))
}

fn check(kind: &str, wanted_taken: bool) {
    let files = files(kind);
    assert!(!files.is_empty());
    let mut wrong = String::new();
    for path in files {
        let wanted = fs::read_to_string(path.with_extension("txt")).unwrap_or_default();
        let (taken, text) = printed(&path);
        if taken != wanted_taken || text.trim_end() != wanted.trim_end() {
            wrong.push_str(&format!("==== {} taken={taken}\n{text}", path.display()));
        }
    }
    assert!(wrong.is_empty(), "printed, but not in the golden file:\n{wrong}");
}

#[test]
fn bad_files_print_exactly_their_golden_text() {
    check("bad", false);
}

#[test]
fn good_files_are_taken_with_exactly_their_golden_warnings() {
    check("good", true);
}

#[test]
fn no_secret_of_any_golden_file_or_its_environment_is_printed() {
    let mut secrets_seen = 0;
    for path in files("bad").into_iter().chain(files("good")) {
        let (_, text) = printed(&path);
        let whole = fs::read_to_string(&path).unwrap()
            + &fs::read_to_string(path.with_extension("env")).unwrap_or_default();
        let word = |c: char| !(c.is_ascii_alphanumeric() || c == '-');
        for secret in whole.split(word).filter(|word| word.starts_with("sk-") || word.contains("secret-")) {
            secrets_seen += 1;
            assert!(!text.contains(secret), "{}: {secret}\n{text}", path.display());
        }
        for secret in ["hunter2", "correct horse", "p@ss", "p%40ss"] {
            assert!(!text.contains(secret), "{}: {secret}\n{text}", path.display());
        }
    }
    assert!(secrets_seen > 40, "{secrets_seen}");
}

#[test]
fn a_file_that_is_not_there_is_a_problem_with_its_name() {
    let printed = load(Path::new("nowhere/config.yaml"), &Environment::default()).unwrap_err().to_string();
    assert!(
        printed.starts_with("error: the config cannot be read\n  --> nowhere/config.yaml\n"),
        "{printed}"
    );
}
