//! Examples of what people watch: why a job waits.

use api_types::execution::ComputeState;
use api_types::explanation::{ExecutionFailure, Explanation, WaitingJob};
use api_types::job::{DryRunNode, JobStateType};
use api_types::summary::ExecutionCounts;

use super::{EXECUTION, JOB, MOMENT, NODE};

pub(in crate::http) fn explanation() -> Explanation {
    let reason = "not enough memory (in use)".to_owned();
    Explanation {
        job_id: JOB,
        state: JobStateType::Queued,
        message: format!("1 of 1 node: {reason}"),
        executions: ExecutionCounts { total: 1, waiting: 1, failed: 1, ..Default::default() },
        waiting: Some(WaitingJob {
            since: MOMENT.rfc3339(),
            slots: 1,
            ahead: 3,
            ahead_is_more: false,
            reserved_node: None,
        }),
        nodes: vec![DryRunNode { node_id: NODE, chosen: false, reason }],
        failures: vec![ExecutionFailure {
            execution_id: EXECUTION,
            node_id: NODE,
            state: ComputeState::Failed,
            reason: "lost with its node".to_owned(),
            time: MOMENT.rfc3339(),
        }],
    }
}
