//! How many requests run: from the moment they have arrived whole until their answer is handed over.
use tokio::sync::watch;

/// Counts the requests that run.
#[derive(Debug, Clone)]
pub struct Running(watch::Sender<usize>);

/// One request that runs; it ends with this.
#[derive(Debug)]
pub struct Run(watch::Sender<usize>);

impl Running {
    /// None runs yet.
    #[must_use]
    pub fn new() -> Self {
        Self(watch::Sender::new(0))
    }

    /// A request begins.
    #[must_use]
    pub fn begin(&self) -> Run {
        self.0.send_modify(|count| *count += 1);
        Run(self.0.clone())
    }

    /// Waits until none runs.
    pub async fn none(&self) {
        // The sender lives as long as this value, so the wait cannot fail.
        let _ = self.0.subscribe().wait_for(|count| *count == 0).await;
    }
}

impl Default for Running {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}
