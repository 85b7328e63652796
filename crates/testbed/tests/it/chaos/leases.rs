//! Agents and orchestrators that are silent for longer than a lease.

use std::time::Duration;

use api_client::NodeHistoryQuery;
use api_types::execution::{ComputeState, Execution};
use api_types::job::JobStateType;
use api_types::node::Connection;
use api_types::{JobId, NodeId, Timestamp};
use serde_json::json;
use testbed::harness::{
    AgentSpec, Cluster, ClusterSpec, batch, eventually, eventually_within, noop,
};

const LEASE: Duration = Duration::from_secs(3);

fn spec() -> ClusterSpec {
    ClusterSpec::new().setting("ORCHESTRATOR_NODE_TTL", &LEASE.as_secs().to_string())
}

#[tokio::test]
async fn a_paused_orchestrator_does_not_expire_leases_for_its_own_pause() {
    let spec = spec().agent(AgentSpec::new()).agent(AgentSpec::new());
    let Some(cluster) = spec.start().await else { return };
    let mut job = batch(&cluster.image, &["sleep", "9"]);
    job["Count"] = json!(2);
    let id = cluster.submit(&job).await;
    cluster.wait_for_job(id, JobStateType::Running).await;

    cluster.orchestrator.pause();
    tokio::time::sleep(2 * LEASE).await;
    cluster.orchestrator.resume();

    let ending = cluster.ending(id).await;
    assert_eq!((ending.state, ending.executions), (JobStateType::Completed, 2), "nothing moved");
    for agent in &cluster.agents {
        assert_eq!(connection(&cluster, agent.node_id()).await, Connection::Connected);
    }
    cluster.no_container_left().await;
}

#[tokio::test]
async fn a_shorter_lease_after_a_restart_ends_for_no_agent_that_keeps_to_the_longer_one() {
    /// Of the heartbeats under the first lease: longer than the second.
    const INTERVAL: Duration = Duration::from_secs(5);
    let longer = 3 * INTERVAL.as_secs();
    let spec = ClusterSpec::new().setting("ORCHESTRATOR_NODE_TTL", &longer.to_string());
    let Some(mut cluster) = spec.agent(AgentSpec::new()).start().await else { return };
    let id = cluster.submit(&batch(&cluster.image, &["sleep", "600"])).await;
    let execution = cluster.wait_for_execution(id, ComputeState::BidAccepted).await;
    let node = execution.node_id;

    let mut last = last_heartbeat(&cluster, node).await;
    eventually("a heartbeat", async || {
        let next = last_heartbeat(&cluster, node).await;
        if next == last {
            return Err(format!("the last one was at {last:?}"));
        }
        last = next;
        Ok(())
    })
    .await;
    cluster.orchestrator.kill();
    cluster.orchestrator.set_variable("ORCHESTRATOR_NODE_TTL", &LEASE.as_secs().to_string());
    cluster.orchestrator.restart().await;
    eventually("the agent keeps to the shorter lease", async || {
        let next = last_heartbeat(&cluster, node).await;
        match next.since(std::mem::replace(&mut last, next)) {
            apart if !apart.is_zero() && apart < LEASE => Ok(()),
            apart => Err(format!("{apart:?} between two heartbeats")),
        }
    })
    .await;
    let history = cluster.client().node_history(node, &NodeHistoryQuery::default()).await.unwrap();
    assert_eq!(history.history.len(), 1, "it joined, and lost no lease: {history:?}");
    assert_eq!(cluster.executions(id).await.len(), 1);

    cluster.agents[0].kill();
    eventually_within(3 * INTERVAL, "the shorter lease ends", async || {
        match connection(&cluster, node).await {
            Connection::Disconnected => Ok(()),
            Connection::Connected => Err("connected".to_owned()),
        }
    })
    .await;
    cluster.agents[0].restart().await;
    cluster.client().stop_job(id, "").await.unwrap();
    cluster.no_container_left().await;
}

