//! Questions to the scheduler that look at every node: explanations and dry runs.
//!
//! The scheduler answers nothing else while it looks, and with ten thousand nodes that takes it tens
//! of milliseconds. So callers take turns, and after each answer the scheduler is left to others for
//! several times as long.

use std::time::{Duration, Instant};

use scheduler::Scheduler;

use crate::driver::CallError;
use crate::http::api::Api;
use crate::http::error::Failure;
use crate::shares::Owner;

/// How long a caller waits for its turn.
const TURN_TIMEOUT: Duration = Duration::from_secs(10);

/// How many times as long as an answer took its turn lasts after it.
const PAUSE_PER_ANSWER: u32 = 4;

pub(super) async fn ask<T: Send + 'static>(
    api: &Api,
    question: impl FnOnce(&Scheduler) -> T + Send + 'static,
) -> Result<T, Failure> {
    let owner = Owner::current();
    let turn = tokio::time::timeout(TURN_TIMEOUT, api.pools.surveys.take(&owner));
    let turn = turn.await.map_err(|_| CallError::QueueFull)?.map_err(Failure::from)?;
    let timed = move |scheduler: &Scheduler| {
        let begin = Instant::now();
        (question(scheduler), begin.elapsed())
    };
    let (answer, took) = api.handle.ask(timed).await?;
    tokio::spawn(async move {
        tokio::time::sleep(took * PAUSE_PER_ANSWER).await;
        drop(turn);
    });
    Ok(answer)
}
