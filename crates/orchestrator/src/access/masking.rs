//! What a viewer is shown of a job: a list of what is allowed, so that a new field stays hidden.

use std::collections::BTreeMap;

use api_types::engine::{EngineSpec, Params, PublisherSpec};
use api_types::execution::{Execution, PublishedResult, RunOutput};
use api_types::job::{JobSpec, NetworkSpec, Task};
use api_types::node::Node;
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
        constraints: Vec::new(),
        meta: BTreeMap::new(),
        labels: spec.labels,
        retry_policy: spec.retry_policy,
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
        published_result: PublishedResult { publisher_type, params: Params::new() },
        run_output: RunOutput { exit_code, ..RunOutput::default() },
        ..execution
    }
}

/// A node without the text of failures, which can name images and inputs of any namespace.
pub(crate) fn node(mut node: Node) -> Node {
    node.health.reason.clear();
    node
}
