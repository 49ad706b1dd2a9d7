//! The few long-lived parts, built whole at the start. No request's state lives here.
use crate::catalog::Catalog;
use crate::providers::Transport;
use crate::running::Running;
use crate::telemetry::Metrics;
use ledger::{Clock, Ledger};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// What every request shares.
pub struct App {
    /// The compiled config.
    pub catalog: Arc<Catalog>,
    /// What the replicas share.
    pub ledger: Arc<dyn Ledger>,
    /// Where time comes from.
    pub clock: Arc<dyn Clock>,
    /// The way to the providers.
    pub transport: Transport,
    /// What is counted.
    pub metrics: Metrics,
    /// The requests that run.
    pub running: Running,
    /// Set once the process was told to end.
    pub draining: AtomicBool,
}
