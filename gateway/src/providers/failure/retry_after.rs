//! How long a provider asks us to stay away, from `retry-after-ms` and `retry-after`.
use http::HeaderMap;
use std::time::{Duration, UNIX_EPOCH};

/// The positive wait that the headers ask for, if it can be read. `now_ms` (Unix epoch) is for HTTP dates.
pub(super) fn wait(headers: &HeaderMap, now_ms: u64) -> Option<Duration> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    let by_ms = text("retry-after-ms").and_then(|text| positive(text, 1000.0));
    by_ms.or_else(|| {
        let text = text("retry-after")?;
        positive(text, 1.0).or_else(|| until(text, now_ms))
    })
}

/// The wait as the length of a cooldown: of 1 s to 1 hour.
pub(super) fn cooldown(wait: Option<Duration>) -> Option<Duration> {
    wait.filter(|wait| (Duration::from_secs(1)..=Duration::from_secs(3600)).contains(wait))
}

fn positive(text: &str, per_second: f64) -> Option<Duration> {
    let seconds = text.parse::<f64>().ok()? / per_second;
    Duration::try_from_secs_f64(seconds).ok().filter(|wait| !wait.is_zero())
}

fn until(date: &str, now_ms: u64) -> Option<Duration> {
    let since_epoch = httpdate::parse_http_date(date).ok()?.duration_since(UNIX_EPOCH).ok()?;
    since_epoch.checked_sub(Duration::from_millis(now_ms)).filter(|wait| !wait.is_zero())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_MS: u64 = 1_796_075_431_500; // Mon, 30 Nov 2026 21:50:31.5 GMT

    fn check(headers: &[(&'static str, &str)], wait_ms: Option<u64>, cools: bool) {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.insert(*name, value.parse().unwrap());
        }
        let found = wait(&map, NOW_MS);
        assert_eq!(found, wait_ms.map(Duration::from_millis), "{headers:?}");
        assert_eq!(cooldown(found).is_some(), cools, "{headers:?}");
    }

    #[test]
    fn every_form_of_the_headers_is_read_and_nonsense_is_none() {
        check(&[], None, false);
        check(&[("retry-after", "3")], Some(3000), true);
        check(&[("retry-after", " 2.5 ")], Some(2500), true);
        check(&[("retry-after", "0.2")], Some(200), false);
        check(&[("retry-after", "3600")], Some(3_600_000), true);
        check(&[("retry-after", "3601")], Some(3_601_000), false);
        check(&[("retry-after", "999999")], Some(999_999_000), false);
        for nonsense in ["0", "-5", "soon", "", "NaN", "inf", "1e400", "Thu, 01 Jan 1970 00:00:00 GMT"] {
            check(&[("retry-after", nonsense)], None, false);
        }
    }

    #[test]
    fn milliseconds_go_first_and_seconds_stand_in_for_unreadable_ones() {
        check(&[("retry-after-ms", "1500"), ("retry-after", "9")], Some(1500), true);
        check(&[("retry-after-ms", "soon"), ("retry-after", "9")], Some(9000), true);
        check(&[("retry-after-ms", "1")], Some(1), false);
    }

    #[test]
    fn a_date_counts_from_now() {
        check(&[("retry-after", "Mon, 30 Nov 2026 21:50:36 GMT")], Some(4500), true);
        check(&[("retry-after", "Mon, 30 Nov 2026 21:50:31 GMT")], None, false);
    }
}
