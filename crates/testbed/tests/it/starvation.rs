//! A node is reserved for work that waits for too long.

use api_client::HistoryQuery;
use api_types::execution::ComputeState;
use api_types::job::JobStateType;
use serde_json::json;
use testbed::harness::{AgentSpec, ClusterSpec, batch, eventually};

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
    eventually("the node is reserved", async || {
        let record = cluster.client().describe_node(node).await.expect("the orchestrator answers");
        if record.reserved_since.is_empty() { Err(format!("{record:?}")) } else { Ok(()) }
    })
    .await;
    cluster.wait_for_job(large, JobStateType::Completed).await;

    let history = cluster.history(large, &HistoryQuery::default()).await;
    let reserved = format!("{} is reserved for it", node.short());
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
