//! The records that the examples show.

use std::collections::BTreeMap;

use api_types::engine::{EngineSpec, EngineType, Params, PublisherType};
use api_types::execution::{
    AllocatedResources, ComputeState, ComputeStateRecord, DesiredState, DesiredStateRecord,
    Execution, PublishedResult, RunOutput,
};
use api_types::job::{
    Job, JobSpec, JobState, JobStateType, JobType, RetryPolicy, Task, TaskResources,
};
use api_types::node::{
    ComputeNodeInfo, Connection, Eligibility, Membership, Node, NodeType, PeerInfo,
};
use api_types::quantity::Capacity;
use api_types::source::SourceType;
use api_types::usage::Usage;
use api_types::version::VersionRecord;
use api_types::{EvaluationId, ExecutionId, JobId, NodeId, Timestamp};
use serde_json::{Value, json};
use uuid::Uuid;

pub(super) const JOB: JobId =
    JobId::from_uuid(Uuid::from_u128(0x62df246c_d5cc_4c6d_aef9_bd480ed3b259));
pub(super) const OTHER_JOB: JobId =
    JobId::from_uuid(Uuid::from_u128(0x4f2a9c01_7d35_4b6e_8a11_0c9e5d7b2f46));
pub(super) const EXECUTION: ExecutionId =
    ExecutionId::from_uuid(Uuid::from_u128(0xa53c75d2_e331_4b3b_ae1c_ffc7def18a4a));
pub(super) const EVALUATION: EvaluationId =
    EvaluationId::from_uuid(Uuid::from_u128(0xafbb01c8_4882_4c7a_9baf_ded244fbdcb9));
pub(super) const NODE: NodeId =
    NodeId::from_uuid(Uuid::from_u128(0xe453e99a_e14b_455a_a3ef_c2a9773cc178));
pub(super) const MOMENT: Timestamp = Timestamp(1_795_250_966_600_576_401);

pub(super) const ROOM: Capacity =
    Capacity { cpu: 4.0, memory: 8_000_000_000, disk: 100_000_000_000, gpu: 0 };
pub(super) const SHARE: Capacity = Capacity { cpu: 0.5, memory: 512_000_000, disk: 0, gpu: 0 };

pub(super) fn docker() -> Params {
    match json!({ "Image": "alpine:3", "Entrypoint": ["echo"], "Parameters": ["hello"] }) {
        Value::Object(params) => params,
        _ => Params::new(),
    }
}

pub(super) fn job() -> Job {
    let task = Task {
        engine: EngineSpec { engine_type: EngineType::Docker, params: docker() },
        resources: TaskResources { cpu: "0.5".to_owned(), ..TaskResources::default() },
        ..Task::new("main", EngineType::Docker)
    };
    let spec = JobSpec {
        name: "words".to_owned(),
        namespace: "default".to_owned(),
        job_type: JobType::Batch,
        priority: 50,
        count: 1,
        max_running: 0,
        constraints: Vec::new(),
        meta: BTreeMap::from([("service.org/requester.id".to_owned(), NODE.to_string())]),
        labels: BTreeMap::from([("team".to_owned(), "docs".to_owned())]),
        retry_policy: RetryPolicy::default_for(JobType::Batch),
        max_failed: 0,
        concurrency_groups: Vec::new(),
        on_conflict: api_types::job::OnConflict::Queue,
        depends_on: Vec::new(),
        tasks: vec![task],
    };
    let state = JobState::new(JobStateType::Completed, "all 1 executions completed");
    let (create_time, modify_time) = (MOMENT, MOMENT);
    Job { id: JOB, spec, state, version: 1, revision: 3, create_time, modify_time }
}

pub(super) fn version_record() -> VersionRecord {
    let word = str::to_owned;
    VersionRecord {
        major: word("0"),
        minor: word("1"),
        git_version: word("v0.1.0"),
        git_commit: word("e30b40cea7ad17728ad7e21bf364125d517bf51e"),
        build_date: word("2026-11-21T07:52:51Z"),
        goos: word("linux"),
        goarch: word("amd64"),
    }
}

pub(super) fn node() -> Node {
    Node {
        peer_info: PeerInfo { id: NODE, addrs: vec!["/ip4/10.0.0.7/tcp/1234".to_owned()] },
        name: "build-7".to_owned(),
        node_type: NodeType::Compute,
        labels: BTreeMap::from([("zone".to_owned(), "a".to_owned())]),
        compute_node_info: compute_node_info(),
        service_version: version_record(),
        membership: Membership::Approved,
        connection: Connection::Connected,
        eligibility: Eligibility::Eligible,
        health: api_types::node::NodeHealth::default(),
        refused_agent: None,
        reserved_since: String::new(),
        last_heartbeat: MOMENT.rfc3339(),
        idle_since: MOMENT.rfc3339(),
    }
}

pub(super) fn compute_node_info() -> ComputeNodeInfo {
    ComputeNodeInfo {
        execution_engines: vec![EngineType::Docker],
        publishers: vec![PublisherType::Local, PublisherType::Noop],
        storage_sources: vec![SourceType::Inline, SourceType::UrlDownload],
        max_capacity: ROOM,
        available_capacity: ROOM,
        max_job_requirements: ROOM,
        running_executions: 0,
        enqueued_executions: 0,
    }
}

pub(super) fn usage() -> Usage {
    Usage {
        cpu_seconds: 12.5,
        cpu: 0.0,
        memory: 0,
        memory_peak: 52_428_800,
        disk: Some(1_048_576),
        measure_time: MOMENT,
    }
}

pub(super) fn run_output() -> RunOutput {
    RunOutput { stdout: "hello\n".to_owned(), ..RunOutput::default() }
}

pub(super) fn published() -> PublishedResult {
    let url = format!("http://10.0.0.7:1234/api/v1/agent/results/{EXECUTION}.tar.gz");
    let params = Params::from_iter([("URL".to_owned(), url.into())]);
    PublishedResult { publisher_type: PublisherType::Local, params }
}

pub(super) fn execution() -> Execution {
    Execution {
        id: EXECUTION,
        namespace: "default".to_owned(),
        eval_id: Some(EVALUATION),
        name: "words[0]".to_owned(),
        node_id: NODE,
        job_id: JOB,
        allocated_resources: AllocatedResources {
            tasks: BTreeMap::from([("main".to_owned(), SHARE)]),
        },
        desired_state: DesiredStateRecord {
            state_type: DesiredState::Stopped,
            message: "completed".to_owned(),
        },
        compute_state: ComputeStateRecord {
            state_type: ComputeState::Completed,
            message: "completed".to_owned(),
        },
        published_result: published(),
        run_output: run_output(),
        usage: Some(usage()),
        previous_execution: None,
        next_execution: None,
        followup_eval_id: None,
        revision: 6,
        create_time: MOMENT,
        modify_time: MOMENT,
    }
}
