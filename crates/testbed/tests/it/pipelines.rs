//! Pipelines: jobs that read the results of others, over several nodes and restarts.

use std::collections::BTreeSet;

use api_client::ClientError;
use api_types::execution::{ComputeState, Execution};
use api_types::graph::CreateGraph;
use api_types::job::JobStateType;
use api_types::job_input::InputArchiveRequest;
use api_types::{Code, ExecutionId, JobId, NodeId};
use bytes::Bytes;
use serde_json::{Value, json};
use testbed::harness::{AgentSpec, Cluster, ClusterSpec, DataUrl, batch, eventually};

const ARRAY: usize = 4;

const WORDS: &str = "a\nb b\nc c c\nd d d d\n";

/// A job whose results its node keeps.
fn publishing(mut job: Value) -> Value {
    job["Tasks"][0]["Publisher"] = json!({ "Type": "local" });
    job
}

/// A job that reads what another job of its graph printed.
fn reading(mut job: Value, other: &str, params: Value) -> Value {
    let mut params = params;
    (params["Job"], params["Path"]) = (json!(other), json!("stdout"));
    let source = json!({ "Type": "job", "Params": params });
    job["Tasks"][0]["InputSources"] = json!([{ "Source": source, "Target": "/in" }]);
    job["DependsOn"] = json!([{ "Job": other }]);
    job
}

/// An array whose executions count their part of the words, one that copies what they printed, and a
/// job that reads all copies, once the gate is open.
fn pipeline(image: &str) -> Value {
    let mut count = publishing(batch(image, &["wc", "--share"]));
    let source = json!({ "Type": "inline", "Params": { "URL": DataUrl::text(WORDS) } });
    count["Tasks"][0]["InputSources"] = json!([{ "Source": source, "Target": "/inputs/words" }]);
    count["Count"] = json!(ARRAY);
    let copy = reading(batch(image, &["cat", "/in"]), "count", json!({ "Index": "Same" }));
    let mut copy = publishing(copy);
    copy["Count"] = json!(ARRAY);
    let paths: Vec<_> = (0..ARRAY).map(|index| format!("/in/{index}/stdout")).collect();
    let cat: Vec<_> = ["cat"].into_iter().chain(paths.iter().map(String::as_str)).collect();
    let mut report = reading(batch(image, &cat), "copy", json!({}));
    report["DependsOn"] = json!([{ "Job": "copy" }, { "Job": "gate" }]);
    let gate = batch(image, &["await"]);
    json!({ "Jobs": { "count": count, "copy": copy, "report": report, "gate": gate } })
}

/// The executions whose archives the nodes keep.
fn kept(cluster: &Cluster) -> BTreeSet<ExecutionId> {
    let mut kept = BTreeSet::new();
    for agent in &cluster.agents {
        let entries = std::fs::read_dir(agent.data_dir().join("published")).into_iter().flatten();
        kept.extend(entries.filter_map(|entry| {
            let name = entry.ok()?.file_name().into_string().ok()?;
            name.strip_suffix(".tar.gz")?.parse::<ExecutionId>().ok()
        }));
    }
    kept
}

async fn await_kept(cluster: &Cluster, what: &str, expected: &BTreeSet<ExecutionId>) {
    eventually(what, async || match kept(cluster) {
        found if found == *expected => Ok(()),
        found => Err(format!("{} archives are there", found.len())),
    })
    .await;
}

/// The executions of an array that has completed, by index.
async fn completed(cluster: &Cluster, id: JobId) -> Vec<Execution> {
    cluster.wait_for_job(id, JobStateType::Completed).await;
    let mut executions = cluster.executions(id).await;
    executions.retain(|execution| execution.compute_state.state_type == ComputeState::Completed);
    executions.sort_by(|one, other| one.name.cmp(&other.name));
    executions
}

/// Restarted agents look at their archives.
async fn restart_agents(cluster: &mut Cluster) {
    for agent in &mut cluster.agents {
        agent.kill();
        agent.restart().await;
    }
}

/// Why a node does not get an archive through an execution that does not name it.
async fn refusal(cluster: &Cluster, node: NodeId, by: ExecutionId, of: ExecutionId) -> Code {
    let request = InputArchiveRequest { execution_id: by, input: 0, published_by: of };
    match cluster.client().input_archive(node, &request).await {
        Err(ClientError::Api(error)) => error.code,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("the archive is sent"),
    }
}

#[tokio::test]
async fn results_pass_from_array_to_array_over_restarts_and_are_released_afterwards() {
    let agent = || AgentSpec::new().setting("COMPUTE_AGENT_RESULTS__RETAIN_SECONDS", "1");
    let Some(mut cluster) = ClusterSpec::new().agent(agent()).agent(agent()).start().await else {
        return;
    };
    let graph = Bytes::from(pipeline(&cluster.image).to_string());
    let created = cluster.client().create_graph_raw(graph, None).await.expect("it is sound");
    let CreateGraph { jobs, .. } = created;
    let counted = completed(&cluster, jobs["count"]).await;
    cluster.orchestrator.kill();
    cluster.orchestrator.restart().await;
    let copied = completed(&cluster, jobs["copy"]).await;
    assert_eq!((counted.len(), copied.len()), (ARRAY, ARRAY));
    for (index, (counted, copied)) in counted.iter().zip(&copied).enumerate() {
        let words = format!("1 {} ", index + 1);
        assert!(counted.run_output.stdout.starts_with(&words), "{:?}", counted.run_output);
        assert_eq!(copied.run_output.stdout, counted.run_output.stdout);
    }
    let nodes: BTreeSet<_> = copied.iter().map(|execution| execution.node_id).collect();
    assert_eq!(nodes.len(), 2, "archives pass from node to node");

    // What the first array published was needed by the second one alone.
    let needed: BTreeSet<_> = copied.iter().map(|execution| execution.id).collect();
    cluster.orchestrator.kill();
    cluster.orchestrator.restart().await;
    restart_agents(&mut cluster).await;
    await_kept(&cluster, "archives that the report needs stay, and no others", &needed).await;

    let gate = cluster.wait_for_execution(jobs["gate"], ComputeState::BidAccepted).await;
    let other = cluster.agents.iter().map(|agent| agent.node_id()).find(|id| *id != gate.node_id);
    let of = copied[0].id;
    assert_eq!(refusal(&cluster, gate.node_id, gate.id, of).await, Code::ResultNotFound);
    let other = other.expect("two nodes");
    assert_eq!(refusal(&cluster, other, gate.id, of).await, Code::ExecutionNotFound);

    cluster.signal(jobs["gate"]).await;
    let report = completed(&cluster, jobs["report"]).await;
    let expected: String =
        counted.iter().map(|execution| execution.run_output.stdout.as_str()).collect();
    assert_eq!(report[0].run_output.stdout, expected);
    restart_agents(&mut cluster).await;
    await_kept(&cluster, "all archives are released", &BTreeSet::new()).await;
}
