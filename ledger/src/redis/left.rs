//! Callers that leave while Redis decides. The call is carried to its end, and what it was granted is given back: else
//! a client that hangs up would take its slot along, and with it the right to try a deployment on probation.
use super::{Shared, reserve};
use crate::ledger::{Reserve, Reserved};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tokio::time::timeout_at;

/// Calls whose callers have left. Each ends within the deadline of its calls.
#[derive(Debug, Default)]
pub(super) struct Left(Mutex<JoinSet<()>>);

impl Left {
    fn carry(&self, shared: Arc<Shared>, call: Call, runtime: &Handle) {
        let mut carried = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while carried.try_join_next().is_some() {}
        let carry = async move {
            if let Reserved::Granted { hold, .. } = call.await {
                shared.void(&hold);
            }
        };
        carried.spawn_on(carry, runtime);
    }

    /// Waits for those that are under way, as long as a call may take.
    pub(super) async fn end(&self, shared: &Shared) {
        let mut carried = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        let ends = async { while carried.join_next().await.is_some() {} };
        // Elapsed: a slot that stays taken until its minute ends.
        let _ = timeout_at(shared.clock.instant() + shared.deadline, ends).await;
    }
}

type Call = Pin<Box<dyn Future<Output = Reserved> + Send>>;

/// A reservation that outlives its caller.
pub(super) struct Asked {
    shared: Arc<Shared>,
    call: Option<Call>,
    /// Nothing was asked for before the first poll.
    has_begun: bool,
}

impl Asked {
    pub(super) fn new(shared: &Arc<Shared>, ask: Reserve) -> Self {
        let asks = Arc::clone(shared);
        let call = Box::pin(async move { reserve::reserve(&asks, ask).await });
        Self { shared: Arc::clone(shared), call: Some(call), has_begun: false }
    }
}

impl Future for Asked {
    type Output = Reserved;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Reserved> {
        self.has_begun = true;
        // Polled again after it was ready, which nobody may do.
        let Some(call) = &mut self.call else { return Poll::Pending };
        let reserved = std::task::ready!(call.as_mut().poll(context));
        self.call = None;
        Poll::Ready(reserved)
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        let Some(call) = self.call.take().filter(|_| self.has_begun) else { return };
        // Without a runtime the process ends, and the slot with its minute.
        let Ok(runtime) = Handle::try_current() else { return };
        self.shared.left.carry(Arc::clone(&self.shared), call, &runtime);
    }
}
