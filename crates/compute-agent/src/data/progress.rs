//! Progress of a step, reported to the user when the step takes long.
//!
//! Every report becomes an event of the execution's history, so reports are rare: the first after
//! some seconds, then at growing intervals, and only when the text has changed.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use api_types::ExecutionId;
use futures_util::future::BoxFuture;

/// Most steps are done by then, and report nothing.
const FIRST: Duration = Duration::from_secs(5);

/// An hour of fetching produces about sixty events.
const LONGEST: Duration = Duration::from_secs(60);

/// Accepts progress messages for the histories of executions.
pub(crate) trait ProgressSink: fmt::Debug + Send + Sync {
    /// Returns when the message is queued; a full sink makes the sender wait.
    fn progress(&self, id: ExecutionId, message: String) -> BoxFuture<'_, ()>;
}

/// Reports progress of one execution.
#[derive(Debug, Clone)]
pub(crate) struct Progress {
    to: Option<(ExecutionId, Arc<dyn ProgressSink>)>,
}

// === impl Progress ===

impl Progress {
    pub(crate) fn new(id: ExecutionId, sink: Arc<dyn ProgressSink>) -> Self {
        Self { to: Some((id, sink)) }
    }

    /// Discards all reports.
    #[cfg(test)]
    pub(crate) fn silent() -> Self {
        Self { to: None }
    }

    /// Reports something immediately.
    pub(crate) async fn tell(&self, message: String) {
        if let Some((id, sink)) = &self.to {
            sink.progress(*id, message).await;
        }
    }

    /// Runs the work, and reports `progress_text` while it takes long.
    pub(crate) async fn during<T>(
        &self,
        work: impl Future<Output = T>,
        progress_text: impl Fn() -> String,
    ) -> T {
        let mut work = std::pin::pin!(work);
        let (mut wait, mut reported) = (FIRST, String::new());
        loop {
            match tokio::time::timeout(wait, &mut work).await {
                Ok(done) => return done,
                Err(_) => wait = (wait * 2).min(LONGEST),
            }
            let message = progress_text();
            if let Some((id, sink)) = &self.to
                && message != reported
            {
                sink.progress(*id, message.clone()).await;
                reported = message;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::Mutex;

    use futures_util::future::{FutureExt, ready};

    use super::*;
    use crate::testing::execution_id;

    #[derive(Debug, Default)]
    struct Recorded(Mutex<Vec<(ExecutionId, String)>>);

    impl ProgressSink for Recorded {
        fn progress(&self, id: ExecutionId, message: String) -> BoxFuture<'_, ()> {
            self.0.lock().unwrap().push((id, message));
            ready(()).boxed()
        }
    }

    impl Recorded {
        fn take(&self) -> Vec<(ExecutionId, String)> {
            std::mem::take(&mut self.0.lock().unwrap())
        }
    }

    #[tokio::test(start_paused = true)]
    async fn long_work_is_reported_at_growing_intervals_and_only_on_changes() {
        let sink = Arc::new(Recorded::default());
        let progress = Progress::new(execution_id(1), sink.clone());
        let start = tokio::time::Instant::now();
        let asked = Cell::new(0);
        let progress_text = || {
            asked.set(asked.get() + 1);
            // The second and the third poll see the same text.
            let seen = if asked.get() == 3 { 2 } else { asked.get() };
            format!("{seen} at {} s", if seen == 2 { 15 } else { start.elapsed().as_secs() })
        };
        let work = tokio::time::sleep(Duration::from_secs(140));
        progress.during(work, progress_text).await;
        let expected = ["1 at 5 s", "2 at 15 s", "4 at 75 s", "5 at 135 s"];
        assert_eq!(sink.take(), expected.map(|message| (execution_id(1), message.to_owned())));
    }

    #[tokio::test(start_paused = true)]
    async fn short_work_is_not_reported() {
        let sink = Arc::new(Recorded::default());
        let progress = Progress::new(execution_id(1), sink.clone());
        let work = async {
            tokio::time::sleep(FIRST - Duration::from_millis(1)).await;
            "done"
        };
        assert_eq!(progress.during(work, || panic!("short work is not reported")).await, "done");
        assert_eq!(sink.take(), []);
    }
}
