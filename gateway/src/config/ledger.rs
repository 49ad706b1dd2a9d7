//! What `onegate_settings.ledger` says besides where the ledger is.
use super::known;
use super::outage;
use super::problem::Problems;
use super::read::{Field, Section};
use crate::catalog::{Outage, TpmHold};

const NAMES: [(&str, TpmHold); 2] = [("input", TpmHold::Input), ("expected", TpmHold::Expected)];

/// `tpm_hold`. That the section is one is checked where its other keys are read.
pub(super) fn tpm_hold(onegate: &Section<'_>, problems: &mut Problems) -> TpmHold {
    let ledger = onegate.section("ledger", &mut Problems::default());
    ledger.read("tpm_hold", named, problems).unwrap_or_default()
}

/// `on_outage`. The section as above.
pub(super) fn outage(onegate: &Section<'_>, problems: &mut Problems) -> Outage {
    outage::read(&onegate.section("ledger", &mut Problems::default()), problems)
}

fn named(field: &Field<'_>, problems: &mut Problems) -> Option<TpmHold> {
    let text = field.text(problems)?;
    let hold = NAMES.into_iter().find_map(|(name, hold)| (name == text).then_some(hold));
    if hold.is_none() {
        let names = NAMES.map(|(name, _)| name);
        let near = known::nearest(text, names.into_iter());
        let near = near.filter(|(_, distance)| known::is_near(text, *distance));
        let nearest = near.map_or_else(String::new, |(near, _)| format!("; the nearest is {near}"));
        let allowed = format!("one of {}{nearest}", names.join(", "));
        problems.push(field.error(format!("unknown `{}`", field.key)).allowed(allowed));
    }
    hold
}
