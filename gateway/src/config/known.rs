//! The keys that a config may have: those we act on, and those that LiteLLM knows and we do not act on.
use super::problem::{Problem, Problems};
use super::read::{Field, Section};
use super::secrets;
use super::tree::Value;

/// A section's keys, as words of a text.
pub(super) struct Keys {
    /// Those that change something here.
    pub(super) acted: &'static str,
    /// Those that are accepted with a warning, so that a LiteLLM file starts.
    pub(super) ignored: &'static str,
}

impl Keys {
    /// Whether it changes something here.
    pub(super) fn acts_on(&self, key: &str) -> bool {
        self.acted.split_ascii_whitespace().any(|known| known == key)
    }

    /// Whether it is accepted with a warning.
    pub(super) fn ignores(&self, key: &str) -> bool {
        self.ignored.split_ascii_whitespace().any(|known| known == key)
    }

    /// The known key that is nearest, and how far it is. Swapped neighbours are one step.
    pub(super) fn nearest(&self, key: &str) -> Option<(&'static str, usize)> {
        nearest(key, self.acted.split_ascii_whitespace().chain(self.ignored.split_ascii_whitespace()))
    }
}

/// The nearest of these names, and how far it is.
pub(super) fn nearest<'n>(name: &str, names: impl Iterator<Item = &'n str>) -> Option<(&'n str, usize)> {
    names.map(|known| (known, strsim::osa_distance(name, known))).min_by_key(|(_, distance)| *distance)
}

/// Whether a name so far away may still have been meant.
pub(super) fn is_near(name: &str, distance: usize) -> bool {
    distance <= 2.max(name.chars().count() / 3)
}

/// Reports the keys that are not known, and warns of those that change nothing.
pub(super) fn check(section: &Section<'_>, keys: &Keys, problems: &mut Problems) {
    check_fields(section.keys(), keys, problems);
}

/// The same for some of a section's keys.
pub(super) fn check_fields<'t>(
    fields: impl Iterator<Item = Field<'t>>,
    keys: &Keys,
    problems: &mut Problems,
) {
    for field in fields {
        if keys.acts_on(field.key) {
            continue;
        }
        if keys.ignores(field.key) {
            // Without a value it changes nothing in LiteLLM either.
            if !matches!(field.node.value, Value::Null) {
                problems.push(ignored(&field));
            }
        } else {
            problems.push(unknown(&field, keys));
        }
    }
}

/// The warning that a known key changes nothing.
pub(super) fn ignored(field: &Field<'_>) -> Problem {
    let key = secrets::shown_key(field.key);
    Problem::warning(format!("`{key}` is known to LiteLLM, not acted on"), field.key_place, &field.path)
}

/// The refusal of an unknown key.
pub(super) fn unknown(field: &Field<'_>, keys: &Keys) -> Problem {
    let shown = secrets::shown_key(field.key);
    let nearest = keys.nearest(field.key).filter(|(_, distance)| is_near(field.key, *distance));
    let home = super::keys::HOMES.iter().find(|(_, home)| home.acts_on(field.key));
    let allowed = match (nearest, home) {
        _ if shown != field.key => "a known key, and a space after its colon".to_owned(),
        (Some((near, 0..=2)), _) | (Some((near, _)), None) => {
            format!("a known key; the nearest is `{near}`")
        }
        (_, Some((home, _))) => format!("`{shown}` belongs in {home}"),
        (None, None) if keys.acted.split_ascii_whitespace().count() <= 8 => {
            let all: Vec<_> = keys.acted.split_ascii_whitespace().collect();
            format!("one of {}", all.join(", "))
        }
        (None, None) => "a known key; none is near".to_owned(),
    };
    let meant_secret = nearest.is_some_and(|(near, _)| secrets::is_secret_key(near));
    let problem = Problem::error(format!("unknown key `{shown}`"), field.key_place, &field.path);
    problem.found(found(field, meant_secret)).allowed(allowed)
}

/// An unknown key may hold anything, a credential too: only numbers and flags are shown.
fn found(field: &Field<'_>, meant_secret: bool) -> String {
    match &field.node.value {
        Value::Scalar(_) if meant_secret => secrets::HIDDEN.to_owned(),
        Value::Scalar(scalar) if scalar.text.len() <= 8 => {
            let harmless =
                super::number::decimal(&scalar.text).is_some() || super::number::flag(&scalar.text).is_some();
            if harmless { field.found() } else { field.node.kind().to_owned() }
        }
        Value::Null | Value::Scalar(_) | Value::List(_) | Value::Map(_) | Value::Broken => {
            field.node.kind().to_owned()
        }
    }
}
