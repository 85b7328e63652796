//! The subject of an event: a job, an execution or a node, and the states before and after.

use api_types::JobId;
use api_types::history::NodeStateType;
use scheduler::change::EventSubject;

use super::{Columns, Id, bad_record, compute_state, job_state, job_state_code};
use crate::store::StoreError;

/// In the column `job` of an event of a node that is not forgotten.
pub(in crate::store) const OF_KNOWN: i64 = 0;

/// The same of one that is forgotten.
pub(in crate::store) const OF_FORGOTTEN: i64 = -1;

/// The columns of an event's subject except that of its job.
pub(in crate::store) struct SubjectColumns {
    pub(in crate::store) previous: i64,
    pub(in crate::store) new: i64,
    pub(in crate::store) execution: Option<[u8; 16]>,
    pub(in crate::store) node: Option<[u8; 16]>,
}

/// The number that stands for a state in the columns `previous` and `new`.
const fn node_state_code(state: NodeStateType) -> i64 {
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

pub(in crate::store) fn columns(subject: &EventSubject) -> SubjectColumns {
    match *subject {
        EventSubject::Job { job: _, previous, new } => SubjectColumns {
            previous: job_state_code(previous),
            new: job_state_code(new),
            execution: None,
            node: None,
        },
        EventSubject::Execution { job: _, id, node, previous, new } => SubjectColumns {
            previous: u8::from(previous).into(),
            new: u8::from(new).into(),
            execution: Some(id.bytes()),
            node: Some(node.bytes()),
        },
        EventSubject::Node { node, previous, new } => SubjectColumns {
            previous: node_state_code(previous),
            new: node_state_code(new),
            execution: None,
            node: Some(node.bytes()),
        },
    }
}

/// Reads the columns `previous`, `new`, `execution` and `node`, which are 4 to 7.
pub(in crate::store) fn read_subject(
    row: &impl Columns,
    job: Option<JobId>,
) -> Result<EventSubject, StoreError> {
    let (previous, new) = (row.value(4)?, row.value(5)?);
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
