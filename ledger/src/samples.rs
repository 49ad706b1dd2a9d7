//! What a call tells of its deployment when it ends: how fast the deployment was, and how large the call. Only the last
//! few are kept, an hour at most. Each has a short text, which is what lies in Redis.
use std::fmt;
use std::ops::Deref;
use std::str::FromStr;
use std::sync::{Arc, OnceLock};

/// The correction of an estimate stays within a quarter and four times of it, whatever was reported.
const CORRECTION_MAX: u128 = 4;

/// What one call tells. Both parts are left out where nothing is known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sample {
    /// How fast it was.
    pub latency: Option<Latency>,
    /// How large it was.
    pub sizes: Option<Sizes>,
}

/// How fast a deployment answered. Text: `<per token>`, `<per token>/<first token>` or `timeout`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Latency {
    /// It answered.
    Answered {
        /// The whole call divided by its output tokens (by 1 if it has none), in microseconds.
        per_token_us: u64,
        /// For a stream, until its first content, in microseconds.
        first_token_us: Option<u64>,
    },
    /// It did not answer in time: slower than anything that did.
    TimedOut,
}

/// Tokens of a call whose provider reported them. Text: `<estimated>/<input>/<output>`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizes {
    /// The input as it was estimated before the call, uncorrected.
    pub estimated: u64,
    /// The input as reported.
    pub input: u64,
    /// The output as reported.
    pub output: u64,
}

/// A kind of sample, of which the last few are kept.
pub trait Kind: Copy + PartialEq + fmt::Debug + fmt::Display + FromStr + 'static {
    /// So many are kept of a deployment.
    const KEPT: usize;

    /// What requests want to know of all of them together.
    type Summary: fmt::Debug + Send + Sync;
}

impl Kind for Latency {
    const KEPT: usize = 10;
    type Summary = ();
}

impl Kind for Sizes {
    const KEPT: usize = 50;
    type Summary = Summary;
}

/// The last samples of a deployment, oldest first. Cheap to clone.
#[derive(Clone)]
pub struct Recent<T: Kind>(Option<Arc<Kept<T>>>);

/// Many requests go by the same samples, so what they come to is worked out once, by the first that asks.
#[derive(Debug)]
struct Kept<T: Kind> {
    items: Box<[T]>,
    summary: OnceLock<T::Summary>,
}

/// What the sizes come to.
#[derive(Debug, Clone, Copy, Default)]
pub struct Summary {
    mean_tokens: u64,
    estimated: u128,
    input: u128,
    output_p90: Option<u64>,
}

impl Summary {
    fn of(sizes: &[Sizes]) -> Self {
        let sum = |count: fn(&Sizes) -> u64| sizes.iter().map(|sizes| u128::from(count(sizes))).sum::<u128>();
        let (input, output) = (sum(|sizes| sizes.input), sum(|sizes| sizes.output));
        let count = u128::try_from(sizes.len()).unwrap_or(u128::MAX);
        let mut outputs: Vec<u64> = sizes.iter().map(|sizes| sizes.output).collect();
        outputs.sort_unstable();
        let rank = (outputs.len() * 9).div_ceil(10);
        Self {
            mean_tokens: narrow((input + output) / count.max(1)),
            estimated: sum(|sizes| sizes.estimated),
            input,
            output_p90: rank.checked_sub(1).and_then(|at| outputs.get(at)).copied(),
        }
    }
}

impl<T: Kind> Recent<T> {
    /// None.
    pub const NONE: Self = Self(None);

    /// The last of these, at most as many as are kept.
    #[must_use]
    pub fn of(items: &[T]) -> Self {
        let last = &items[items.len().saturating_sub(T::KEPT)..];
        let kept = || Arc::new(Kept { items: Box::from(last), summary: OnceLock::new() });
        Self((!last.is_empty()).then(kept))
    }

    /// With these after them.
    #[must_use]
    pub fn and(&self, items: &[T]) -> Self {
        if items.is_empty() { self.clone() } else { Self::of(&[self, items].concat()) }
    }
}

impl Recent<Sizes> {
    fn summary(&self) -> Summary {
        let once = |kept: &Arc<Kept<Sizes>>| *kept.summary.get_or_init(|| Summary::of(&kept.items));
        self.0.as_ref().map(once).unwrap_or_default()
    }

    /// Input and output of a call together, as reported in the mean; 0 while nothing is known.
    #[must_use]
    pub fn mean_tokens(&self) -> u64 {
        self.summary().mean_tokens
    }

    /// An estimate of an input, corrected by how far earlier ones were off. As it is while nothing is known.
    #[must_use]
    pub fn corrected(&self, estimated: u64) -> u64 {
        let Summary { estimated: all_estimated, input: all_input, .. } = self.summary();
        if all_estimated == 0 || all_input == 0 {
            return estimated;
        }
        let estimated = u128::from(estimated);
        let corrected = estimated.saturating_mul(all_input) / all_estimated;
        narrow(corrected.clamp(estimated / CORRECTION_MAX, estimated * CORRECTION_MAX))
    }

    /// Nine of ten outputs are no longer than this; `None` while nothing is known.
    #[must_use]
    pub fn output_p90(&self) -> Option<u64> {
        self.summary().output_p90
    }
}

