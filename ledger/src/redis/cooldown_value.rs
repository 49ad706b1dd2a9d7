//! What stands in a cooldown's key. We write JSON, which LiteLLM reads; LiteLLM writes a Python literal, which
//! we read.
use crate::ledger::Cooling;
use serde::Deserialize;
use std::time::Duration;

/// A cooldown that nobody can read is believed for so long, then read again.
const UNREADABLE_MS: u64 = 1_000;

#[derive(Deserialize)]
struct Json {
    #[serde(default)]
    status_code: serde_json::Value,
    timestamp: Option<f64>,
    cooldown_time: Option<f64>,
    until_ms: Option<u64>,
}

/// The value for a cooldown that is written at `now_ms`.
pub(super) fn write(cooling: &Cooling, reason: &str, now_ms: u64) -> String {
    let Cooling { until_ms, status } = *cooling;
    let left_ms = until_ms.saturating_sub(now_ms);
    format!(
        r#"{{"exception_received": {}, "status_code": "{status}", "timestamp": {}, "cooldown_time": {}, "until_ms": {until_ms}}}"#,
        serde_json::Value::from(reason),
        seconds(now_ms),
        seconds(left_ms),
    )
}

/// Reads what we or LiteLLM wrote. That the key is there means that the deployment is out, so what cannot be
/// read is a short cooldown and not none.
pub(super) fn read(text: &str, now_ms: u64) -> Cooling {
    read_json(text)
        .or_else(|| read_literal(text))
        .unwrap_or(Cooling { until_ms: now_ms.saturating_add(UNREADABLE_MS), status: 0 })
}

fn read_json(text: &str) -> Option<Cooling> {
    let json: Json = serde_json::from_str(text).ok()?;
    let until_ms = match json.until_ms {
        Some(until_ms) => until_ms,
        None => millis(json.timestamp?)?.saturating_add(millis(json.cooldown_time?)?),
    };
    let digits = json.status_code.to_string();
    Some(Cooling { until_ms, status: digits.trim_matches('"').parse().unwrap_or(0) })
}

/// `{'exception_received': '...', 'status_code': '429', 'timestamp': 1796068702.45, 'cooldown_time': 5.9}`.
fn read_literal(text: &str) -> Option<Cooling> {
    let until_ms = millis(field(text, "timestamp")?.parse().ok()?)?
        .saturating_add(millis(field(text, "cooldown_time")?.parse().ok()?)?);
    let status = field(text, "status_code").and_then(|digits| digits.parse().ok()).unwrap_or(0);
    Some(Cooling { until_ms, status })
}

/// The number behind a name. The last such name counts: the provider's own words stand before ours, and may
/// say anything.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let behind = text.rfind(&format!("'{name}'")).map(|at| &text[at + name.len() + 2..])?;
    let value = behind.trim_start_matches([':', ' ', '\'', '"']);
    let end =
        value.find(|c: char| !matches!(c, '0'..='9' | '.' | '-' | '+' | 'e' | 'E')).unwrap_or(value.len());
    Some(&value[..end])
}

fn seconds(ms: u64) -> String {
    format!("{}.{:03}", ms / 1_000, ms % 1_000)
}

fn millis(seconds: f64) -> Option<u64> {
    let whole = Duration::try_from_secs_f64(seconds).ok()?;
    u64::try_from(whole.as_millis()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let cooling = Cooling { until_ms: 1_796_068_708_350, status: 429 };
        let text = write(&cooling, "rate \"limited\"\n", 1_796_068_702_450);
        assert_eq!(read(&text, 0), cooling);
    }

    #[test]
    fn what_is_written_is_json_with_the_fields_that_litellm_reads() {
        let text = write(&Cooling { until_ms: 7_250, status: 503 }, "overloaded", 2_000);
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        let want = serde_json::json!({
            "exception_received": "overloaded", "status_code": "503",
            "timestamp": 2.0, "cooldown_time": 5.25, "until_ms": 7_250,
        });
        assert_eq!(json, want);
    }

    #[test]
    fn a_python_literal_is_read() {
        let text = "{'exception_received': 'RateLimitError: don\\'t \\'timestamp\\': 1', 'status_code': '429', \
                    'timestamp': 1796068702.45, 'cooldown_time': 5.9}";
        assert_eq!(read(text, 0), Cooling { until_ms: 1_796_068_708_350, status: 429 });
    }

    #[test]
    fn a_python_literal_without_a_status_is_read() {
        let text =
            "{'exception_received': '', 'status_code': '', 'timestamp': 1796068702, 'cooldown_time': 60}";
        assert_eq!(read(text, 0), Cooling { until_ms: 1_796_068_762_000, status: 0 });
    }

    #[test]
    fn json_without_our_own_field_is_read() {
        let text = r#"{"exception_received": "", "status_code": 500, "timestamp": 10.5, "cooldown_time": 2}"#;
        assert_eq!(read(text, 0), Cooling { until_ms: 12_500, status: 500 });
    }

    #[test]
    fn what_cannot_be_read_is_a_short_cooldown() {
        for text in
            ["", "nonsense", "{}", "{'timestamp': -1, 'cooldown_time': 1e300}", "{'timestamp'", "null"]
        {
            assert_eq!(read(text, 5_000), Cooling { until_ms: 6_000, status: 0 }, "{text}");
        }
    }
}
