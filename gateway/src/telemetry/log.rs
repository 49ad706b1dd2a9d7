//! Where log lines go.
use std::io::IsTerminal;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// Writes log lines to stderr. `levels` is what `ONEGATE_LOG` says (`debug`, `warn`, `info,request=off`); what
/// cannot be read counts as `info`.
pub fn begin(levels: Option<&str>) {
    let levels = levels.and_then(|levels| levels.parse().ok());
    let levels: Targets = levels.unwrap_or_else(|| Targets::new().with_default(tracing::Level::INFO));
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false);
    // A second call (tests in one process) keeps the first subscriber.
    let _ = tracing_subscriber::registry().with(levels).with(lines).try_init();
}
