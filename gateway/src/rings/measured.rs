//! What a call tells of its deployment, measured where it ended.
use crate::providers::Usage;
use ledger::{Latency, Sample, Sizes};
use std::time::Duration;

/// A call that did not answer in time.
pub(super) const TIMED_OUT: Sample = Sample { latency: Some(Latency::TimedOut), sizes: None };

/// A call that was answered.
#[derive(Debug, Clone, Copy)]
pub(super) struct Answered {
    /// From its begin to its end.
    pub(super) took: Duration,
    /// For a stream, until its first content.
    pub(super) first_content: Option<Duration>,
    /// The input as it was estimated, uncorrected.
    pub(super) estimated: u64,
    /// As reported.
    pub(super) usage: Option<Usage>,
    /// The answer's bytes, where nothing was reported.
    pub(super) text_bytes: u64,
}

impl Answered {
    /// Sizes are told only where they were reported: an estimate is no measure of estimates.
    pub(super) fn sample(self) -> Sample {
        let output = self.usage.map_or(self.text_bytes / 4, |usage| usage.output);
        let per_token_us = micros(self.took) / output.max(1);
        let sizes =
            |usage: Usage| Sizes { estimated: self.estimated, input: usage.input, output: usage.output };
        Sample {
            latency: Some(Latency::Answered { per_token_us, first_token_us: self.first_content.map(micros) }),
            sizes: self.usage.map(sizes),
        }
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_tells_its_speed_and_what_was_reported() {
        let answered = Answered {
            took: Duration::from_millis(500),
            first_content: Some(Duration::from_millis(20)),
            estimated: 9,
            usage: Some(Usage { input: 12, output: 100 }),
            text_bytes: 7_000,
        };
        let latency = Latency::Answered { per_token_us: 5_000, first_token_us: Some(20_000) };
        let sizes = Sizes { estimated: 9, input: 12, output: 100 };
        assert_eq!(answered.sample(), Sample { latency: Some(latency), sizes: Some(sizes) });
    }

    #[test]
    fn where_nothing_was_reported_only_the_speed_is_told() {
        let answered = Answered {
            took: Duration::from_millis(500),
            first_content: None,
            estimated: 9,
            usage: None,
            text_bytes: 400,
        };
        let latency = Latency::Answered { per_token_us: 5_000, first_token_us: None };
        assert_eq!(answered.sample(), Sample { latency: Some(latency), sizes: None });
    }

    #[test]
    fn an_answer_without_output_counts_whole() {
        let usage = Some(Usage { input: 12, output: 0 });
        let took = Duration::from_millis(5);
        let answered = Answered { took, first_content: None, estimated: 9, usage, text_bytes: 0 };
        let latency = Latency::Answered { per_token_us: 5_000, first_token_us: None };
        assert_eq!(answered.sample().latency, Some(latency));
    }
}
