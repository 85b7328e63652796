//! An agent behind a cut link: connections are neither refused nor reset, packets just do not arrive.

use std::time::Duration;

use api_types::execution::ComputeState;
use api_types::job::JobStateType;
use testbed::harness::{AgentSpec, ClusterSpec, Link, batch, eventually};

use super::leases::{find, replacement};

/// Long enough that a cut of [`SHORT_CUT`] does not consume a whole lease of three heartbeats.
const LEASE_SECONDS: u64 = 9;
const SHORT_CUT: Duration = Duration::from_secs(4);

#[tokio::test]
async fn a_disconnected_agent_keeps_its_work_for_a_lease_and_no_longer() {
    let Some(link) = Link::create() else { return };
    let Some(mut cluster) = ClusterSpec::new()
        .host(link.outside())
        .setting("ORCHESTRATOR_NODE_TTL", &LEASE_SECONDS.to_string())
        .agent(AgentSpec::new().behind(&link))
        .start()
        .await
    else {
        return;
    };
    let id = cluster.submit(&batch(&cluster.image, &["sleep", "600"])).await;
    let first = cluster.wait_for_execution(id, ComputeState::BidAccepted).await;
    let quick = cluster.submit(&batch(&cluster.image, &["await"])).await;
    let quick_run = cluster.wait_for_execution(quick, ComputeState::BidAccepted).await;
    cluster.add_agent(&AgentSpec::new()).await;

    // A cut shorter than the lease, during which one task ends.
    link.cut();
    cluster.signal_execution(quick_run.id).await;
    tokio::time::sleep(SHORT_CUT).await;
    let seen = cluster.client().describe_node(first.node_id).await.unwrap().last_heartbeat;
    link.heal();
    eventually("the agent sends heartbeats again", async || {
        let node = cluster.client().describe_node(first.node_id).await.unwrap();
        if node.last_heartbeat > seen { Ok(()) } else { Err(format!("{}", node.connection)) }
    })
    .await;
    let ending = cluster.ending(quick).await;
    assert_eq!((ending.state, ending.executions), (JobStateType::Completed, 1));
    let executions = cluster.executions(id).await;
    assert_eq!(executions.len(), 1, "nothing moved: {executions:#?}");

    // A cut longer than the lease.
    link.cut();
    let second = replacement(&cluster, id, &first).await;
    assert_ne!(second.node_id, first.node_id);
    let lost = find(&cluster, id, &first).await;
    assert_eq!(lost.compute_state.state_type, ComputeState::Failed);
    assert_eq!(cluster.containers().await.len(), 2, "the disconnected agent does not know yet");
    link.heal();
    eventually("the replaced execution is stopped", async || {
        match cluster.containers().await.as_slice() {
            [one] if one.execution_id == second.id.to_string() => Ok(()),
            containers => Err(format!("{containers:?}")),
        }
    })
    .await;
    assert_eq!(find(&cluster, id, &first).await, lost, "a late report changes nothing");
    cluster.client().stop_job(id, "").await.unwrap();
    let ending = cluster.ending(id).await;
    assert_eq!((ending.state, ending.executions), (JobStateType::Stopped, 2));
    cluster.no_container_left().await;
}
