//! Examples in the document: values of the response types, so that they are spelled like responses.

mod access;
mod credentials;
mod graphs;
mod groups;
mod inputs;
mod joining;
mod keys;
mod members;
mod records;
mod schedules;
mod secrets;
mod watching;

use std::collections::BTreeMap;

use api_types::execution::{ComputeState, DescribeExecution, ListExecutions, ListResults};
use api_types::history::{
    EventType, ExecutionStateChange, HistoryEvent, ListHistory, NodeStateChange, NodeStateType,
};
use api_types::job::{CreateJob, DescribeJob, ListJobs, StopJob};
use api_types::node::{
    Alive, ComputeNodeInfo, DescribeNode, ListNodes, Membership, Node, NodeActionRequest, NodeType,
};
use api_types::protocol::{
    Acknowledgement, AgentProcess, FailureCause, Heartbeat, HeartbeatAnswer, Report, ReportAnswer,
    ReportBatch, SessionAnswer, SessionRequest,
};
use api_types::rerun::RerunJobRequest;
use api_types::search::SearchResults;
use api_types::submission::{CreateJobRequest, JobSubmission, TaskSubmission, TypedSubmission};
use api_types::summary::{ExecutionCounts, JobSummary};
use api_types::version::VersionRecord;
use serde_json::{Value, json};

pub(in crate::http) use access::{
    create_token, created_token, describe_namespace, exchange_id_token, identity, list_audit,
    list_namespaces, list_tokens, put_namespace, revoked_token, revoked_tokens, sign_in,
    sign_in_methods,
};
pub(in crate::http) use credentials::{
    credentials_answer, credentials_request, describe_credential, list_credentials, put_credential,
};
pub(in crate::http) use graphs::{create_graph, describe_graph, graph_submission, list_graphs};
pub(in crate::http) use groups::{deleted_group, describe_group, list_groups, put_group};
pub(in crate::http) use inputs::{
    archives, input_archive_request, input_results, input_results_request,
};
pub(in crate::http) use joining::{
    acted_on_node, create_node_token, created_node_token, enrol_request, label_node,
    list_node_tokens, node_certificate, renew_request, revoked_node_token,
};
pub(in crate::http) use keys::{list_keys, rotate_key};
pub(in crate::http) use members::list_members;
use records::{
    EVALUATION, EXECUTION, JOB, MOMENT, NODE, SHARE, compute_node_info, docker, execution, job,
    node, published, run_output, usage, version_record,
};
pub(in crate::http) use schedules::{
    describe_schedule, list_schedule_runs, list_schedules, put_schedule,
};
pub(in crate::http) use secrets::{
    describe_secret, list_secrets, put_secret, secrets_answer, secrets_request,
};
pub(in crate::http) use watching::{
    cluster, cluster_demand, cluster_load, describe_slots, execution_usage, explanation, job_usage,
    list_usage, node_usage,
};

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

pub(in crate::http) fn rerun_job() -> RerunJobRequest {
    let only = Some("Failed".to_owned());
    RerunJobRequest {
        only,
        patch: Some(json!({ "RetryPolicy": { "Attempts": 3 } })),
        indexes: None,
        downstream: None,
    }
}

pub(in crate::http) fn stop_job() -> StopJob {
    StopJob { evaluation_id: Some(EVALUATION) }
}

pub(in crate::http) fn describe_job() -> DescribeJob {
    DescribeJob { job: job() }
}

pub(in crate::http) fn search_results() -> SearchResults {
    let job = job();
    let summary = JobSummary {
        id: job.id,
        name: job.spec.name,
        namespace: job.spec.namespace,
        job_type: job.spec.job_type,
        priority: job.spec.priority,
        labels: job.spec.labels,
        state: job.state,
        executions: ExecutionCounts { total: 1, completed: 1, ..ExecutionCounts::default() },
        version: job.version,
        revision: job.revision,
        create_time: job.create_time,
        modify_time: job.modify_time,
        start_time: job.create_time,
        end_time: job.modify_time,
    };
    SearchResults {
        jobs: vec![summary],
        nodes: Vec::new(),
        more_jobs: false,
        more_nodes: false,
        older_jobs: false,
    }
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
        job_name: None,
        index: None,
        node_name: None,
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
        job_name: None,
        index: None,
        node_name: None,
    };
    ListHistory { history: vec![event], next_token: String::new() }
}

pub(in crate::http) fn list_results() -> ListResults {
    ListResults { results: vec![published()], next_token: String::new() }
}

pub(in crate::http) fn session_request() -> SessionRequest {
    SessionRequest {
        name: node().name,
        addrs: node().peer_info.addrs,
        labels: node().labels,
        compute_node_info: compute_node_info(),
        default_resources: SHARE,
        service_version: version_record(),
        probes: true,
        process: Some(AgentProcess {
            machine: "build-7".to_owned(),
            boot: "0f1e2d3c-4b5a-4678-9abc-def012345678".to_owned(),
            started: 12_345_678_901,
        }),
    }
}

const TERM: &str = "5d3c1f0a9b8e4d7c8a6b5c4d3e2f1a0b";

pub(in crate::http) fn session() -> SessionAnswer {
    SessionAnswer {
        session: 1,
        lease_seconds: 30,
        heartbeat_seconds: 10,
        membership: Membership::Approved,
        causes: vec![FailureCause::REFUSED.to_owned()],
        term: TERM.to_owned(),
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
        probed: None,
    }
}

pub(in crate::http) fn heartbeat_answer() -> HeartbeatAnswer {
    HeartbeatAnswer { lease_seconds: 10, heartbeat_seconds: 3, probe: None, term: TERM.to_owned() }
}

pub(in crate::http) fn report_batch() -> ReportBatch {
    let report = Report {
        execution_id: EXECUTION,
        sequence: 3,
        compute_state: ComputeState::Completed,
        process_ended: false,
        message: "completed".to_owned(),
        cause: FailureCause::Task,
        confirmed: false,
        ended_agent: false,
        definite: false,
        run_output: Some(run_output()),
        published_result: Some(published()),
        tail: None,
        usage: Some(usage()),
        curve: None,
    };
    ReportBatch { session: 1, reports: vec![report] }
}

pub(in crate::http) fn report_answer() -> ReportAnswer {
    ReportAnswer { acknowledged: vec![Acknowledgement { execution_id: EXECUTION, sequence: 3 }] }
}
