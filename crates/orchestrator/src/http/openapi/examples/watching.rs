//! Examples of what people watch: why a job waits, and the cluster as a whole.

use api_types::cluster::{Cluster, ClusterLoad, JobCounts, LiveExecutions, LoadSample, NodeCounts};
use api_types::execution::{ComputeState, ComputeStateRecord, Execution, RunOutput};
use api_types::explanation::{ExecutionFailure, Explanation, WaitingJob};
use api_types::job::{DryRunNode, JobStateType};
use api_types::summary::ExecutionCounts;
use api_types::usage::{ListUsage, Usage};

use super::{EXECUTION, JOB, MOMENT, NODE, ROOM, SHARE, execution};

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

pub(in crate::http) fn cluster() -> Cluster {
    Cluster {
        time: MOMENT.rfc3339(),
        jobs: JobCounts { queued: 2, running: 1, completed: 40, ..JobCounts::default() },
        executions: LiveExecutions { starting: 0, running: 1 },
        nodes: NodeCounts { total: 1, connected: 1, ..NodeCounts::default() },
        capacity: ROOM,
        allocated: SHARE,
        oldest_wait: MOMENT.rfc3339(),
    }
}

pub(in crate::http) fn cluster_load() -> ClusterLoad {
    let sample = LoadSample {
        capacity: ROOM,
        allocated: SHARE,
        nodes: 1,
        queued: 2,
        running: 1,
        completed: 3,
        ..LoadSample::empty(MOMENT)
    };
    ClusterLoad { step: 60, samples: vec![sample] }
}

pub(in crate::http) fn list_usage() -> ListUsage {
    let state_type = ComputeState::BidAccepted;
    let running = Execution {
        compute_state: ComputeStateRecord { state_type, message: String::new() },
        run_output: RunOutput::none(),
        usage: Some(Usage {
            cpu_seconds: 12.5,
            cpu: 0.48,
            memory: 41_943_040,
            memory_peak: 52_428_800,
            disk: None,
            measure_time: MOMENT,
        }),
        ..execution()
    };
    ListUsage { executions: vec![running], measured: 1, unanswered_node_ids: Vec::new() }
}
