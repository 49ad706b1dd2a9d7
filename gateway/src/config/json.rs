//! Body defaults become JSON by YAML's core schema: quotes make text, numbers keep their digits.
use super::number;
use super::tree::{Node, Scalar, Value};
use serde_json::value::RawValue;
use std::fmt::Write as _;

/// Body fields of the OpenAI API that are numbers, however they are written.
const NUMBERS: [&str; 13] = [
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "max_tokens",
    "max_completion_tokens",
    "n",
    "seed",
    "presence_penalty",
    "frequency_penalty",
    "repetition_penalty",
    "top_logprobs",
    "dimensions",
];

/// Those that are flags. `stream` is not among them: it is the caller's alone.
const FLAGS: [&str; 4] = ["logprobs", "parallel_tool_calls", "store", "echo"];

/// Body fields that may stand near a known key without being a slip of the pen.
pub(super) fn is_body_field(key: &str) -> bool {
    const OTHERS: [&str; 22] = [
        "stop",
        "user",
        "tools",
        "tool_choice",
        "functions",
        "function_call",
        "response_format",
        "logit_bias",
        "metadata",
        "modalities",
        "audio",
        "prediction",
        "reasoning_effort",
        "service_tier",
        "verbosity",
        "suffix",
        "best_of",
        "encoding_format",
        "thinking",
        "stream",
        "stream_options",
        "safety_identifier",
    ];
    NUMBERS.contains(&key) || FLAGS.contains(&key) || OTHERS.contains(&key)
}

/// A body field's value; `Err` says what is allowed instead.
pub(super) fn body_value(key: &str, node: &Node) -> Result<Box<RawValue>, &'static str> {
    let mut out = String::new();
    match &node.value {
        Value::Scalar(scalar) if NUMBERS.contains(&key) => {
            // An integer keeps its digits; only other spellings go through a number.
            let digits = integer(scalar.text.trim());
            let number = digits.or_else(|| number::decimal(&scalar.text).map(|value| value.to_string()));
            out = number.ok_or("a number")?;
        }
        Value::Scalar(scalar) if FLAGS.contains(&key) => {
            out = number::flag(&scalar.text).ok_or("true or false")?.to_string();
        }
        Value::Null | Value::Broken | Value::Scalar(_) | Value::List(_) | Value::Map(_) => {
            write(node, &mut out)?;
        }
    }
    RawValue::from_string(out).map_err(|_| "a value that JSON has")
}

fn write(node: &Node, out: &mut String) -> Result<(), &'static str> {
    match &node.value {
        Value::Null | Value::Broken => out.push_str("null"),
        Value::Scalar(scalar) => write_scalar(scalar, out)?,
        Value::List(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write(item, out)?;
            }
            out.push(']');
        }
        Value::Map(map) => {
            out.push('{');
            for (index, entry) in map.0.iter().enumerate() {
                let comma = if index > 0 { "," } else { "" };
                let _ = write!(out, "{comma}{}:", text(&entry.key));
                write(&entry.node, out)?;
            }
            out.push('}');
        }
    }
    Ok(())
}

fn write_scalar(scalar: &Scalar, out: &mut String) -> Result<(), &'static str> {
    let word = scalar.text.as_str();
    // A variable has no type of its own: in a place without a type it stays text.
    if !scalar.plain || scalar.variable.is_some() {
        out.push_str(&text(word));
        return Ok(());
    }
    match word {
        "true" | "True" | "TRUE" => out.push_str("true"),
        "false" | "False" | "FALSE" => out.push_str("false"),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "-.inf" | ".nan" | ".NaN" | ".NAN" => {
            return Err("a number that JSON has");
        }
        _ => out.push_str(&integer(word).or_else(|| float(word)).unwrap_or_else(|| text(word))),
    }
    Ok(())
}

fn text(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// An integer of the core schema as JSON writes it: `+007` is `7`, `0x1f` is `31`.
fn integer(word: &str) -> Option<String> {
    for (prefix, radix) in [("0x", 16), ("0o", 8)] {
        if let Some(digits) = word.strip_prefix(prefix) {
            return u128::from_str_radix(digits, radix).ok().map(|value| value.to_string());
        }
    }
    let (sign, digits) = sign(word);
    (!digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()))
        .then(|| format!("{sign}{}", without_zeros(digits)))
}

/// A float of the core schema as JSON writes it: `.5` is `0.5`, `1.` is `1.0`.
fn float(word: &str) -> Option<String> {
    let (sign, unsigned) = sign(word);
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (unsigned, None),
    };
    let (before, after) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all_digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    if before.len() + after.len() == 0 || !all_digits(before) || !all_digits(after) {
        return None;
    }
    let mut json = format!("{sign}{}", without_zeros(before));
    if mantissa.contains('.') {
        let _ = write!(json, ".{}", if after.is_empty() { "0" } else { after });
    }
    if let Some(exponent) = exponent {
        let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        if digits.is_empty() || !all_digits(digits) {
            return None;
        }
        let _ = write!(json, "e{exponent}");
    }
    Some(json)
}

fn sign(word: &str) -> (&'static str, &str) {
    match word.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", word.strip_prefix('+').unwrap_or(word)),
    }
}

fn without_zeros(digits: &str) -> &str {
    match digits.trim_start_matches('0') {
        "" => "0",
        digits => digits,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(word: &str, json: &str) {
        let scalar = Scalar { text: word.to_owned(), plain: true, variable: None };
        let mut out = String::new();
        write_scalar(&scalar, &mut out).unwrap();
        assert_eq!(out, json, "{word}");
        RawValue::from_string(out).unwrap();
    }

    #[test]
    fn plain_scalars_have_the_types_of_the_core_schema() {
        for (word, json) in [
            ("deep", "\"deep\""),
            ("on", "\"on\""),
            ("2024-05-01", "\"2024-05-01\""),
            ("True", "true"),
            ("+007", "7"),
            ("-0", "-0"),
            ("0x1f", "31"),
            ("0o17", "15"),
            (".5", "0.5"),
            ("-1.", "-1.0"),
            ("1e-06", "1e-06"),
            ("1_000", "\"1_000\""),
            ("1.2.3", "\"1.2.3\""),
            ("-", "\"-\""),
            ("e5", "\"e5\""),
        ] {
            check(word, json);
        }
    }

    #[test]
    fn a_big_integer_keeps_its_digits() {
        check("123456789012345678901234567890", "123456789012345678901234567890");
    }
}
