//! Dependencies and graphs: large ones, wrong ones, and an orchestrator that is killed between.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use api_client::GraphsQuery;
use api_types::dependency::Condition;
use api_types::graph::{CreateGraph, Graph};
use api_types::job::JobStateType;
use api_types::{JobId, Timestamp};
use bytes::Bytes;
use serde_json::{Value, json};
use testbed::harness::{AgentSpec, Cluster, ClusterSpec, batch, eventually, noop};

const JOBS: usize = 1000;

/// Each of the jobs waits for those of half and a third of its number.
fn large() -> Value {
    let jobs = (0..JOBS).map(|at| {
        let mut job = noop();
        job["Tasks"][0]["Resources"] = json!({ "CPU": "0.001", "Memory": "1MB" });
        let mut named: Vec<_> = [at / 2, at / 3].into_iter().filter(|on| *on < at).collect();
        named.dedup();
        let named = named.iter().map(|on| json!({ "Job": format!("job{on:03}") }));
        job["DependsOn"] = named.collect();
        (format!("job{at:03}"), job)
    });
    json!({ "Name": "large", "Jobs": jobs.collect::<serde_json::Map<_, _>>() })
}

async fn create(cluster: &Cluster, graph: &Value) -> CreateGraph {
    let body = Bytes::from(graph.to_string());
    cluster.client().create_graph_raw(body, None).await.expect("it is sound")
}

async fn describe(cluster: &Cluster, created: &CreateGraph) -> Graph {
    let id = created.graph_id.to_string();
    cluster.client().describe_graph(&id).await.expect("it is stored").graph
}

/// When the job began to run, and when it ended.
async fn times(cluster: &Cluster, id: JobId) -> (Timestamp, Timestamp) {
    let executions = cluster.executions(id).await;
    let job = cluster.client().describe_job(id).await.expect("it is stored");
    (executions[0].create_time, job.modify_time)
}

#[tokio::test]
async fn a_graph_of_a_thousand_jobs_is_stored_in_one_step_and_runs_in_order() {
    let agent = AgentSpec::new().engines("noop").cpu("64");
    let cluster = ClusterSpec::new().agent(agent).start_without_docker().await;
    let created = create(&cluster, &large()).await;
    let graph = describe(&cluster, &created).await;
    assert_eq!(graph.jobs.len(), JOBS);
    for id in created.jobs.values().take(3) {
        let job = cluster.client().describe_job(id).await.expect("it is stored");
        assert_eq!(job.create_time, graph.create_time, "one turn recorded all of them");
    }
    eventually("the graph has completed", async || {
        let graph = describe(&cluster, &created).await;
        let left = graph.jobs.iter().filter(|job| job.state != JobStateType::Completed).count();
        if left == 0 { Ok(()) } else { Err(format!("{left} jobs are left")) }
    })
    .await;
    let mut known = BTreeMap::new();
    for edge in graph.edges.iter().filter(|edge| edge.condition == Condition::Completed).step_by(37)
    {
        for id in [edge.from, edge.to] {
            if let Entry::Vacant(unknown) = known.entry(id) {
                unknown.insert(times(&cluster, id).await);
            }
        }
        let ((_, ended), (began, _)) = (known[&edge.from], known[&edge.to]);
        assert!(began >= ended, "{} began before {} had ended", edge.to, edge.from);
    }
    let query = GraphsQuery { name: Some("large".to_owned()), ..GraphsQuery::default() };
    let listed = cluster.client().list_graphs(&query).await.expect("it is stored").graphs;
    assert_eq!(listed[0].jobs, BTreeMap::from([("Completed".to_owned(), 1000)]));
}

#[tokio::test]
async fn a_cycle_is_refused_and_shown_by_its_names() {
    let cluster = ClusterSpec::new().start_without_docker().await;
    let after = |name: &str| {
        let mut job = noop();
        job["DependsOn"] = json!([{ "Job": name }]);
        job
    };
    let graph = json!({ "Jobs": {
        "deploy": after("test"), "build": noop(), "test": after("package"), "package": after("deploy"),
    } });
    let body = Bytes::from(graph.to_string());
    let error = cluster.client().create_graph_raw(body, None).await.expect_err("it is a cycle");
    let text = format!("{error:?}");
    assert!(text.contains("deploy → test → package → deploy"), "{text}");
    let listed = cluster.client().list_jobs(&Default::default()).await.expect("it answers");
    assert_eq!(listed.jobs.len(), 0);
}

#[tokio::test]
async fn jobs_that_wait_for_others_start_although_the_orchestrator_is_killed() {
    let Some(mut cluster) = ClusterSpec::new().agent(AgentSpec::new()).start().await else {
        return;
    };
    let first = cluster.submit(&batch(&cluster.image, &["await"])).await;
    let after = |condition: Condition| {
        let mut job = batch(&cluster.image, &["exit", "0"]);
        job["DependsOn"] = json!([{ "JobID": first, "Condition": condition }]);
        job
    };
    let next = cluster.submit(&after(Condition::Completed)).await;
    let handler = cluster.submit(&after(Condition::Failed)).await;
    let clean_up = cluster.submit(&after(Condition::Ended)).await;
    let execution = eventually("it runs", async || {
        let executions = cluster.executions(first).await;
        let state = executions.first().map(|it| it.compute_state.state_type);
        match state {
            Some(api_types::execution::ComputeState::BidAccepted) => Ok(executions[0].id),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    assert!(cluster.executions(next).await.is_empty());
    cluster.orchestrator.kill();
    // It ends while no orchestrator runs.
    cluster.signal_execution(execution).await;
    cluster.orchestrator.restart().await;
    cluster.wait_for_job(first, JobStateType::Completed).await;
    // What follows from that may not have been decided yet.
    cluster.orchestrator.kill();
    cluster.orchestrator.restart().await;
    cluster.wait_for_job(next, JobStateType::Completed).await;
    cluster.wait_for_job(clean_up, JobStateType::Completed).await;
    let skipped = cluster.wait_for_job(handler, JobStateType::Stopped).await;
    assert!(skipped.state.message.starts_with("skipped: job '"), "{}", skipped.state.message);
    assert!(cluster.executions(handler).await.is_empty());
    cluster.no_container_left().await;
}
