//! Calls that a request waits for, other than reservations: bounded in number and time, asked once more where the
//! connection broke. Only for calls that may run twice without harm.
use super::Shared;
use super::connect::missed;
use super::outage::Line;
use super::scripts::Call;
use redis::FromRedisValue;
use tokio::sync::SemaphorePermit;
use tokio::time::timeout_at;

/// The answer; `None` where Redis gave none in time, and then it is unknown whether the call ran.
pub(super) async fn awaited<T: FromRedisValue>(shared: &Shared, call: &Call<'_>) -> Option<T> {
    let _permit = permit(shared).await?;
    let mut line = shared.lines()?.reserve;
    let deadline = shared.clock.instant() + shared.deadline;
    let asked = async {
        match call.send(&mut line).await {
            Err(error) if error.is_unrecoverable_error() => {
                // The master of a cluster that failed once is out until it was checked, so the second answer hides why.
                if shared.home.is_sharded() {
                    shared.breaker.doubt(Line::Reserve, &error);
                }
                call.send(&mut line).await
            }
            answer => answer,
        }
    };
    match timeout_at(deadline, asked).await.unwrap_or_else(|_| Err(missed())) {
        Ok(answer) => {
            shared.breaker.answered(Line::Reserve);
            Some(answer)
        }
        Err(error) => {
            shared.breaker.doubt(Line::Reserve, &error);
            None
        }
    }
}

/// The right to have a call in flight; none where Redis is away, even if it goes away while this one waits.
pub(super) async fn permit(shared: &Shared) -> Option<SemaphorePermit<'_>> {
    if shared.breaker.is_away() {
        return None;
    }
    if let Ok(permit) = shared.in_flight.try_acquire() {
        return Some(permit);
    }
    tokio::select! {
        permit = shared.in_flight.acquire() => permit.ok().filter(|_| !shared.breaker.is_away()),
        () = shared.breaker.until_away() => None,
    }
}
