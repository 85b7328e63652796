//! Records of nodes, specifications of jobs, and reports of executions.

use std::collections::BTreeMap;

use api_types::ExecutionId;
use api_types::engine::EngineType;
use api_types::execution::{ComputeState, RunOutput};
use api_types::job::{Constraint, JobSpec, JobType, RetryPolicy, Task, TaskResources};
use api_types::node::ComputeNodeInfo;
use api_types::protocol::{Report, SessionRequest};
use api_types::quantity::{Capacity, Resources};
use api_types::version::VersionRecord;

pub(crate) fn node(cpu: f64, memory: u64, labels: &[(&str, &str)]) -> SessionRequest {
    let capacity = Capacity { cpu, memory, disk: 10_000_000_000, gpu: 0 };
    SessionRequest {
        name: String::new(),
        addrs: Vec::new(),
        labels: labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect(),
        compute_node_info: ComputeNodeInfo {
            execution_engines: vec![EngineType::Docker],
            max_capacity: capacity,
            max_job_requirements: capacity,
            ..ComputeNodeInfo::default()
        },
        default_resources: Resources {
            cpu_millis: 500,
            memory_bytes: 512_000_000,
            ..Resources::ZERO
        }
        .into(),
        service_version: VersionRecord::default(),
        probes: false,
        process: None,
    }
}

/// Of an agent that can be asked for probes.
pub(crate) fn probed_node() -> SessionRequest {
    SessionRequest { probes: true, ..node(4.0, 4_000_000_000, &[]) }
}

pub(crate) fn job(job_type: JobType) -> JobSpec {
    JobSpec {
        name: "test".to_owned(),
        namespace: "default".to_owned(),
        job_type,
        priority: 50,
        count: 1,
        max_running: 0,
        constraints: Vec::new(),
        meta: BTreeMap::new(),
        labels: BTreeMap::new(),
        retry_policy: RetryPolicy::default_for(job_type),
        max_failed: 0,
        concurrency_groups: Vec::new(),
        on_conflict: api_types::job::OnConflict::Queue,
        depends_on: Vec::new(),
        tasks: vec![Task {
            resources: TaskResources { cpu: "1".to_owned(), ..TaskResources::default() },
            ..Task::new("main", EngineType::Docker)
        }],
    }
}

pub(crate) fn batch(count: u32) -> JobSpec {
    JobSpec { count, ..job(JobType::Batch) }
}

pub(crate) fn with_cpu(mut spec: JobSpec, cpu: &str) -> JobSpec {
    spec.tasks[0].resources.cpu = cpu.to_owned();
    spec
}

pub(crate) fn with_retries(mut spec: JobSpec, attempts: u32) -> JobSpec {
    spec.retry_policy.attempts = attempts;
    spec
}

pub(crate) fn in_namespace(namespace: &str, mut spec: JobSpec) -> JobSpec {
    spec.namespace = namespace.to_owned();
    spec
}

pub(crate) fn with_constraint(mut spec: JobSpec, key: &str, value: &str) -> JobSpec {
    spec.constraints.push(Constraint {
        key: key.to_owned(),
        operator: "=".to_owned(),
        values: vec![value.to_owned()],
    });
    spec
}

pub(crate) fn report(execution_id: ExecutionId, compute_state: ComputeState) -> Report {
    let run_output = compute_state.is_terminal().then(RunOutput::default);
    Report { run_output, ..Report::new(execution_id, 1, compute_state) }
}
