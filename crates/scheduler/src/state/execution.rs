//! A live execution, and the assignment that its node receives.

use api_types::ExecutionId;
use api_types::quantity::Resources;

use crate::change::{AssignmentChange, ExecutionRow, WorkOrder};
use crate::keyed::Record;

// === impl ExecutionRow ===

impl Record for ExecutionRow {
    type Id = ExecutionId;

    fn id(&self) -> &ExecutionId {
        &self.id
    }
}

// === impl ExecutionRow ===

impl ExecutionRow {
    /// What it holds of its node.
    pub(crate) fn held(&self) -> Resources {
        match self.process_ended_at {
            None => self.resources,
            Some(_) => self.resources.without_process(),
        }
    }
}

pub(crate) fn work_order(row: &ExecutionRow, count: u32) -> WorkOrder {
    let ExecutionRow { job, version, index, resources, .. } = *row;
    WorkOrder { job, version, index, count, resources }
}

pub(crate) fn assignment(row: &ExecutionRow, work: Option<WorkOrder>) -> AssignmentChange {
    AssignmentChange {
        execution: row.id,
        desired: row.desired,
        compute: row.compute,
        message: row.desired_message.clone(),
        work,
    }
}
