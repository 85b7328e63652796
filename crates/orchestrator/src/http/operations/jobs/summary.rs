//! Jobs as a list shows them.

use api_types::Timestamp;
use api_types::job::{JobSpec, JobState, JobStateType, JobType};
use api_types::summary::{ExecutionCounts, JobSummary};
use control_plane::store::StoredSummary;
use scheduler::demand::Demand;

use crate::view::View;

/// A job as a summary renders it.
pub(in crate::http::operations) fn summary(stored: StoredSummary, view: &View) -> JobSummary {
    let message = match waits(&stored, view) {
        Some(waits) => waits,
        None => stored.message,
    };
    let is_over = stored.state.is_terminal();
    let (total, running, completed) = (stored.slots, stored.running, stored.completed);
    let others = completed.saturating_add(running).saturating_add(stored.failed_slots);
    let waiting = if is_over { 0 } else { total.saturating_sub(others) };
    JobSummary {
        id: stored.id,
        name: stored.name,
        namespace: stored.namespace,
        job_type: stored.job_type,
        priority: stored.priority,
        labels: stored.labels,
        state: JobState {
            failed_count: stored.failed_slots,
            ..JobState::new(stored.state, message)
        },
        executions: ExecutionCounts { total, waiting, running, completed, failed: stored.failed },
        version: stored.version,
        revision: stored.revision,
        create_time: stored.create_time,
        modify_time: stored.modify_time,
        start_time: stored.start_time.unwrap_or(Timestamp::ZERO),
        // Nothing changes the record of a job that is over.
        end_time: if is_over { stored.modify_time } else { Timestamp::ZERO },
    }
}

/// Why a queued job waits now; see [`super::record`]. One with a large specification shows why it
/// began to wait.
fn waits(stored: &StoredSummary, view: &View) -> Option<String> {
    if stored.state != JobStateType::Queued
        || !matches!(stored.job_type, JobType::Batch | JobType::Service)
    {
        return None;
    }
    let demand = match view.specs().get(stored.id, stored.version) {
        Some(spec) => Demand::from_spec(&spec),
        None => {
            Demand::from_spec(&serde_json::from_str::<JobSpec>(stored.queued_spec.as_ref()?).ok()?)
        }
    };
    Some(view.explanation(&stored.namespace, demand.ok()?)?.as_ref().to_owned())
}
