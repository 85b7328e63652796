//! A node is reserved for work that waits for too long.

use api_client::{HistoryQuery, NodesQuery};
use api_types::NodeId;
use api_types::execution::ComputeState;
use api_types::job::JobStateType;
use api_types::node::{NodeAction, NodeType};
use serde_json::json;
use testbed::harness::{AgentSpec, Cluster, ClusterSpec, batch, eventually};

use crate::programs;

#[tokio::test]
async fn a_large_job_starts_while_small_ones_keep_the_node_busy() {
    let spec = ClusterSpec::new()
        .setting("ORCHESTRATOR_STARVATION_SECONDS", "3")
        .agent(AgentSpec::new().cpu("1"));
    let Some(cluster) = spec.start().await else { return };
    // Two at a time, of different lengths, so that half of the node is always taken.
    let mut small = Vec::new();
    for seconds in ["1", "2"] {
        let mut job = batch(&cluster.image, &["sleep", seconds]);
        job["Count"] = json!(100);
        job["Tasks"][0]["ResourcesConfig"] = json!({ "CPU": "0.5", "Memory": "16MB" });
        small.push(cluster.submit(&job).await);
    }
    eventually("small tasks run", async || {
        let executions = cluster.executions(small[0]).await;
        let runs =
            executions.iter().any(|one| one.compute_state.state_type == ComputeState::BidAccepted);
        if runs { Ok(()) } else { Err(format!("{executions:?}")) }
    })
    .await;

    let mut large = batch(&cluster.image, &["echo", "at last"]);
    large["Priority"] = json!(60);
    large["Tasks"][0]["ResourcesConfig"] = json!({ "CPU": "1", "Memory": "16MB" });
    let large = cluster.submit(&large).await;
    let node = cluster.agents[0].node_id();
    cluster.wait_for_job(large, JobStateType::Completed).await;

    let history = cluster.history(large, &HistoryQuery::default()).await;
    let name = cluster.client().describe_node(node).await.expect("its record").name;
    let reserved = format!("{name} is reserved for it");
    let said = history.iter().any(|event| event.comment.contains(&reserved));
    assert!(said, "{history:?}");
    for job in small {
        let state = cluster.client().describe_job(job).await.unwrap().state.state_type;
        assert!(
            !state.is_terminal(),
            "the small ones are {state}, so that nothing kept the node busy"
        );
        cluster.client().stop_job(job, "").await.unwrap();
    }
}

/// The nodes are never idle while one of them is kept free: the others work, and the reserved one
/// ends what it runs.
#[tokio::test]
async fn ten_nodes_are_used_while_a_large_job_waits_for_one_of_them() {
    const NODES: usize = 10;
    const LEAST_UTILISATION: f64 = 0.8;
    let spec = ClusterSpec::new().setting("ORCHESTRATOR_STARVATION_SECONDS", "3");
    let agent = AgentSpec::new().engines("wasm");
    let spec = (0..NODES).fold(spec, |spec, _| spec.agent(agent.clone()));
    let cluster = spec.start_without_docker().await;
    let mut small = Vec::new();
    // Of different lengths, so that no node is ever empty by itself.
    for tenths in [30, 45, 60, 80] {
        let mut job = programs::job(&programs::ticking(tenths, 0));
        job["Count"] = json!(1000);
        small.push(cluster.submit(&job).await);
    }
    eventually("all nodes are full", async || match utilisation(&cluster).await {
        full if full >= 1.0 => Ok(()),
        other => Err(other.to_string()),
    })
    .await;

    let mut large = programs::job(&programs::ticking(1, 0));
    large["Priority"] = json!(60);
    large["Tasks"][0]["Resources"] = json!({ "CPU": "2" });
    let large = cluster.submit(&large).await;
    let mut samples = Vec::new();
    eventually("the large job has ended", async || {
        samples.push(utilisation(&cluster).await);
        let state = cluster.client().describe_job(large).await.expect("it exists").state;
        if state.state_type.is_terminal() { Ok(()) } else { Err(format!("{state:?}")) }
    })
    .await;
    #[expect(clippy::cast_precision_loss, reason = "hundreds")]
    let mean = samples.iter().sum::<f64>() / samples.len() as f64;
    let least = samples.iter().copied().fold(f64::INFINITY, f64::min);
    eprintln!("utilisation {mean:.3}, at least {least:.3}, in {} samples", samples.len());
    assert!(mean >= LEAST_UTILISATION, "{mean}");
    cluster.wait_for_job(large, JobStateType::Completed).await;
    let history = cluster.history(large, &HistoryQuery::default()).await;
    let said = history.iter().any(|event| event.comment.contains("is reserved for it"));
    assert!(said, "{history:?}");
    for job in small {
        cluster.client().stop_job(job, "").await.expect("it runs");
    }
}

/// The part of the nodes' CPU that is allocated to executions.
async fn utilisation(cluster: &Cluster) -> f64 {
    let nodes = cluster.client().list_nodes(&NodesQuery::default()).await.expect("the nodes").nodes;
    let (mut capacity, mut free) = (0.0, 0.0);
    for node in nodes.iter().filter(|node| node.node_type == NodeType::Compute) {
        capacity += node.compute_node_info.max_capacity.cpu;
        free += node.compute_node_info.available_capacity.cpu;
    }
    (capacity - free) / capacity
}

#[tokio::test]
async fn another_node_is_reserved_when_the_first_is_cordoned_and_none_when_the_job_is_stopped() {
    let agent = AgentSpec::new().engines("wasm");
    let spec = ClusterSpec::new()
        .setting("ORCHESTRATOR_STARVATION_SECONDS", "1")
        .agent(agent.clone())
        .agent(agent);
    let cluster = spec.start_without_docker().await;
    let mut small = programs::job(&programs::ticking(600, 0));
    small["Count"] = json!(8);
    let small = cluster.submit(&small).await;
    eventually("all nodes are full", async || match utilisation(&cluster).await {
        full if full >= 1.0 => Ok(()),
        other => Err(other.to_string()),
    })
    .await;
    let mut large = programs::job(&programs::ticking(1, 0));
    large["Tasks"][0]["Resources"] = json!({ "CPU": "2" });
    large["Priority"] = json!(60);
    let large = cluster.submit(&large).await;
    let first = reserved(&cluster, |nodes| nodes.len() == 1).await[0];
    cluster.client().act_on_node(first, NodeAction::Cordon, "").await.expect("it is cordoned");
    reserved(&cluster, |nodes| nodes.len() == 1 && nodes[0] != first).await;
    cluster.client().stop_job(large, "").await.expect("it is stopped");
    reserved(&cluster, <[NodeId]>::is_empty).await;
    cluster.client().stop_job(small, "").await.expect("it is stopped");
}

/// Waits until these are the nodes that are reserved.
async fn reserved(cluster: &Cluster, expected: impl Fn(&[NodeId]) -> bool) -> Vec<NodeId> {
    eventually("the nodes are reserved", async || {
        let nodes = cluster.client().list_nodes(&NodesQuery::default()).await.expect("nodes").nodes;
        let reserved = nodes.iter().filter(|node| !node.reserved_since.is_empty());
        let reserved: Vec<_> = reserved.map(|node| node.peer_info.id).collect();
        if expected(&reserved) { Ok(reserved) } else { Err(format!("{reserved:?}")) }
    })
    .await
}
