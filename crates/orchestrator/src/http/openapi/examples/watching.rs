//! Examples of what people watch: why a job waits, and the cluster as a whole.

use std::time::Duration;

use api_types::cluster::{Cluster, ClusterLoad, JobCounts, LiveExecutions, LoadSample, NodeCounts};
use api_types::constraint::Constraint;
use api_types::curve::{NodeCurve, UsageCurve};
use api_types::demand::{ClusterDemand, DemandClass, DemandedResources};
use api_types::engine::{EngineType, PublisherType};
use api_types::execution::{ComputeState, ComputeStateRecord, Execution, RunOutput};
use api_types::explanation::{ExecutionFailure, Explanation, WaitingJob};
use api_types::job::{DryRunNode, JobStateType};
use api_types::reason::{Amount, Reason, ReasonGroup};
use api_types::slots::{DescribeSlots, SlotBucket};
use api_types::source::SourceType;
use api_types::summary::ExecutionCounts;
use api_types::usage::{
    DescribeExecutionUsage, DescribeJobUsage, DescribeNodeUsage, ListUsage, Usage,
};

use super::records::{EXECUTION, JOB, MOMENT, NODE, ROOM, SHARE, execution};

pub(in crate::http) fn explanation() -> Explanation {
    let reason = "not enough memory (in use)".to_owned();
    Explanation {
        job_id: JOB,
        state: JobStateType::Queued,
        message: format!("1 of 1 node: {reason}"),
        title: "Waits for room: 3 jobs ahead".to_owned(),
        hopeless: false,
        groups: vec![too_little_memory()],
        executions: ExecutionCounts { total: 1, waiting: 1, failed: 1, ..Default::default() },
        failed_count: 0,
        failed_indexes: String::new(),
        waiting: Some(WaitingJob {
            since: MOMENT.rfc3339(),
            slots: 1,
            ahead: 3,
            ahead_is_more: false,
            reserved_node: None,
        }),
        gates: Vec::new(),
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

fn too_little_memory() -> ReasonGroup {
    let group = ReasonGroup {
        reason: Reason::Memory.as_str().to_owned(),
        nodes: 1,
        node_ids: vec![NODE],
        asked: Some(Amount::Whole(2_000_000_000)),
        largest: Some(Amount::Whole(4_000_000_000)),
        free: Some(Amount::Whole(500_000_000)),
        ..ReasonGroup::default()
    };
    ReasonGroup { message: group.sentence(), ..group }
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

pub(in crate::http) fn cluster_demand() -> ClusterDemand {
    let zone = Constraint {
        key: "zone".to_owned(),
        operator: "in".to_owned(),
        values: vec!["a".to_owned(), "b".to_owned()],
    };
    let class = DemandClass {
        namespace: "default".to_owned(),
        engine: EngineType::Docker,
        publisher: PublisherType::S3,
        storage_sources: vec![SourceType::UrlDownload],
        constraints: vec![zone],
        resources: DemandedResources { cpu: Some(2.0), memory: None, disk: 0, gpu: 0 },
        priority: 50,
        jobs: 3,
        slots: 40,
        slots_is_more: false,
        since: MOMENT.rfc3339(),
        message: "1 of 1 node: not enough CPU (in use)".to_owned(),
        capable_nodes: 1,
        open_nodes: 1,
    };
    ClusterDemand { time: MOMENT.rfc3339(), classes: vec![class], more: false }
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

fn curve() -> UsageCurve {
    UsageCurve {
        begin_time: MOMENT,
        end_time: MOMENT + Duration::from_secs(3),
        step: 1,
        cpu: vec![0.25, 0.5, 0.48],
        memory: vec![20_971_520, 41_943_040, 41_943_040],
    }
}

pub(in crate::http) fn execution_usage() -> DescribeExecutionUsage {
    DescribeExecutionUsage {
        execution_id: EXECUTION,
        node_id: NODE,
        running: true,
        answered: true,
        allocated: SHARE,
        usage: None,
        curve: Some(curve()),
    }
}

pub(in crate::http) fn job_usage() -> DescribeJobUsage {
    DescribeJobUsage {
        job_id: JOB,
        curve: Some(curve()),
        allocated: SHARE,
        measured: 1,
        nodes: 1,
        answered: 1,
        more: false,
        executions: Vec::new(),
    }
}

pub(in crate::http) fn describe_slots() -> DescribeSlots {
    let bucket = |first, failed, unfinished| SlotBucket {
        first,
        last: first + 9,
        completed: 10 - failed - unfinished,
        failed,
        unfinished,
    };
    DescribeSlots {
        job_id: JOB,
        total: 20,
        completed: 13,
        failed: 3,
        unfinished: 4,
        running: 1,
        failed_indexes: "3,7-8".to_owned(),
        buckets: vec![bucket(0, 3, 0), bucket(10, 0, 4)],
    }
}

pub(in crate::http) fn node_usage() -> DescribeNodeUsage {
    let hour = NodeCurve {
        used: UsageCurve { step: 10, end_time: MOMENT + Duration::from_secs(30), ..curve() },
        allocated_cpu: vec![0.5; 3],
        allocated_memory: vec![536_870_912; 3],
    };
    let day = None;
    DescribeNodeUsage { node_id: NODE, answered: true, capacity: ROOM, hour: Some(hour), day }
}
