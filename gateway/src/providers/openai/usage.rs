//! Reads token counts out of a `usage` object, whatever its shape.
use crate::prompt::Fields;
use crate::providers::Usage;

/// The counts, if there are any. A reported zero is a zero; what is missing follows from the total, else is zero.
pub(super) fn read(raw: &str) -> Option<Usage> {
    let fields = Fields::read(raw).ok()?;
    let number = |name| fields.value(raw, name).and_then(count);
    let input = number("prompt_tokens").or_else(|| number("input_tokens"));
    let output = number("completion_tokens").or_else(|| number("output_tokens"));
    let total = number("total_tokens");
    let rest = |known: u64| total.map_or(0, |total| total.saturating_sub(known));
    match (input, output) {
        (Some(input), Some(output)) => Some(Usage { input, output }),
        (Some(input), None) => Some(Usage { input, output: rest(input) }),
        (None, Some(output)) => Some(Usage { input: rest(output), output }),
        (None, None) => total.map(|total| Usage { input: total, output: 0 }),
    }
}

/// A count; some servers write it as a float or as a text.
fn count(raw: &str) -> Option<u64> {
    let number = raw.trim_matches('"');
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    fraction.bytes().all(|byte| byte.is_ascii_digit()).then(|| whole.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_is_read_in_any_shape() {
        let table = [
            (r#"{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15}"#, Some((10, 5))),
            (r#"{"prompt_tokens":0,"completion_tokens":0}"#, Some((0, 0))),
            (r#"{"prompt_tokens":10}"#, Some((10, 0))),
            (r#"{"prompt_tokens":10,"total_tokens":15}"#, Some((10, 5))),
            (r#"{"completion_tokens":5,"total_tokens":15}"#, Some((10, 5))),
            (r#"{"total_tokens":15}"#, Some((15, 0))),
            (r#"{"prompt_tokens":null,"completion_tokens":5,"total_tokens":null}"#, Some((0, 5))),
            (r#"{"prompt_tokens":10.0,"completion_tokens":"5"}"#, Some((10, 5))),
            (r#"{"input_tokens":10,"output_tokens":5}"#, Some((10, 5))),
            (r#"{"prompt_tokens":-3,"completion_tokens":[]}"#, None),
            (r#"{"prompt_tokens":1e3}"#, None),
            ("{}", None),
            ("null", None),
            ("[]", None),
            ("7", None),
        ];
        for (raw, want) in table {
            let want = want.map(|(input, output)| Usage { input, output });
            assert_eq!(read(raw), want, "{raw}");
        }
    }
}
