//! What a viewer is shown of a job, an execution and a node: each field is named here, so that a new
//! one does not compile until its visibility is decided.

use std::collections::BTreeMap;

use api_types::engine::{EngineSpec, Params, PublisherSpec};
use api_types::execution::{Execution, PublishedResult, RunOutput};
use api_types::job::{JobSpec, NetworkSpec, Task};
use api_types::node::{Node, NodeHealth};
use api_types::reason::ReasonGroup;
use api_types::source::{InputSource, SourceSpec};

/// The only key of an engine's params that viewers see.
const IMAGE: &str = "Image";

/// Names, types, the image, resources and timeouts of a job; no commands, variables, addresses.
pub(crate) fn specification(spec: JobSpec) -> JobSpec {
    JobSpec {
        name: spec.name,
        namespace: spec.namespace,
        job_type: spec.job_type,
        priority: spec.priority,
        count: spec.count,
        max_running: spec.max_running,
        constraints: Vec::new(),
        meta: BTreeMap::new(),
        labels: spec.labels,
        retry_policy: spec.retry_policy,
        max_failed: spec.max_failed,
        concurrency_groups: spec.concurrency_groups,
        on_conflict: spec.on_conflict,
        depends_on: spec.depends_on,
        tasks: spec.tasks.into_iter().map(task).collect(),
    }
}

fn task(task: Task) -> Task {
    let Task { engine, publisher, .. } = task;
    let params = engine.params.into_iter().filter(|(key, _)| key.eq_ignore_ascii_case(IMAGE));
    Task {
        name: task.name,
        engine: EngineSpec { engine_type: engine.engine_type, params: params.collect() },
        publisher: PublisherSpec { params: Params::new(), ..publisher },
        env: BTreeMap::new(),
        secrets: Vec::new(),
        meta: BTreeMap::new(),
        input_sources: task.input_sources.into_iter().map(source).collect(),
        result_paths: Vec::new(),
        resources: task.resources,
        network: NetworkSpec { domains: Vec::new(), ..task.network },
        timeouts: task.timeouts,
    }
}

fn source(input: InputSource) -> InputSource {
    InputSource {
        source: SourceSpec { params: Params::new(), ..input.source },
        target: String::new(),
        alias: String::new(),
    }
}

/// An execution without its output and without where its results are.
pub(crate) fn execution(execution: Execution) -> Execution {
    let publisher_type = execution.published_result.publisher_type;
    let exit_code = execution.run_output.exit_code;
    Execution {
        id: execution.id,
        namespace: execution.namespace,
        eval_id: execution.eval_id,
        name: execution.name,
        node_id: execution.node_id,
        job_id: execution.job_id,
        allocated_resources: execution.allocated_resources,
        desired_state: execution.desired_state,
        compute_state: execution.compute_state,
        published_result: PublishedResult { publisher_type, params: Params::new() },
        run_output: RunOutput { exit_code, ..RunOutput::default() },
        usage: execution.usage,
        previous_execution: execution.previous_execution,
        next_execution: execution.next_execution,
        followup_eval_id: execution.followup_eval_id,
        revision: execution.revision,
        create_time: execution.create_time,
        modify_time: execution.modify_time,
    }
}

/// Why nodes do not take an execution, without the constraint that they do not meet.
pub(crate) fn reason(group: ReasonGroup) -> ReasonGroup {
    let mut shown = ReasonGroup {
        reason: group.reason,
        nodes: group.nodes,
        node_ids: group.node_ids,
        message: String::new(),
        asked: group.asked,
        largest: group.largest,
        free: group.free,
        key: group.key,
        wanted: None,
        found: group.found,
    };
    shown.message = shown.sentence();
    shown
}

/// A node without the text of failures, which can name images and inputs of any namespace.
pub(crate) fn node(node: Node) -> Node {
    let NodeHealth { state, reason: _, since, next_try } = node.health;
    Node {
        peer_info: node.peer_info,
        name: node.name,
        node_type: node.node_type,
        labels: node.labels,
        compute_node_info: node.compute_node_info,
        service_version: node.service_version,
        membership: node.membership,
        connection: node.connection,
        eligibility: node.eligibility,
        health: NodeHealth { state, reason: String::new(), since, next_try },
        refused_agent: node.refused_agent,
        reserved_since: node.reserved_since,
        last_heartbeat: node.last_heartbeat,
        idle_since: node.idle_since,
    }
}