#[tokio::test]
async fn a_paused_agent_loses_its_work_and_stops_it_when_it_resumes() {
    let Some(mut cluster) = spec().agent(AgentSpec::new()).start().await else { return };
    let id = cluster.submit(&batch(&cluster.image, &["sleep", "600"])).await;
    let first = cluster.wait_for_execution(id, ComputeState::BidAccepted).await;
    cluster.add_agent(&AgentSpec::new()).await;

    cluster.agents[0].pause();
    let second = replacement(&cluster, id, &first).await;
    assert_ne!(second.node_id, first.node_id);
    let lost = find(&cluster, id, &first).await;
    assert_eq!(lost.compute_state.state_type, ComputeState::Failed);
    tokio::time::sleep(LEASE).await;
    assert_eq!(containers(&cluster, first.node_id).await, 1, "the paused agent cannot stop it yet");
    cluster.agents[0].resume();

    eventually("the replaced execution is stopped", async || {
        match containers(&cluster, first.node_id).await {
            0 => Ok(()),
            some => Err(format!("{some} containers")),
        }
    })
    .await;
    assert_eq!(find(&cluster, id, &first).await, lost, "a late report changes nothing");
    let running = find(&cluster, id, &second).await;
    assert_eq!(running.compute_state.state_type, ComputeState::BidAccepted);
    cluster.client().stop_job(id, "").await.unwrap();
    let ending = cluster.ending(id).await;
    assert_eq!((ending.state, ending.executions), (JobStateType::Stopped, 2));
    cluster.no_container_left().await;
}

#[tokio::test]
async fn agents_that_fall_silent_together_keep_their_work() {
    let spec = (0..3).fold(spec(), |spec, _| spec.agent(AgentSpec::new()));
    let Some(cluster) = spec.start().await else { return };
    let mut job = batch(&cluster.image, &["sleep", "20"]);
    job["Count"] = json!(3);
    let id = cluster.submit(&job).await;
    all_three_run(&cluster, id).await;

    cluster.agents.iter().for_each(|agent| agent.pause());
    for agent in &cluster.agents {
        eventually("the lease ends", async || match connection(&cluster, agent.node_id()).await {
            Connection::Disconnected => Ok(()),
            Connection::Connected => Err("connected".to_owned()),
        })
        .await;
    }
    // Longer than the patience for what has just started: alone, each would have lost its work.
    tokio::time::sleep(2 * LEASE).await;
    cluster.agents.iter().for_each(|agent| agent.resume());

    let ending = cluster.ending(id).await;
    assert_eq!((ending.state, ending.executions), (JobStateType::Completed, 3), "nothing moved");
    cluster.no_container_left().await;
}

#[tokio::test]
async fn the_work_of_a_killed_node_is_replaced_within_its_lease_and_a_second() {
    let Some(mut cluster) = spec().agent(AgentSpec::new()).start().await else { return };
    let mut job = batch(&cluster.image, &["sleep", "600"]);
    job["Count"] = json!(3);
    let id = cluster.submit(&job).await;
    all_three_run(&cluster, id).await;
    cluster.add_agent(&AgentSpec::new()).await;
    let killed = cluster.agents[0].node_id();
    cluster.agents[0].kill();

    let replacements = eventually("three replacements exist", async || {
        let mut executions = cluster.executions(id).await;
        executions.retain(|one| one.node_id != killed);
        if executions.len() == 3 { Ok(executions) } else { Err(format!("{executions:?}")) }
    })
    .await;
    // Both times are by the orchestrator's clock; the last heartbeat preceded the kill.
    let node = cluster.client().describe_node(killed).await.unwrap();
    let last_heartbeat = Timestamp::parse(&node.last_heartbeat).expect("the node sent a heartbeat");
    for execution in replacements {
        let waited = execution.create_time.since(last_heartbeat);
        eprintln!("replaced {} ms after the last heartbeat", waited.as_millis());
        assert!(waited >= LEASE, "{waited:?}: the lease was cut short");
        let missed_heartbeats = cluster.orchestrator.missed_heartbeats();
        assert!(missed_heartbeats || waited <= LEASE + Duration::from_secs(1), "{waited:?}");
    }
    cluster.client().stop_job(id, "").await.unwrap();
    cluster.agents[0].restart().await;
    cluster.ending(id).await;
    cluster.no_container_left().await;
}

