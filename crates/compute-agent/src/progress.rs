//! How far a step is, told to the user when the step takes long.
//!
//! What is told becomes an event of the execution's history, so it is rare: first after some
//! seconds, then at growing intervals, and only what is new.

use std::future::Future;
use std::time::Duration;

use api_types::ExecutionId;

use crate::execution::Event;
use crate::supervisor::Mailbox;

/// Most steps are done by then, and nothing is told of them.
const FIRST: Duration = Duration::from_secs(5);

/// An hour of fetching leaves about sixty events.
const LONGEST: Duration = Duration::from_secs(60);

/// The way to the history of one execution.
#[derive(Debug, Clone)]
pub(crate) struct Progress {
    to: Option<(ExecutionId, Mailbox)>,
}

// === impl Progress ===

impl Progress {
    pub(crate) fn new(id: ExecutionId, mailbox: Mailbox) -> Self {
        Self { to: Some((id, mailbox)) }
    }

    /// Tells nobody.
    #[cfg(test)]
    pub(crate) fn silent() -> Self {
        Self { to: None }
    }

    /// Does the work, and tells `how_far` it is while that takes long.
    pub(crate) async fn during<T>(
        &self,
        work: impl Future<Output = T>,
        how_far: impl Fn() -> String,
    ) -> T {
        let mut work = std::pin::pin!(work);
        let (mut wait, mut told) = (FIRST, String::new());
        loop {
            match tokio::time::timeout(wait, &mut work).await {
                Ok(done) => return done,
                Err(_) => wait = (wait * 2).min(LONGEST),
            }
            let message = how_far();
            if let Some((id, mailbox)) = &self.to
                && message != told
            {
                mailbox.event(*id, Event::Progress { message: message.clone() }).await;
                told = message;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::core::Input;
    use crate::supervisor::Message;
    use crate::testing::execution_id;

    #[tokio::test(start_paused = true)]
    async fn what_takes_long_is_told_at_growing_intervals_and_only_when_it_changed() {
        let (mailbox, mut messages) = Mailbox::new();
        let progress = Progress::new(execution_id(1), mailbox);
        let start = tokio::time::Instant::now();
        let asked = Cell::new(0);
        let how_far = || {
            asked.set(asked.get() + 1);
            // The second and the third look see the same.
            let seen = if asked.get() == 3 { 2 } else { asked.get() };
            format!("{seen} at {} s", if seen == 2 { 15 } else { start.elapsed().as_secs() })
        };
        let work = tokio::time::sleep(Duration::from_secs(140));
        progress.during(work, how_far).await;
        drop(progress);
        let mut told = Vec::new();
        while let Some(Message::Core(Input::Event(id, Event::Progress { message }))) =
            messages.recv().await
        {
            assert_eq!(id, execution_id(1));
            told.push(message);
        }
        assert_eq!(told, ["1 at 5 s", "2 at 15 s", "4 at 75 s", "5 at 135 s"]);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_done_soon_is_not_told() {
        let (mailbox, mut messages) = Mailbox::new();
        let progress = Progress::new(execution_id(1), mailbox);
        let work = async {
            tokio::time::sleep(FIRST - Duration::from_millis(1)).await;
            "done"
        };
        assert_eq!(progress.during(work, || panic!("nobody is to be told")).await, "done");
        drop(progress);
        assert!(messages.recv().await.is_none());
    }
}
