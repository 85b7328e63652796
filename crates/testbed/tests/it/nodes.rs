//! Nodes as the orchestrator lists them, and as agents describe themselves.

use api_client::{LogsQuery, NodesQuery};
use api_types::engine::EngineType;
use api_types::execution::ComputeState;
use api_types::node::{Connection, NodeAction, NodeType};
use futures_util::TryStreamExt;
use serde_json::json;
use task_image::docker::LabelledContainer;
use testbed::harness::{AgentSpec, Cluster, ClusterSpec, batch, eventually};

#[tokio::test]
async fn the_nodes_are_the_orchestrator_and_its_agents() {
    let spec = ClusterSpec::new()
        .agent(AgentSpec::new().label("zone", "a").cpu("1.5").memory("3GB"))
        .agent(AgentSpec::new().label("zone", "b"));
    let Some(cluster) = spec.start().await else { return };
    let client = cluster.client();
    let nodes = client.list_nodes(&NodesQuery::default()).await.unwrap().nodes;
    assert_eq!(nodes.len(), 3);
    let own = client.agent_node().await.unwrap();
    assert_eq!(own.node_type, NodeType::Requester);
    assert!(nodes.iter().any(|node| node.peer_info == own.peer_info));

    let query = NodesQuery { labels: vec!["zone=a".to_owned()], ..NodesQuery::default() };
    let found = client.list_nodes(&query).await.unwrap().nodes;
    assert_eq!(found.len(), 1);
    let agent = &cluster.agents[0];
    let node = client.describe_node(agent.node_id().short()).await.unwrap();
    assert_eq!(node.peer_info.id, agent.node_id());
    assert_eq!((node.node_type, node.connection), (NodeType::Compute, Connection::Connected));
    let info = &node.compute_node_info;
    assert!(info.execution_engines.contains(&EngineType::Docker));
    assert_eq!((info.max_capacity.cpu, info.max_capacity.memory), (1.5, 3_000_000_000));
    assert_eq!(info.available_capacity, info.max_capacity);
    for label in ["Operating-System", "Architecture", "hostname"] {
        assert!(node.labels.contains_key(label), "{:?}", node.labels);
    }
}

#[tokio::test]
async fn running_executions_reduce_the_available_capacity() {
    let Some(cluster) = Cluster::with_agents(1).await else { return };
    let id = cluster.submit(&batch(&cluster.image, &["sleep", "600"])).await;
    cluster.wait_for_execution(id, ComputeState::BidAccepted).await;
    let node_id = cluster.agents[0].node_id();
    let info = cluster.client().describe_node(node_id).await.unwrap().compute_node_info;
    assert_eq!(info.available_capacity.cpu, info.max_capacity.cpu - 0.5);
    cluster.client().stop_job(id, "").await.unwrap();
    eventually("the capacity is free again", async || {
        let info = cluster.client().describe_node(node_id).await.unwrap().compute_node_info;
        let (free, all) = (info.available_capacity, info.max_capacity);
        if free == all { Ok(()) } else { Err(format!("{free:?} of {all:?}")) }
    })
    .await;
}

#[tokio::test]
async fn an_agent_shows_its_executions_and_their_output() {
    let Some(cluster) = Cluster::with_agents(1).await else { return };
    let id = cluster.submit(&batch(&cluster.image, &["lines", "3"])).await;
    cluster.wait_for_job(id, api_types::job::JobStateType::Completed).await;
    let execution = cluster.execution(id).await;
    let agent = cluster.agents[0].client();
    let local = agent.agent_execution(&execution.id.to_string()).await.unwrap();
    assert_eq!((local.id, local.job_id), (execution.id, id));
    let logs =
        agent.agent_execution_logs(&execution.id.to_string(), &LogsQuery::default()).await.unwrap();
    let bytes: Vec<_> = logs.try_collect().await.unwrap();
    assert_eq!(bytes.concat(), b"line 0\nline 1\nline 2\n");
}

#[tokio::test]
async fn a_daemon_runs_again_on_a_node_that_was_forgotten_and_joins_under_its_id() {
    let spec = ClusterSpec::new().setting("ORCHESTRATOR_NODE_TTL", "2").agent(AgentSpec::new());
    let Some(mut cluster) = spec.start().await else { return };
    let mut daemon = batch(&cluster.image, &["sleep", "600"]);
    daemon["Type"] = json!("daemon");
    let id = cluster.submit(&daemon).await;
    let mut known = vec![cluster.wait_for_execution(id, ComputeState::BidAccepted).await.id];
    let node = cluster.agents[0].node_id();
    for restarts in [false, true] {
        cluster.agents[0].kill();
        eventually("the node is forgotten", async || {
            let deleted = cluster.client().delete_node(node, true).await;
            deleted.map_err(|error| error.to_string())
        })
        .await;
        if restarts {
            cluster.orchestrator.kill();
            cluster.orchestrator.restart().await;
        }
        cluster.agents[0].restart().await;
        assert_eq!(cluster.agents[0].node_id(), node);
        let again = eventually("the daemon runs there again", async || {
            let executions = cluster.executions(id).await;
            let again = executions.iter().find(|one| {
                !known.contains(&one.id)
                    && one.compute_state.state_type == ComputeState::BidAccepted
            });
            again.cloned().ok_or_else(|| format!("{executions:#?}"))
        })
        .await;
        assert_eq!(again.node_id, node);
        known.push(again.id);
        eventually("what ran before is stopped", async || {
            let containers = cluster.containers().await;
            let its = |one: &LabelledContainer| one.execution_id == again.id.to_string();
            if containers.iter().all(its) { Ok(()) } else { Err(format!("{containers:?}")) }
        })
        .await;
    }
    cluster.client().stop_job(id, "").await.expect("it is stopped");
    cluster.no_container_left().await;
}

#[tokio::test]
async fn a_rejected_node_stops_its_tasks_although_its_agent_was_restarted() {
    let Some(mut cluster) = Cluster::with_agents(1).await else { return };
    let id = cluster.submit(&batch(&cluster.image, &["sleep", "600"])).await;
    cluster.wait_for_execution(id, ComputeState::BidAccepted).await;
    let node_id = cluster.agents[0].node_id();
    cluster.agents[0].kill();
    cluster.client().act_on_node(node_id, NodeAction::Reject, "").await.unwrap();
    cluster.agents[0].restart().await;
    cluster.no_container_left().await;
}
