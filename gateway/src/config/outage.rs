//! `onegate_settings.ledger.on_outage`: one word for limits and budgets, or a map with a word for each.
use super::keys;
use super::known;
use super::problem::Problems;
use super::read::{Field, Section};
use super::tree::Value;
use crate::catalog::Outage;
use ledger::OnOutage;

const WORDS: [(&str, OnOutage); 3] =
    [("local", OnOutage::Local), ("deny", OnOutage::Deny), ("allow", OnOutage::Allow)];

/// What is done while the shared ledger is away; without the key `local` for both.
pub(super) fn read(ledger: &Section<'_>, problems: &mut Problems) -> Outage {
    ledger.read("on_outage", outage, problems).unwrap_or_default()
}

fn outage(field: &Field<'_>, problems: &mut Problems) -> Option<Outage> {
    if !matches!(field.node.value, Value::Map(_)) {
        let both = word(field, problems)?;
        return Some(Outage { limits: both, budgets: both });
    }
    let each = field.section(problems)?;
    known::check(&each, &keys::ON_OUTAGE, problems);
    Some(Outage {
        limits: each.read("limits", word, problems).unwrap_or_default(),
        budgets: each.read("budgets", word, problems).unwrap_or_default(),
    })
}

fn word(field: &Field<'_>, problems: &mut Problems) -> Option<OnOutage> {
    let text = field.text(problems)?;
    let known = WORDS.iter().find(|(word, _)| *word == text);
    if known.is_none() {
        let words = WORDS.map(|(word, _)| word);
        let near = known::nearest(text, words.into_iter());
        let near = near.filter(|(near, distance)| known::is_near(near, *distance));
        let nearest = near.map_or_else(String::new, |(near, _)| format!("; the nearest is {near}"));
        let problem = field.error(format!("`{}` must say what is done while Redis is away", field.key));
        let map = if field.key == "on_outage" { ", or a map of `limits` and `budgets`" } else { "" };
        problems.push(problem.allowed(format!("one of {}{map}{nearest}", words.join(", "))));
    }
    known.map(|(_, policy)| *policy)
}
