//! An agent that is cut off: nothing is refused or reset, packets just do not arrive.

use std::time::Duration;

use api_types::execution::ComputeState;
use api_types::job::JobStateType;
use testbed::harness::{AgentSpec, ClusterSpec, Link, batch, eventually};

use super::leases::{find, replaced};

/// Three heartbeats fit into it; of the time between two of them the cut below leaves some.
const LEASE_SECONDS: u64 = 9;
const SHORT_CUT: Duration = Duration::from_secs(4);

#[tokio::test]
async fn an_agent_that_is_cut_off_keeps_its_work_for_a_lease_and_no_longer() {
    let Some(link) = Link::make() else { return };
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
    let first = cluster.execution_in(id, ComputeState::BidAccepted).await;
    let quick = cluster.submit(&batch(&cluster.image, &["sleep", "2"])).await;
    cluster.execution_in(quick, ComputeState::BidAccepted).await;
    cluster.add_agent(&AgentSpec::new()).await;

    // For less than the lease; one task ends meanwhile.
    link.cut();
    tokio::time::sleep(SHORT_CUT).await;
    let seen = cluster.client().describe_node(first.node_id).await.unwrap().last_heartbeat;
    link.heal();
    eventually("the agent is heard of again", async || {
        let node = cluster.client().describe_node(first.node_id).await.unwrap();
        if node.last_heartbeat > seen { Ok(()) } else { Err(format!("{}", node.connection)) }
    })
    .await;
    let ending = cluster.ending(quick).await;
    assert_eq!((ending.state, ending.executions), (JobStateType::Completed, 1));
    let executions = cluster.executions(id).await;
    assert_eq!(executions.len(), 1, "nothing moved: {executions:#?}");

    // For more.
    link.cut();
    let second = replaced(&cluster, id, &first).await;
    assert_ne!(second.node_id, first.node_id);
    let lost = find(&cluster, id, &first).await;
    assert_eq!(lost.compute_state.state_type, ComputeState::Failed);
    assert_eq!(cluster.containers().await.len(), 2, "cut off, it does not know");
    link.heal();
    eventually("what is no longer wanted is stopped", async || {
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
