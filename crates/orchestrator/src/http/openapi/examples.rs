//! Examples in the document: values of the response types, so that they are spelled like responses.

mod access;
mod credentials;
mod joining;
mod keys;
mod secrets;
mod watching;

use std::collections::BTreeMap;

use api_types::engine::{EngineSpec, EngineType, Params, PublisherType};
use api_types::execution::{
    AllocatedResources, ComputeState, ComputeStateRecord, DescribeExecution, DesiredState,
    DesiredStateRecord, Execution, ListExecutions, ListResults, PublishedResult, RunOutput,
};
use api_types::history::{
    EventType, ExecutionStateChange, HistoryEvent, ListHistory, NodeStateChange, NodeStateType,
};
use api_types::job::{
    CreateJob, DescribeJob, Job, JobSpec, JobState, JobStateType, JobType, ListJobs, RetryPolicy,
    StopJob, Task, TaskResources,
};
use api_types::node::{
    Alive, ComputeNodeInfo, Connection, DescribeNode, Eligibility, ListNodes, Membership, Node,
    NodeActionRequest, NodeType, PeerInfo,
};
use api_types::protocol::{
    Acknowledgement, FailureCause, Heartbeat, HeartbeatAnswer, Report, ReportAnswer, ReportBatch,
    SessionAnswer, SessionRequest,
};
use api_types::quantity::Capacity;
use api_types::source::SourceType;
use api_types::submission::{CreateJobRequest, JobSubmission, TaskSubmission, TypedSubmission};
use api_types::usage::Usage;
use api_types::version::VersionRecord;
use api_types::{EvaluationId, ExecutionId, JobId, NodeId, Timestamp};
use serde_json::{Value, json};
use uuid::Uuid;

pub(in crate::http) use access::{
    create_token, created_token, describe_namespace, exchange_id_token, identity, list_audit,
    list_namespaces, list_tokens, put_namespace, revoked_token, sign_in, sign_in_methods,
};
pub(in crate::http) use credentials::{
    credentials_answer, credentials_request, describe_credential, list_credentials, put_credential,
};
pub(in crate::http) use joining::{
    create_node_token, created_node_token, enrol_request, label_node, list_node_tokens,
    node_certificate, renew_request, revoked_node_token,
};
pub(in crate::http) use keys::{list_keys, rotate_key};
pub(in crate::http) use secrets::{
    describe_secret, list_secrets, put_secret, secrets_answer, secrets_request,
};
pub(in crate::http) use watching::{cluster, cluster_load, explanation, list_usage};

const JOB: JobId = JobId::from_uuid(Uuid::from_u128(0x62df246c_d5cc_4c6d_aef9_bd480ed3b259));
const EXECUTION: ExecutionId =
    ExecutionId::from_uuid(Uuid::from_u128(0xa53c75d2_e331_4b3b_ae1c_ffc7def18a4a));
const EVALUATION: EvaluationId =
    EvaluationId::from_uuid(Uuid::from_u128(0xafbb01c8_4882_4c7a_9baf_ded244fbdcb9));
const NODE: NodeId = NodeId::from_uuid(Uuid::from_u128(0xe453e99a_e14b_455a_a3ef_c2a9773cc178));
const MOMENT: Timestamp = Timestamp(1_795_250_966_600_576_401);

const ROOM: Capacity = Capacity { cpu: 4.0, memory: 8_000_000_000, disk: 100_000_000_000, gpu: 0 };
const SHARE: Capacity = Capacity { cpu: 0.5, memory: 512_000_000, disk: 0, gpu: 0 };

fn docker() -> Params {
    match json!({ "Image": "alpine:3", "Entrypoint": ["echo"], "Parameters": ["hello"] }) {
        Value::Object(params) => params,
        _ => Params::new(),
    }
}

fn job() -> Job {
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
        constraints: Vec::new(),
        meta: BTreeMap::from([("service.org/requester.id".to_owned(), NODE.to_string())]),
        labels: BTreeMap::from([("team".to_owned(), "docs".to_owned())]),
        retry_policy: RetryPolicy::default_for(JobType::Batch),
        tasks: vec![task],
    };
    let state = JobState {
        state_type: JobStateType::Completed,
        message: "all 1 executions completed".to_owned(),
    };
    let (create_time, modify_time) = (MOMENT, MOMENT);
    Job { id: JOB, spec, state, version: 1, revision: 3, create_time, modify_time }
}

