//! Where the executions of a job are found: by their first events, or in blocks by index.

use api_types::history::EventType;
use api_types::{ExecutionId, JobId, Timestamp};
use control_plane::store::{EventEntry, EventsQuery, ExecutionPosition, Namespaces, Reads};
use scheduler::change::EventSubject;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::reads::ReadError;

/// Events examined in one read of the store, which takes about 2 ms. A read that finds more leaves the
/// rest to the next one, so that a job with a million executions keeps no one else from reading.
pub(super) const EVENTS_AT_ONCE: u32 = 1000;

/// The revision of an execution's first event.
const FIRST_REVISION: u64 = 1;

/// Where further executions may come from.
pub(super) enum Search {
    Over,
    /// All that there are, in blocks by index; `after` the last one of the former block.
    Blocks {
        job: JobId,
        after: Option<ExecutionPosition>,
    },
    Of {
        job: JobId,
        /// The sequence up to which the job's events were examined.
        after: u64,
        /// The sequence of the last event when the reader came; `None` until the first read.
        /// Executions that began later join in.
        existing: Option<u64>,
        due: Due,
    },
}

/// What one read of the store found.
pub(super) struct StoreScan {
    /// Executions, and the sequence of the first event of each.
    pub(super) executions: Vec<(ExecutionId, u64)>,
    /// The sequence up to which events were examined, and whether later ones exist.
    pub(super) through: u64,
    pub(super) more: bool,
    pub(super) existing: u64,
    pub(super) job_is_over: bool,
}

/// When the store is read next.
pub(super) enum Due {
    At(Instant),
    /// After the next commit, and not before this time.
    AfterCommit(Instant),
}

// === impl Search ===

impl Search {
    pub(super) fn begin(job: JobId) -> Self {
        Self::Of { job, after: 0, existing: None, due: Due::At(Instant::now()) }
    }
}

/// Examines the next events of the job. A job keeps all of them as long as it exists.
pub(super) fn find(
    reads: &dyn Reads,
    job: JobId,
    after: u64,
    existing: Option<u64>,
) -> Result<StoreScan, ReadError> {
    // Read the job first: a finished job gets no further executions.
    let job_is_over = reads.summary(job)?.is_none_or(|job| job.state.is_terminal());
    let existing = existing.map_or_else(|| reads.last_event(), Ok)?;
    let page = reads.events(&EventsQuery {
        after,
        job: Some(job),
        namespaces: Namespaces::All,
        event_type: Some(EventType::ExecutionLevel),
        since: Timestamp::ZERO,
        limit: EVENTS_AT_ONCE,
    })?;
    let first = |entry| match entry {
        EventEntry::Event(event) if event.revision == FIRST_REVISION => match event.subject {
            EventSubject::Execution { id, .. } => Some((id, event.seq)),
            EventSubject::Job { .. } | EventSubject::Node { .. } => None,
        },
        EventEntry::Event(_) | EventEntry::Gap { .. } => None,
    };
    let executions = page.entries.into_iter().filter_map(first).collect();
    Ok(StoreScan { executions, through: page.through, more: page.more, existing, job_is_over })
}

/// Returns when the store is due to be read. Cancel safe.
pub(super) async fn due(search: &mut Search, commits: &mut watch::Receiver<u64>) {
    let Search::Of { due, .. } = search else { return std::future::pending().await };
    if let Due::AfterCommit(earliest) = *due {
        // The sender lives as long as the service.
        if commits.changed().await.is_err() {
            return std::future::pending().await;
        }
        *due = Due::At(earliest);
    }
    if let Due::At(moment) = *due {
        tokio::time::sleep_until(moment).await;
    }
}