/// An idle cluster whose orchestrator was down for longer than the lease.
#[tokio::test]
async fn a_restarted_orchestrator_gives_every_node_a_whole_lease() {
    let agent = || AgentSpec::new().engines("noop");
    let mut cluster = spec().agent(agent()).agent(agent()).start_without_docker().await;
    cluster.orchestrator.kill();
    tokio::time::sleep(2 * LEASE).await;
    cluster.orchestrator.restart().await;
    for agent in &cluster.agents {
        assert_eq!(connection(&cluster, agent.node_id()).await, Connection::Connected);
    }
    let ended = cluster.run_one(&noop()).await;
    assert_eq!(ended.compute_state.state_type, ComputeState::Completed);
}

/// Without that lease, the run would be given up immediately: the silence is longer than its
/// patience.
#[tokio::test]
async fn a_node_that_is_silent_over_a_restart_has_a_whole_lease_to_return() {
    let Some(mut cluster) = spec().agent(AgentSpec::new()).start().await else { return };
    let id = cluster.submit(&batch(&cluster.image, &["sleep", "15"])).await;
    let first = cluster.wait_for_execution(id, ComputeState::BidAccepted).await;
    cluster.add_agent(&AgentSpec::new()).await;
    cluster.orchestrator.kill();
    cluster.agents[0].pause();
    tokio::time::sleep(2 * LEASE).await;
    cluster.orchestrator.restart().await;
    tokio::time::sleep(LEASE / 3).await;
    cluster.agents[0].resume();

    let ending = cluster.ending(id).await;
    assert_eq!((ending.state, ending.executions), (JobStateType::Completed, 1), "nothing moved");
    assert_eq!(cluster.execution(id).await.id, first.id);
    cluster.no_container_left().await;
}

async fn all_three_run(cluster: &Cluster, id: JobId) {
    eventually("all executions run", async || {
        let executions = cluster.executions(id).await;
        let running = |one: &&Execution| one.compute_state.state_type == ComputeState::BidAccepted;
        match executions.iter().filter(running).count() {
            3 => Ok(()),
            count => Err(format!("{count} run")),
        }
    })
    .await;
}

async fn connection(cluster: &Cluster, node: NodeId) -> Connection {
    cluster.client().describe_node(node).await.expect("the node exists").connection
}

async fn last_heartbeat(cluster: &Cluster, node: NodeId) -> Timestamp {
    let node = cluster.client().describe_node(node).await.expect("the node exists");
    Timestamp::parse(&node.last_heartbeat).expect("a time")
}

async fn containers(cluster: &Cluster, node: NodeId) -> usize {
    let containers = cluster.containers().await;
    containers.iter().filter(|container| container.node_id == node.to_string()).count()
}

/// Waits for the execution that replaces `first`.
pub(crate) async fn replacement(cluster: &Cluster, id: JobId, first: &Execution) -> Execution {
    eventually("the execution is replaced", async || {
        let executions = cluster.executions(id).await;
        let second = executions.iter().find(|one| {
            one.id != first.id && one.compute_state.state_type == ComputeState::BidAccepted
        });
        second.cloned().ok_or_else(|| format!("{executions:?}"))
    })
    .await
}

pub(super) async fn find(cluster: &Cluster, id: JobId, execution: &Execution) -> Execution {
    let executions = cluster.executions(id).await;
    executions.into_iter().find(|one| one.id == execution.id).expect("executions are kept")
}
