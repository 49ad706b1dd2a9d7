//! What the program tells of itself: metrics and log lines. Names of metrics stand here and nowhere else.
mod log;
mod metrics;

pub use log::begin as begin_log;
pub use metrics::Metrics;
