//! An agent dies, or a whole node does: what ran goes on, here or elsewhere, and nothing runs twice.

use api_client::HistoryQuery;
use api_types::execution::ComputeState;
use api_types::job::JobStateType;
use api_types::node::Connection;
use testbed::harness::{AgentSpec, Cluster, ClusterSpec, batch, eventually};

#[tokio::test]
async fn a_task_outlives_its_agent_and_is_told_with_all_its_output() {
    let Some(mut cluster) = Cluster::of(1).await else { return };
    let id = cluster.submit(&batch(&cluster.image, &["lines", "20", "stdout", "100"])).await;
    let before = cluster.execution_in(id, ComputeState::BidAccepted).await;
    cluster.agents[0].kill();
    assert_eq!(cluster.containers().await.len(), 1, "the container does not need its agent");
    cluster.agents[0].start_again().await;

    cluster.job_in(id, JobStateType::Completed).await;
    let after = cluster.execution(id).await;
    assert_eq!((after.id, after.revision), (before.id, 6), "it is the same run");
    let lines: Vec<_> = after.run_output.stdout.lines().collect();
    let expected: Vec<_> = (0..20).map(|number| format!("line {number}")).collect();
    assert_eq!(lines, expected);
    cluster.no_container_left().await;
}

#[tokio::test]
async fn the_work_of_a_lost_node_is_done_by_another() {
    let spec = ClusterSpec::new()
        .setting("ORCHESTRATOR_NODE_TTL", "2")
        .agent(AgentSpec::new().label("zone", "a"));
    let Some(mut cluster) = spec.start().await else { return };
    let id = cluster.submit(&batch(&cluster.image, &["sleep", "600"])).await;
    let lost = cluster.execution_in(id, ComputeState::BidAccepted).await;
    cluster.add_agent(&AgentSpec::new().label("zone", "b")).await;
    cluster.agents[0].kill();

    let (lost_node, other_node) = (cluster.agents[0].node_id(), cluster.agents[1].node_id());
    let live = eventually("another node runs it", async || {
        let executions = cluster.executions(id).await;
        let live = executions.iter().find(|one| {
            one.node_id == other_node && one.compute_state.state_type == ComputeState::BidAccepted
        });
        live.cloned().ok_or_else(|| format!("{executions:#?}"))
    })
    .await;
    let executions = cluster.executions(id).await;
    let failed = executions.iter().find(|one| one.id == lost.id).unwrap();
    assert_eq!(failed.compute_state.state_type, ComputeState::Failed);
    assert_eq!(failed.next_execution, Some(live.id));
    assert_eq!(live.previous_execution, Some(lost.id));
    let node = cluster.client().describe_node(lost_node).await.unwrap();
    assert_eq!(node.connection, Connection::Disconnected);

    // Back again, the node ends what is no longer its own, and no late word changes the record.
    cluster.agents[0].start_again().await;
    eventually("only the other node runs a container", async || {
        let containers = cluster.containers().await;
        let nodes: Vec<_> = containers.iter().map(|one| one.node_id.clone()).collect();
        if nodes == [other_node.to_string()] { Ok(()) } else { Err(format!("{containers:?}")) }
    })
    .await;
    let query = HistoryQuery { execution_id: Some(lost.id.to_string()), ..Default::default() };
    let events = cluster.history(id, &query).await;
    let last = events.last().and_then(|event| event.execution_state).unwrap();
    assert_eq!((last.previous, last.new), (ComputeState::BidAccepted, ComputeState::Failed));
    let job = cluster.client().describe_job(id).await.unwrap();
    assert_eq!(job.state.state_type, JobStateType::Running);
}

#[tokio::test]
async fn a_task_that_ends_while_its_agent_is_dead_is_told_with_its_exit_code() {
    let Some(mut cluster) = Cluster::of(1).await else { return };
    let id = cluster.submit(&batch(&cluster.image, &["sleep", "1"])).await;
    cluster.execution_in(id, ComputeState::BidAccepted).await;
    cluster.agents[0].kill();
    eventually("the container has ended", async || {
        let containers = cluster.containers().await;
        let ended = containers.iter().all(|container| container.state == "exited");
        if ended { Ok(()) } else { Err(format!("{containers:?}")) }
    })
    .await;
    cluster.agents[0].start_again().await;
    cluster.job_in(id, JobStateType::Completed).await;
    let execution = cluster.execution(id).await;
    assert_eq!(execution.run_output.exit_code, 0);
    assert_eq!(execution.run_output.stdout, "slept 1 s\n");
    cluster.no_container_left().await;
}
