//! Text that nobody wrote: a good file cut, doubled and scratched. It must be taken or refused, never crash.
use super::super::{Environment, load_text};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

const GOOD: [&str; 4] = [
    include_str!("../../../../tests/golden/config/good/full.yaml"),
    include_str!("../../../../tests/golden/config/good/anchors.yaml"),
    include_str!("../../../../tests/golden/config/bad/names.yaml"),
    include_str!("../../../../tests/golden/config/bad/yaml-oddities.yaml"),
];

/// What breaks parsers: indicators, quotes, ends of lines, bytes of more than one unit.
const SCRATCHES: [&str; 24] = [
    ":", "-", "?", "[", "]", "{", "}", "&a", "*a", "!", "|", ">", "'", "\"", "#", "%", "@", "\n", "\r\n",
    "\t", "<<: ", "é", "\u{feff}", "\0",
];

/// Loads it and prints what is said of it: both must come to an end.
fn load(text: &str) -> usize {
    match load_text("damaged.yaml", text, &Environment::of([("KEY", "sk-from-the-environment")])) {
        Ok(loaded) => loaded.warnings.len(),
        Err(problems) => {
            assert!(problems.has_errors());
            let printed = problems.to_string();
            assert!(printed.starts_with("error: ") || printed.starts_with("warning: "), "{printed}");
            for secret in ["sk-from-the-environment", "sk-written-down", "sk-master"] {
                assert!(!printed.contains(secret), "{secret}\n{text}\n\n{printed}");
            }
            printed.len()
        }
    }
}

fn boundary(text: &str, at: usize) -> usize {
    (0..=at).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0)
}

#[test]
fn a_file_that_is_cut_short_is_taken_or_refused() {
    for good in GOOD {
        for at in (0..good.len()).step_by(7) {
            load(&good[..boundary(good, at)]);
        }
    }
}

#[test]
fn a_scratched_file_is_taken_or_refused() {
    let mut dice = StdRng::seed_from_u64(7);
    for round in 0..1000 {
        let mut text = GOOD[round % GOOD.len()].to_owned();
        for _ in 0..dice.random_range(1..6) {
            let from = boundary(&text, dice.random_range(0..=text.len()));
            let to = boundary(&text, (from + dice.random_range(0..40)).min(text.len())).max(from);
            match dice.random_range(0..4) {
                0 => text.replace_range(from..to, ""),
                1 => {
                    let again = text[from..to].to_owned();
                    text.insert_str(from, &again);
                }
                2 => text.replace_range(from..to, SCRATCHES[dice.random_range(0..SCRATCHES.len())]),
                _ => text.insert_str(from, SCRATCHES[dice.random_range(0..SCRATCHES.len())]),
            }
        }
        load(&text);
    }
}

#[test]
fn depth_is_bounded_whether_written_out_or_built_of_aliases() {
    load(&format!("model_list: {}", "[".repeat(100_000)));
    load(&format!("model_list: {}x{}", "[".repeat(200), "]".repeat(200)));
    load(&"- ".repeat(50_000));
    load(&(0..2000).map(|depth| format!("{}a:\n", " ".repeat(depth))).collect::<String>());
    let chain: String = (1..5000).map(|n| format!("x-{n}: &a{n} [*a{}]\n", n - 1)).collect();
    load(&format!("x-0: &a0 [x]\n{chain}"));
}

#[test]
fn a_cut_file_that_still_has_its_models_is_not_always_refused() {
    let taken = (0..GOOD[0].len())
        .step_by(3)
        .filter(|&at| GOOD[0].is_char_boundary(at))
        .filter(|&at| load_text("cut.yaml", &GOOD[0][..at], &Environment::of([("KEY", "k")])).is_ok())
        .count();
    assert!(taken > 30, "{taken}");
}
