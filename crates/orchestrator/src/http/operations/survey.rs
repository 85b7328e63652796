//! Questions to the scheduler that look at every node: explanations, dry runs, and what waits.
//!
//! The scheduler answers nothing else while it looks, and with ten thousand nodes that takes it tens
//! of milliseconds; to write the answer takes as long again. So callers take turns, and after each
//! answer the scheduler is left to others for several times as long.

use std::time::{Duration, Instant};

use scheduler::Scheduler;
use tokio::runtime::Handle;

use crate::driver::CallError;
use crate::http::api::Api;
use crate::http::error::Failure;
use crate::shares::Owner;
use crate::shares::permit_queue::QueuedPermit;

/// How long a caller waits for its turn.
const TURN_TIMEOUT: Duration = Duration::from_secs(10);

/// How many times as long as an answer took its turn lasts after it.
const PAUSE_PER_ANSWER: u32 = 4;

/// A caller's turn, which it keeps until its answer is written.
pub(super) struct Turn {
    permit: Option<QueuedPermit>,
    /// How long the scheduler looked.
    took: Duration,
}

pub(super) async fn ask<T: Send + 'static>(
    api: &Api,
    question: impl FnOnce(&Scheduler) -> T + Send + 'static,
) -> Result<(T, Turn), Failure> {
    let owner = Owner::current();
    let permit = tokio::time::timeout(TURN_TIMEOUT, api.pools.surveys.take(&owner));
    let permit = permit.await.map_err(|_| CallError::QueueFull)?.map_err(Failure::from)?;
    let timed = move |scheduler: &Scheduler| {
        let begin = Instant::now();
        (question(scheduler), begin.elapsed())
    };
    let (answer, took) = api.handle.ask(timed).await?;
    Ok((answer, Turn { permit: Some(permit), took }))
}

// === impl Turn ===

impl Drop for Turn {
    fn drop(&mut self) {
        let (permit, pause) = (self.permit.take(), self.took * PAUSE_PER_ANSWER);
        // A service that stops needs no pauses.
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(async move {
                tokio::time::sleep(pause).await;
                drop(permit);
            });
        }
    }
}
