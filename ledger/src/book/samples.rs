//! The last samples of each deployment. They are forgotten an hour after the last one.
use crate::samples::{Kind, Latency, Recent, Sample, Sizes};
use std::collections::HashMap;
use std::sync::Arc;

/// What the shared ledger sets for its keys too.
const TTL_MS: u64 = 3_600_000;

/// Samples of both kinds, by deployment.
#[derive(Debug, Default)]
pub(crate) struct Samples {
    latency: HashMap<Arc<str>, Kept<Latency>>,
    sizes: HashMap<Arc<str>, Kept<Sizes>>,
}

#[derive(Debug)]
struct Kept<T: Kind> {
    recent: Recent<T>,
    until_ms: u64,
}

impl Samples {
    /// A call has ended.
    pub(crate) fn add(&mut self, id: &Arc<str>, sample: &Sample, now_ms: u64) {
        add(&mut self.latency, id, sample.latency, now_ms);
        add(&mut self.sizes, id, sample.sizes, now_ms);
    }

    /// What is known of a deployment.
    pub(crate) fn of(&self, id: &str, now_ms: u64) -> (Recent<Latency>, Recent<Sizes>) {
        (of(&self.latency, id, now_ms), of(&self.sizes, id, now_ms))
    }

    /// Takes over what a better informed ledger knows.
    pub(crate) fn learn(
        &mut self,
        id: &Arc<str>,
        (latency, sizes): (Recent<Latency>, Recent<Sizes>),
        now_ms: u64,
    ) {
        learn(&mut self.latency, id, latency, now_ms);
        learn(&mut self.sizes, id, sizes, now_ms);
    }

    pub(super) fn prune(&mut self, now_ms: u64) {
        self.latency.retain(|_, kept| kept.until_ms > now_ms);
        self.sizes.retain(|_, kept| kept.until_ms > now_ms);
    }
}

type All<T> = HashMap<Arc<str>, Kept<T>>;

fn add<T: Kind>(all: &mut All<T>, id: &Arc<str>, item: Option<T>, now_ms: u64) {
    if let Some(item) = item {
        let recent = of(all, id, now_ms).and(&[item]);
        learn(all, id, recent, now_ms);
    }
}

fn of<T: Kind>(all: &All<T>, id: &str, now_ms: u64) -> Recent<T> {
    let kept = all.get(id).filter(|kept| kept.until_ms > now_ms);
    kept.map(|kept| kept.recent.clone()).unwrap_or_default()
}

fn learn<T: Kind>(all: &mut All<T>, id: &Arc<str>, recent: Recent<T>, now_ms: u64) {
    if recent.is_empty() {
        all.remove(id);
    } else {
        all.insert(Arc::clone(id), Kept { recent, until_ms: now_ms.saturating_add(TTL_MS) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: Sizes = Sizes { estimated: 1, input: 2, output: 3 };

    #[test]
    fn samples_are_forgotten_an_hour_after_the_last_one() {
        let (mut samples, id) = (Samples::default(), Arc::from("dep-a"));
        let both = Sample { latency: Some(Latency::TimedOut), sizes: Some(SIZES) };
        samples.add(&id, &both, 0);
        samples.add(&id, &Sample { latency: None, ..both }, 1_000);
        let (latency, sizes) = samples.of("dep-a", TTL_MS);
        assert_eq!((latency.len(), sizes.len()), (0, 2));
        samples.add(&id, &both, TTL_MS + 1_000);
        let (latency, sizes) = samples.of("dep-a", TTL_MS + 1_000);
        assert_eq!((latency.len(), sizes.len()), (1, 1));
        samples.prune(3 * TTL_MS);
        assert!(samples.latency.is_empty() && samples.sizes.is_empty());
    }
}
