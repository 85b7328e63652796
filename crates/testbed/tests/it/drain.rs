//! An agent that drains its node when it stops.

use std::time::{Duration, Instant};

use api_types::execution::ComputeState;
use api_types::job::JobStateType;
use api_types::node::{Eligibility, NodeAction};
use testbed::harness::{AgentSpec, Cluster, ClusterSpec, batch, eventually};

use crate::chaos::leases::replacement;

fn draining(deadline_seconds: &str) -> AgentSpec {
    AgentSpec::new()
        .setting("COMPUTE_AGENT_DRAIN_ON_STOP", "true")
        .setting("COMPUTE_AGENT_DRAIN_DEADLINE_SECONDS", deadline_seconds)
}

async fn eligibility(cluster: &Cluster) -> Eligibility {
    let node = cluster.agents[0].node_id();
    cluster.client().describe_node(node).await.expect("the node exists").eligibility
}

#[tokio::test]
async fn a_stop_waits_for_running_executions_and_accepts_no_new_ones() {
    let Some(mut cluster) = ClusterSpec::new().agent(draining("60")).start().await else { return };
    let id = cluster.submit(&batch(&cluster.image, &["sleep", "4"])).await;
    cluster.wait_for_execution(id, ComputeState::BidAccepted).await;
    let client = cluster.client().clone();
    let (node, image) = (cluster.agents[0].node_id(), cluster.image.clone());
    let late = async {
        eventually("the node is drained", async || {
            match client.describe_node(node).await.map(|node| node.eligibility) {
                Ok(Eligibility::Draining) => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await;
        let body = serde_json::json!({ "Job": batch(&image, &["echo", "late"]) }).to_string();
        client.create_job_raw(body.into(), None).await.unwrap().job_id
    };
    let (status, late) = tokio::join!(cluster.agents[0].terminate(), late);
    assert_eq!(status.code(), Some(0), "{status}");
    // The execution ended and was reported before the agent ended.
    let job = cluster.client().describe_job(id).await.unwrap();
    assert_eq!(job.state.state_type, JobStateType::Completed);
    cluster.wait_for_job(late, JobStateType::Queued).await;

    cluster.agents[0].restart().await;
    let ending = cluster.ending(late).await;
    assert_eq!((ending.state, ending.executions), (JobStateType::Completed, 1));
    assert_eq!(eligibility(&cluster).await, Eligibility::Eligible);
    cluster.no_container_left().await;
}

#[tokio::test]
async fn executions_continue_after_the_deadline_and_are_adopted_again() {
    let Some(mut cluster) = ClusterSpec::new().agent(draining("1")).start().await else { return };
    let id = cluster.submit(&batch(&cluster.image, &["sleep", "600"])).await;
    cluster.wait_for_execution(id, ComputeState::BidAccepted).await;
    let status = cluster.agents[0].terminate().await;
    assert_eq!(status.code(), Some(0), "{status}");
    assert_eq!(cluster.containers().await.len(), 1);

    cluster.agents[0].restart().await;
    cluster.client().stop_job(id, "").await.unwrap();
    let ending = cluster.ending(id).await;
    assert_eq!((ending.state, ending.executions), (JobStateType::Stopped, 1));
    cluster.no_container_left().await;
}

#[tokio::test]
async fn an_operators_drain_outlasts_the_stop() {
    let agent = draining("60").engines("noop");
    let mut cluster = ClusterSpec::new().agent(agent).start_without_docker().await;
    let node = cluster.agents[0].node_id();
    cluster.client().act_on_node(node, NodeAction::Drain, "for maintenance").await.unwrap();
    cluster.agents[0].terminate().await;
    cluster.agents[0].restart().await;
    let before = cluster.client().describe_node(node).await.unwrap().last_heartbeat;
    eventually("the new agent has joined", async || {
        let node = cluster.client().describe_node(node).await.unwrap();
        if node.last_heartbeat > before { Ok(()) } else { Err(node.last_heartbeat) }
    })
    .await;
    assert_eq!(eligibility(&cluster).await, Eligibility::Draining);
}

#[tokio::test]
async fn an_approval_does_not_change_when_a_drain_ends() {
    const DEADLINE: Duration = Duration::from_secs(5);
    let spec = ClusterSpec::new()
        .setting("ORCHESTRATOR_DRAIN_DEADLINE", &DEADLINE.as_secs().to_string())
        .agent(AgentSpec::new());
    let Some(mut cluster) = spec.start().await else { return };
    let id = cluster.submit(&batch(&cluster.image, &["sleep", "600"])).await;
    let first = cluster.wait_for_execution(id, ComputeState::BidAccepted).await;
    cluster.add_agent(&AgentSpec::new()).await;
    let node = cluster.agents[0].node_id();
    let drained = Instant::now();
    cluster.client().act_on_node(node, NodeAction::Drain, "").await.unwrap();
    cluster.client().act_on_node(node, NodeAction::Approve, "").await.unwrap();
    assert_eq!(eligibility(&cluster).await, Eligibility::Draining);

    let second = replacement(&cluster, id, &first).await;
    assert_eq!(second.node_id, cluster.agents[1].node_id());
    assert!(drained.elapsed() >= DEADLINE, "it was moved after {:?}", drained.elapsed());
    cluster.client().stop_job(id, "").await.unwrap();
    let ending = cluster.ending(id).await;
    assert_eq!((ending.state, ending.executions), (JobStateType::Stopped, 2));
    cluster.no_container_left().await;
}
