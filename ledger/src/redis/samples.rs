//! Samples on their way to Redis and back: what this replica saw and has not written, and the texts that lie there,
//! the samples of a deployment one after the other with a space between.
use crate::samples::{Kind, Latency, Recent, Sample, Sizes};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Arc;

/// Samples of one deployment that were not written yet.
#[derive(Debug, Clone, Default)]
pub(super) struct UnsentOfOne {
    pub(super) latency: Vec<Latency>,
    pub(super) sizes: Vec<Sizes>,
}

/// All that were not written yet. Bounded however long Redis is away: no more are kept than would be there.
#[derive(Debug, Default)]
pub(super) struct UnsentSamples(HashMap<Arc<str>, UnsentOfOne>);

impl UnsentSamples {
    pub(super) fn add(&mut self, id: &Arc<str>, sample: &Sample) {
        if *sample != Sample::default() {
            let unsent = self.0.entry(Arc::clone(id)).or_default();
            push(&mut unsent.latency, sample.latency);
            push(&mut unsent.sizes, sample.sizes);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn take(&mut self) -> Vec<(Arc<str>, UnsentOfOne)> {
        self.0.drain().collect()
    }

    /// Samples that surely were not written. Those that came meanwhile are newer.
    pub(super) fn put_back(&mut self, id: Arc<str>, older: UnsentOfOne) {
        let unsent = self.0.entry(id).or_default();
        let newer = std::mem::replace(unsent, older);
        newer.latency.into_iter().for_each(|item| push(&mut unsent.latency, Some(item)));
        newer.sizes.into_iter().for_each(|item| push(&mut unsent.sizes, Some(item)));
    }

    /// What lies in Redis, and after it what this replica has not written there.
    pub(super) fn with(
        &self,
        id: &str,
        latency: Option<&str>,
        sizes: Option<&str>,
    ) -> (Recent<Latency>, Recent<Sizes>) {
        let (latency, sizes) = (read(latency.unwrap_or_default()), read(sizes.unwrap_or_default()));
        match self.0.get(id) {
            Some(unsent) => (latency.and(&unsent.latency), sizes.and(&unsent.sizes)),
            None => (latency, sizes),
        }
    }
}

fn push<T: Kind>(items: &mut Vec<T>, item: Option<T>) {
    if let Some(item) = item {
        if items.len() >= T::KEPT {
            items.remove(0);
        }
        items.push(item);
    }
}

/// The text for these samples.
pub(super) fn write<T: Kind>(items: &[T]) -> String {
    let mut text = String::with_capacity(items.len() * 16);
    for item in items {
        // Writing to a text never fails.
        let _ = write!(text, "{}{item}", if text.is_empty() { "" } else { " " });
    }
    text
}

/// What can be read of a text. The rest is left out: nothing depends on a single sample.
fn read<T: Kind>(text: &str) -> Recent<T> {
    let items: Vec<T> = text.split(' ').filter_map(|item| item.parse().ok()).collect();
    Recent::of(&items)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(estimated: u64) -> Sizes {
        Sizes { estimated, input: 2, output: 3 }
    }

    #[test]
    fn what_is_written_is_read_again() {
        let items = [sizes(1), sizes(20)];
        assert_eq!(write(&items), "1/2/3 20/2/3");
        assert_eq!(*read::<Sizes>(&write(&items)), items);
        assert_eq!(write::<Sizes>(&[]), "");
    }

    #[test]
    fn what_is_malformed_is_left_out() {
        assert_eq!(*read::<Sizes>("x 1/2/3  1/2 {} \u{fffd} 4/2/3 5/2/3/4"), [sizes(1), sizes(4)]);
    }

    #[test]
    fn what_is_unsent_is_newer_than_what_lies_there_and_bounded() {
        let (mut unsent, id) = (UnsentSamples::default(), Arc::from("a"));
        for estimated in 0..60 {
            unsent.add(&id, &Sample { sizes: Some(sizes(estimated)), latency: None });
        }
        assert_eq!(unsent.0["a"].sizes.len(), 50);
        let (latency, both) = unsent.with("a", Some("7 timeout"), Some("99/2/3"));
        assert_eq!(latency.len(), 2);
        assert_eq!((both.len(), both[0], both[49]), (50, sizes(10), sizes(59)));
        assert_eq!(unsent.with("b", None, Some("99/2/3")).1.len(), 1);
    }

    #[test]
    fn what_is_put_back_stands_before_what_came_meanwhile() {
        let (mut unsent, id) = (UnsentSamples::default(), Arc::from("a"));
        unsent.add(&id, &Sample { sizes: Some(sizes(1)), latency: Some(Latency::TimedOut) });
        let taken = unsent.take();
        assert!(unsent.is_empty());
        unsent.add(&id, &Sample { sizes: Some(sizes(2)), latency: None });
        taken.into_iter().for_each(|(id, older)| unsent.put_back(id, older));
        assert_eq!(unsent.0["a"].sizes, [sizes(1), sizes(2)]);
        assert_eq!(unsent.0["a"].latency, [Latency::TimedOut]);
    }
}
