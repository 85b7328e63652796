//! The subject of an event: a job, an execution or a node, and the states before and after.

use api_types::JobId;
use api_types::history::NodeStateType;
use rusqlite::Row;
use scheduler::change::EventSubject;

use super::row::{Id, bad_record, compute_state, job_state};
use crate::store::StoreError;

/// In the column `job` of an event of a node that is not forgotten.
pub(super) const OF_KNOWN: i64 = 0;

/// The number that stands for a state in the columns `previous` and `new`.
pub(super) const fn node_state_code(state: NodeStateType) -> i64 {
    match state {
        NodeStateType::Unknown => 0,
        NodeStateType::Connected => 1,
        NodeStateType::Disconnected => 2,
        NodeStateType::Pending => 3,
        NodeStateType::Approved => 4,
        NodeStateType::Rejected => 5,
        NodeStateType::Eligible => 6,
        NodeStateType::Cordoned => 7,
        NodeStateType::Draining => 8,
        NodeStateType::Drained => 9,
        NodeStateType::Healthy => 10,
        NodeStateType::BackingOff => 11,
        NodeStateType::Probing => 12,
        NodeStateType::Stalled => 13,
    }
}

fn node_state(code: i64) -> Result<NodeStateType, StoreError> {
    NodeStateType::ALL
        .iter()
        .copied()
        .find(|state| node_state_code(*state) == code)
        .ok_or_else(|| bad_record(format!("NodeState {code}")))
}

/// Reads the columns `previous`, `new`, `execution` and `node`, which are 4 to 7.
pub(super) fn read_subject(row: &Row<'_>, job: Option<JobId>) -> Result<EventSubject, StoreError> {
    let (previous, new) = (row.get(4)?, row.get(5)?);
    match (job, Id::get_option(row, 6)?, Id::get_option(row, 7)?) {
        (Some(job), None, None) => {
            Ok(EventSubject::Job { job, previous: job_state(previous)?, new: job_state(new)? })
        }
        (Some(job), Some(id), Some(node)) => {
            let (previous, new) = (compute_state(previous)?, compute_state(new)?);
            Ok(EventSubject::Execution { job, id, node, previous, new })
        }
        (None, None, Some(node)) => {
            let (previous, new) = (node_state(previous)?, node_state(new)?);
            Ok(EventSubject::Node { node, previous, new })
        }
        (None, _, _) | (Some(_), None, Some(_)) | (Some(_), Some(_), None) => {
            Err(bad_record("an event that belongs to neither a job, an execution nor a node"))
        }
    }
}
