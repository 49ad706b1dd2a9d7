//! Text becomes the number or flag that its place asks for: `60`, `"60"`, `6e1`, `60.0` and `1_000` alike.

/// The ledger's scripts count in doubles: whole numbers are exact up to here.
const WHOLE_MAX: i64 = 9_007_199_254_740_991;

/// A whole number, also written as `6e1` or `60.0`.
pub(super) fn whole(text: &str) -> Option<i64> {
    let text = plain(text)?;
    let whole = match text.parse::<i64>() {
        Ok(whole) => whole,
        Err(_) => {
            let value: f64 = text.parse().ok()?;
            // Printed without a fraction it parses again: no cast that could lose.
            if value.fract() == 0.0 { format!("{value:.0}").parse().ok()? } else { return None }
        }
    };
    (-WHOLE_MAX..=WHOLE_MAX).contains(&whole).then_some(whole)
}

/// A whole number from 0 on.
pub(super) fn count(text: &str) -> Option<u64> {
    u64::try_from(whole(text)?).ok()
}

/// A finite number.
pub(super) fn decimal(text: &str) -> Option<f64> {
    plain(text)?.parse().ok().filter(|value: &f64| value.is_finite())
}

/// A flag: YAML's words of any version, and the digits that environments use.
pub(super) fn flag(text: &str) -> Option<bool> {
    match text.trim().to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" | "1" => Some(true),
        "false" | "no" | "off" | "0" => Some(false),
        _ => None,
    }
}

/// The text without the underscores between its digits, if it is a number at all: Rust's own parser would
/// take `inf` and `nan` too.
fn plain(text: &str) -> Option<String> {
    let text = text.trim();
    let bytes = text.as_bytes();
    let is_digit = |at: Option<usize>| at.and_then(|at| bytes.get(at)).is_some_and(u8::is_ascii_digit);
    let mut kept = String::with_capacity(text.len());
    for (at, c) in text.char_indices() {
        match c {
            '0'..='9' | '+' | '-' | '.' | 'e' | 'E' => kept.push(c),
            '_' if is_digit(at.checked_sub(1)) && is_digit(Some(at + 1)) => {}
            _ => return None,
        }
    }
    kept.parse::<f64>().is_ok().then_some(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sixty_may_be_written_in_many_ways() {
        for text in ["60", "6e1", "60.0", "6_0", " 60 ", "+60", "600e-1"] {
            assert_eq!(count(text), Some(60), "{text}");
        }
        assert_eq!(count("1_000"), Some(1000));
    }

    #[test]
    fn what_is_no_whole_number_from_zero_on_is_no_count() {
        for text in [
            "",
            "many",
            "-1",
            "1.5",
            "1e400",
            "inf",
            "nan",
            "_1",
            "1_",
            "1__0",
            "30s",
            "0x10",
            "9007199254740992",
        ] {
            assert_eq!(count(text), None, "{text}");
        }
    }

    #[test]
    fn prices_may_use_an_exponent_with_or_without_a_point() {
        assert_eq!(decimal("1e-06"), decimal("1.0e-6"));
        assert_eq!(decimal("1e-06"), Some(0.000_001));
        assert_eq!(decimal("infinity"), None);
        assert_eq!(decimal("1e999"), None);
    }

    #[test]
    fn flags_know_the_words_of_yaml_and_the_digits_of_environments() {
        assert_eq!(flag("On"), Some(true));
        assert_eq!(flag("0"), Some(false));
        assert_eq!(flag("perhaps"), None);
    }
}
