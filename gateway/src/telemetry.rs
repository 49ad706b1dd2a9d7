//! What the program tells of itself: metrics, and one log line a request. Names stand here and nowhere else.
mod line;
mod log;
mod metrics;

pub use line::Line;
pub use log::begin as begin_log;
pub use metrics::Metrics;
