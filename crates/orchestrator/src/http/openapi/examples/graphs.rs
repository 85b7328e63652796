//! Examples of graphs.

use std::collections::BTreeMap;

use api_types::GraphId;
use api_types::dependency::{Condition, Indexes};
use api_types::graph::{
    CreateGraph, CreateGraphRequest, DescribeGraph, Graph, GraphEdge, GraphJob, GraphSummary,
    ListGraphs,
};
use api_types::job::JobStateType;
use api_types::submission::DependencySubmission;
use uuid::Uuid;

use super::records::{JOB, MOMENT, OTHER_JOB};

const GRAPH: GraphId = GraphId::from_uuid(Uuid::from_u128(0x0b7d1c9a_31f2_4e08_9d56_7a1f0c2e4b83));

pub(in crate::http) fn graph_submission() -> CreateGraphRequest {
    let build = super::submission().job.unwrap_or_default();
    let mut test = build.clone();
    let job = Some("build".to_owned());
    test.depends_on = Some(vec![DependencySubmission { job, ..DependencySubmission::default() }]);
    let jobs = BTreeMap::from([("build".to_owned(), build), ("test".to_owned(), test)]);
    CreateGraphRequest { name: Some("nightly".to_owned()), jobs }
}

pub(in crate::http) fn create_graph() -> CreateGraph {
    let jobs = BTreeMap::from([("build".to_owned(), JOB), ("test".to_owned(), OTHER_JOB)]);
    CreateGraph { graph_id: GRAPH, jobs, warnings: Vec::new() }
}

pub(in crate::http) fn describe_graph() -> DescribeGraph {
    let job = |name: &str, job_id, state, message: &str| GraphJob {
        name: name.to_owned(),
        job_id,
        state,
        message: message.to_owned(),
    };
    let waits = "job 'build' has not completed yet";
    let graph = Graph {
        id: GRAPH,
        name: "nightly".to_owned(),
        namespace: "default".to_owned(),
        create_time: MOMENT,
        state: JobStateType::Running,
        jobs: vec![
            job("build", JOB, JobStateType::Running, ""),
            job("test", OTHER_JOB, JobStateType::Queued, waits),
        ],
        edges: vec![GraphEdge {
            from: JOB,
            to: OTHER_JOB,
            condition: Condition::Completed,
            indexes: Indexes::All,
        }],
    };
    DescribeGraph { graph }
}

pub(in crate::http) fn list_graphs() -> ListGraphs {
    let graph = GraphSummary {
        id: GRAPH,
        name: "nightly".to_owned(),
        namespace: "default".to_owned(),
        create_time: MOMENT,
        state: JobStateType::Running,
        jobs: BTreeMap::from([("Queued".to_owned(), 1), ("Running".to_owned(), 1)]),
    };
    ListGraphs { graphs: vec![graph], next_token: String::new() }
}