fn version_record() -> VersionRecord {
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

fn node() -> Node {
    Node {
        peer_info: PeerInfo { id: NODE, addrs: vec!["/ip4/10.0.0.7/tcp/1234".to_owned()] },
        node_type: NodeType::Compute,
        labels: BTreeMap::from([("zone".to_owned(), "a".to_owned())]),
        compute_node_info: compute_node_info(),
        service_version: version_record(),
        membership: Membership::Approved,
        connection: Connection::Connected,
        eligibility: Eligibility::Eligible,
        health: api_types::node::NodeHealth::default(),
        reserved_since: String::new(),
        last_heartbeat: MOMENT.rfc3339(),
    }
}

fn compute_node_info() -> ComputeNodeInfo {
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

fn usage() -> Usage {
    Usage {
        cpu_seconds: 12.5,
        cpu: 0.0,
        memory: 0,
        memory_peak: 52_428_800,
        disk: Some(1_048_576),
        measure_time: MOMENT,
    }
}

fn run_output() -> RunOutput {
    RunOutput { stdout: "hello\n".to_owned(), ..RunOutput::default() }
}

fn published() -> PublishedResult {
    let url = format!("http://10.0.0.7:1234/api/v1/agent/results/{EXECUTION}.tar.gz");
    let params = Params::from_iter([("URL".to_owned(), url.into())]);
    PublishedResult { publisher_type: PublisherType::Local, params }
}

pub(in crate::http) fn nothing() -> Value {
    json!({})
}

pub(in crate::http) fn alive() -> Alive {
    Alive { status: "OK".to_owned() }
}

pub(in crate::http) fn version() -> VersionRecord {
    version_record()
}

pub(in crate::http) fn own_node() -> Node {
    Node { node_type: NodeType::Requester, compute_node_info: ComputeNodeInfo::default(), ..node() }
}

pub(in crate::http) fn describe_node() -> DescribeNode {
    DescribeNode { node: node() }
}

pub(in crate::http) fn list_nodes() -> ListNodes {
    ListNodes { nodes: vec![node()], next_token: String::new() }
}

pub(in crate::http) fn node_action() -> NodeActionRequest {
    NodeActionRequest { action: "cordon".to_owned(), message: "new disk".to_owned() }
}

pub(in crate::http) fn submission() -> CreateJobRequest {
    let engine = TypedSubmission { kind: Some("docker".to_owned()), params: Some(docker()) };
    let task = TaskSubmission {
        name: Some("main".to_owned()),
        engine: Some(engine),
        ..TaskSubmission::default()
    };
    let job = JobSubmission {
        name: Some("words".to_owned()),
        job_type: Some("batch".to_owned()),
        labels: Some(BTreeMap::from([("team".to_owned(), "docs".to_owned())])),
        tasks: Some(vec![task]),
        ..JobSubmission::default()
    };
    CreateJobRequest { job: Some(job) }
}

pub(in crate::http) fn create_job() -> CreateJob {
    CreateJob { job_id: JOB, evaluation_id: EVALUATION, warnings: Vec::new() }
}

pub(in crate::http) fn stop_job() -> StopJob {
    StopJob { evaluation_id: Some(EVALUATION) }
}

pub(in crate::http) fn describe_job() -> DescribeJob {
    DescribeJob { job: job() }
}

pub(in crate::http) fn list_jobs() -> ListJobs {
    ListJobs { jobs: vec![job()], next_token: String::new() }
}

pub(in crate::http) fn describe_execution() -> DescribeExecution {
    DescribeExecution { execution: execution() }
}

pub(in crate::http) fn list_executions() -> ListExecutions {
    ListExecutions { executions: vec![execution()], next_token: String::new() }
}

fn execution() -> Execution {
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

pub(in crate::http) fn list_history() -> ListHistory {
    let event = HistoryEvent {
        event_type: EventType::ExecutionLevel,
        job_id: Some(JOB),
        node_id: Some(NODE),
        execution_id: Some(EXECUTION),
        job_state: None,
        execution_state: Some(ExecutionStateChange {
            previous: ComputeState::BidAccepted,
            new: ComputeState::Completed,
        }),
        node_state: None,
        new_revision: 6,
        comment: "completed".to_owned(),
        time: MOMENT.rfc3339(),
    };
    ListHistory { history: vec![event], next_token: String::new() }
}

pub(in crate::http) fn list_node_history() -> ListHistory {
    let event = HistoryEvent {
        event_type: EventType::NodeLevel,
        job_id: None,
        node_id: Some(NODE),
        execution_id: None,
        job_state: None,
        execution_state: None,
        node_state: Some(NodeStateChange {
            previous: NodeStateType::Connected,
            new: NodeStateType::Disconnected,
        }),
        new_revision: 2,
        comment: "its lease ended: no heartbeat for 10 s".to_owned(),
        time: MOMENT.rfc3339(),
    };
    ListHistory { history: vec![event], next_token: String::new() }
}

pub(in crate::http) fn list_results() -> ListResults {
    ListResults { results: vec![published()], next_token: String::new() }
}

pub(in crate::http) fn session_request() -> SessionRequest {
    SessionRequest {
        addrs: node().peer_info.addrs,
        labels: node().labels,
        compute_node_info: compute_node_info(),
        default_resources: SHARE,
        service_version: version_record(),
    }
}

pub(in crate::http) fn session() -> SessionAnswer {
    SessionAnswer {
        session: 1,
        lease_seconds: 30,
        heartbeat_seconds: 10,
        membership: Membership::Approved,
    }
}

pub(in crate::http) fn heartbeat() -> Heartbeat {
    let (running_executions, enqueued_executions) = (1, 0);
    Heartbeat {
        session: 1,
        used_capacity: SHARE,
        running_executions,
        enqueued_executions,
        stalled_millis: 0,
        lease_seconds: 10,
    }
}

pub(in crate::http) fn heartbeat_answer() -> HeartbeatAnswer {
    HeartbeatAnswer { lease_seconds: 10, heartbeat_seconds: 3 }
}

pub(in crate::http) fn report_batch() -> ReportBatch {
    let report = Report {
        execution_id: EXECUTION,
        sequence: 3,
        compute_state: ComputeState::Completed,
        process_ended: false,
        message: "completed".to_owned(),
        cause: FailureCause::Task,
        run_output: Some(run_output()),
        published_result: Some(published()),
        tail: None,
        usage: Some(usage()),
    };
    ReportBatch { session: 1, reports: vec![report] }
}

pub(in crate::http) fn report_answer() -> ReportAnswer {
    ReportAnswer { acknowledged: vec![Acknowledgement { execution_id: EXECUTION, sequence: 3 }] }
}
