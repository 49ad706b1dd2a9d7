//! The one place that reads time. Everything else is handed a `Clock`, so that tests can hold it.
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::time::Instant;

/// Where time comes from.
pub trait Clock: Send + Sync + 'static {
    /// Milliseconds since the Unix epoch, UTC.
    fn unix_ms(&self) -> u64;

    /// A point for measuring durations. Follows tokio's clock, so a paused test holds it.
    fn instant(&self) -> Instant {
        Instant::now()
    }
}

/// The machine's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the wall clock")]
    fn unix_ms(&self) -> u64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    }
}

/// A clock that moves only when told to.
#[derive(Debug, Default)]
pub struct ManualClock(AtomicU64);

impl ManualClock {
    /// Starts at `unix_ms`.
    #[must_use]
    pub fn at(unix_ms: u64) -> Self {
        Self(AtomicU64::new(unix_ms))
    }

    /// Moves forward.
    pub fn advance(&self, by: Duration) {
        let by_ms = u64::try_from(by.as_millis()).unwrap_or(u64::MAX);
        self.0.fetch_add(by_ms, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn unix_ms(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}

/// A UTC minute: the window of every limit per minute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Minute(u64);

impl Minute {
    const LENGTH_MS: u64 = 60_000;

    /// The minute that holds this instant (milliseconds since the Unix epoch).
    #[must_use]
    pub fn of(unix_ms: u64) -> Self {
        Self(unix_ms / Self::LENGTH_MS)
    }

    /// Minutes since the Unix epoch.
    pub(crate) fn index(self) -> u64 {
        self.0
    }

    /// The minute after this one.
    pub(crate) fn next(self) -> Self {
        Self(self.0 + 1)
    }

    /// `HH-MM`, as it stands in key names. It repeats daily; the keys' time to live of 60 s keeps days apart.
    #[must_use]
    pub fn hh_mm(self) -> String {
        let (hours, minutes) = (self.0 / 60 % 24, self.0 % 60);
        let digit = |n: u64| char::from(b"0123456789"[usize::try_from(n % 10).unwrap_or(0)]);
        String::from_iter([digit(hours / 10), digit(hours), '-', digit(minutes / 10), digit(minutes)])
    }

    /// Milliseconds from `unix_ms` until this minute has ended; 0 if it has.
    #[must_use]
    pub fn left_ms(self, unix_ms: u64) -> u64 {
        ((self.0 + 1) * Self::LENGTH_MS).saturating_sub(unix_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_minute_is_named_by_its_utc_hours_and_minutes() {
        assert_eq!(Minute::of(0).hh_mm(), "00-00");
        assert_eq!(Minute::of(1_796_075_431_000).hh_mm(), "21-50");
    }

    #[test]
    fn what_is_left_of_a_minute_ends_at_zero() {
        let minute = Minute::of(60_000);
        assert_eq!(minute.left_ms(60_000), 60_000);
        assert_eq!(minute.left_ms(119_999), 1);
        assert_eq!(minute.left_ms(120_000), 0);
    }
}
