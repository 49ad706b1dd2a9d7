//! Where log lines go.
use std::io::IsTerminal;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// Writes log lines to stderr. `asked` is what `ONEGATE_LOG` says (`debug`, `warn`, `info,request=off`); what
/// cannot be read counts as `info`, and the log says so.
pub fn begin(asked: Option<&str>) {
    let asked = asked.filter(|asked| !asked.trim().is_empty());
    let read = asked.map_or_else(|| Some(usual()), levels);
    let is_bad = read.is_none();
    let levels = read.unwrap_or_else(usual);
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false);
    // A second call (tests in one process) keeps the first subscriber.
    let _ = tracing_subscriber::registry().with(levels).with(lines).try_init();
    if is_bad {
        tracing::warn!("ONEGATE_LOG cannot be read: give off, error, warn, info, debug or trace; now info");
    }
}

fn usual() -> Targets {
    Targets::new().with_default(LevelFilter::INFO)
}

/// Stricter than the library, which takes a misspelt level for the name of a target and silences all else.
fn levels(asked: &str) -> Option<Targets> {
    let is_level = |part: &str| {
        let level = part.rsplit_once('=').map_or(part, |(_, level)| level);
        level.trim().parse::<LevelFilter>().is_ok()
    };
    asked.split(',').all(is_level).then(|| asked.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::levels;

    #[test]
    fn a_misspelt_level_is_not_taken_for_a_target() {
        for good in ["info", "debug", "warn,request=off", "off"] {
            assert!(levels(good).is_some(), "{good}");
        }
        for bad in ["inf", "blah", "info,request=of"] {
            assert!(levels(bad).is_none(), "{bad}");
        }
    }
}
