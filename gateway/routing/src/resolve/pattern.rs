//! A group's name with stars, matched against whole names.
use std::sync::Arc;

/// `openai/*`: each star stands for any text, also for none. (LiteLLM anchors only the start; the design asks
/// for whole names, so that `*-mini` does not take `gpt-4o-mini-2024`.)
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pattern(Arc<str>);

impl Pattern {
    pub(super) fn new(name: Arc<str>) -> Self {
        Self(name)
    }

    /// How much of it is literal text.
    pub(super) fn literal_chars(&self) -> usize {
        self.0.chars().filter(|&letter| letter != '*').count()
    }

    /// A lone star.
    pub(super) fn matches_all(&self) -> bool {
        &*self.0 == "*"
    }

    /// What each star caught if the whole name matches. Earlier stars catch as much as they can: setting each
    /// literal as far right as it goes, from the last to the first, says the same without going back.
    pub(super) fn catch<'n>(&self, name: &'n str) -> Option<Vec<&'n str>> {
        let (first, inner_and_last) = self.0.split_once('*')?;
        let mut rest = name.strip_prefix(first)?;
        let mut from_right = inner_and_last.rsplit('*');
        rest = rest.strip_suffix(from_right.next()?)?;
        let mut caught = Vec::new();
        for literal in from_right {
            let at = rest.rfind(literal)?;
            caught.push(&rest[at + literal.len()..]);
            rest = &rest[..at];
        }
        caught.push(rest);
        caught.reverse();
        Some(caught)
    }
}