fn narrow(number: u128) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

impl<T: Kind> Deref for Recent<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        self.0.as_ref().map_or(&[], |kept| &kept.items)
    }
}

impl<T: Kind> PartialEq for Recent<T> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl<T: Kind + Eq> Eq for Recent<T> {}

impl<T: Kind> Default for Recent<T> {
    fn default() -> Self {
        Self::NONE
    }
}

impl<T: Kind> fmt::Debug for Recent<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// Not the text of a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoSample;

impl fmt::Display for Latency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Answered { per_token_us, first_token_us: None } => write!(f, "{per_token_us}"),
            Self::Answered { per_token_us, first_token_us: Some(first) } => {
                write!(f, "{per_token_us}/{first}")
            }
            Self::TimedOut => f.write_str("timeout"),
        }
    }
}

impl FromStr for Latency {
    type Err = NoSample;

    fn from_str(text: &str) -> Result<Self, NoSample> {
        if text == "timeout" {
            return Ok(Self::TimedOut);
        }
        let (per_token, first) =
            text.split_once('/').map_or((text, None), |(text, first)| (text, Some(first)));
        let first_token_us = first.map(number).transpose()?;
        Ok(Self::Answered { per_token_us: number(per_token)?, first_token_us })
    }
}

impl fmt::Display for Sizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.estimated, self.input, self.output)
    }
}

impl FromStr for Sizes {
    type Err = NoSample;

    fn from_str(text: &str) -> Result<Self, NoSample> {
        let mut numbers = text.splitn(3, '/').map(number);
        let mut next = || numbers.next().unwrap_or(Err(NoSample));
        Ok(Self { estimated: next()?, input: next()?, output: next()? })
    }
}

/// Digits alone: Rust's own parser would take a sign too.
fn number(text: &str) -> Result<u64, NoSample> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| digits).ok_or(NoSample)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(texts: &[&str]) -> Recent<Sizes> {
        Recent::of(&texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<_>>())
    }

    #[test]
    fn what_is_written_is_read_again() {
        for text in ["0", "1200", "900/50000", "timeout"] {
            assert_eq!(text.parse::<Latency>().unwrap().to_string(), text);
        }
        assert_eq!("10/12/40".parse::<Sizes>().unwrap().to_string(), "10/12/40");
    }

    #[test]
    fn what_is_malformed_is_no_sample() {
        for text in ["", "x", "-1", "+1", "1.5", "1/", "/1", "1/2/3", "Timeout", "99999999999999999999"] {
            assert_eq!(text.parse::<Latency>(), Err(NoSample), "{text}");
        }
        for text in ["", "1", "1/2", "1/2/", "1/2/3/4", "a/b/c", "1/+2/3", "1/2/99999999999999999999"] {
            assert_eq!(text.parse::<Sizes>(), Err(NoSample), "{text}");
        }
    }

    #[test]
    fn only_the_last_are_kept() {
        let one = |per_token_us| Latency::Answered { per_token_us, first_token_us: None };
        let eleven: Vec<Latency> = (0..11).map(one).collect();
        assert_eq!(*Recent::of(&eleven), eleven[1..]);
        assert_eq!(
            *Recent::of(&eleven).and(&[Latency::TimedOut]),
            [&eleven[2..], &[Latency::TimedOut]].concat()
        );
        assert_eq!(Recent::<Latency>::of(&[]), Recent::NONE);
    }

    #[test]
    fn an_estimate_is_corrected_by_what_was_reported_within_bounds() {
        assert_eq!(Recent::NONE.corrected(100), 100);
        assert_eq!(sizes(&["100/50/9", "300/150/9"]).corrected(100), 50);
        assert_eq!(sizes(&["100/300/9"]).corrected(7), 21);
        assert_eq!(sizes(&["1000/1/9"]).corrected(100), 25);
        assert_eq!(sizes(&["1/1000/9"]).corrected(100), 400);
        assert_eq!(sizes(&["0/10/9"]).corrected(100), 100);
        assert_eq!(sizes(&["10/0/9"]).corrected(100), 100);
    }

    #[test]
    fn counts_that_no_provider_could_mean_overflow_nothing() {
        let huge = format!("1/{0}/{0}", u64::MAX);
        let sizes = sizes(&[huge.as_str(); 50]);
        assert_eq!(sizes.corrected(u64::MAX), u64::MAX);
        assert_eq!(sizes.mean_tokens(), u64::MAX);
    }

    #[test]
    fn the_mean_is_of_whole_calls_and_nothing_is_known_of_none() {
        assert_eq!(sizes(&["9/10/30", "9/20/20"]).mean_tokens(), 40);
        assert_eq!(Recent::NONE.mean_tokens(), 0);
    }

    #[test]
    fn nine_of_ten_outputs_are_within_p90() {
        let texts: Vec<String> = (1..=20).rev().map(|output| format!("1/1/{output}")).collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        assert_eq!(sizes(&texts).output_p90(), Some(18));
        assert_eq!(sizes(&["1/1/7"]).output_p90(), Some(7));
        assert_eq!(sizes(&["1/1/7", "1/1/70"]).output_p90(), Some(70));
        assert_eq!(Recent::NONE.output_p90(), None);
    }
}
