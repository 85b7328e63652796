//! Placement of executions: capacity, spread, constraints, priority.

use std::collections::BTreeMap;

use api_types::execution::{ComputeState, Execution};
use api_types::job::JobStateType;
use api_types::{Code, NodeId};
use serde_json::json;
use testbed::harness::{AgentSpec, Cluster, ClusterSpec, batch, ops};

fn per_node(executions: &[Execution]) -> BTreeMap<NodeId, usize> {
    let mut counts = BTreeMap::new();
    for execution in executions {
        *counts.entry(execution.node_id).or_default() += 1;
    }
    counts
}

#[tokio::test]
async fn a_job_without_capacity_is_queued_with_the_reason_and_runs_when_capacity_is_free() {
    let spec = ClusterSpec::new().agent(AgentSpec::new().cpu("0.5"));
    let Some(cluster) = spec.start().await else { return };
    let first = cluster.submit(&batch(&cluster.image, &["sleep", "600"])).await;
    cluster.wait_for_execution(first, ComputeState::BidAccepted).await;

    let second = cluster.submit(&batch(&cluster.image, &["echo", "at last"])).await;
    let job = cluster.wait_for_job(second, JobStateType::Queued).await;
    assert!(job.state.message.contains("CPU"), "{}", job.state.message);
    assert!(cluster.executions(second).await.is_empty());

    cluster.client().stop_job(first, "make room").await.unwrap();
    cluster.wait_for_job(second, JobStateType::Completed).await;
    assert_eq!(cluster.execution(second).await.run_output.stdout, "at last\n");
}

#[tokio::test]
async fn a_job_that_fits_no_node_waits_with_the_reason_until_a_larger_node_joins() {
    let spec = ClusterSpec::new().agent(AgentSpec::new().memory("1GB"));
    let Some(mut cluster) = spec.start().await else { return };
    let mut job = batch(&cluster.image, &["echo"]);
    job["Tasks"][0]["ResourcesConfig"] = json!({ "Memory": "2GB" });
    let id = cluster.submit(&job).await;
    let queued = cluster.wait_for_job(id, JobStateType::Queued).await;
    assert!(queued.state.message.contains("memory"), "{}", queued.state.message);

    cluster.add_agent(&AgentSpec::new().memory("3GB")).await;
    cluster.wait_for_job(id, JobStateType::Completed).await;
    assert_eq!(cluster.execution(id).await.node_id, cluster.agents[1].node_id());
}

#[tokio::test]
async fn equal_nodes_are_filled_evenly() {
    let Some(cluster) = Cluster::with_agents(2).await else { return };
    let mut job = batch(&cluster.image, &["echo"]);
    job["Count"] = json!(4);
    let executions = cluster.run(&job).await;
    let expected: BTreeMap<_, _> =
        cluster.agents.iter().map(|agent| (agent.node_id(), 2)).collect();
    assert_eq!(per_node(&executions), expected);
}

#[tokio::test]
async fn constraints_select_nodes_by_their_labels() {
    let spec = ClusterSpec::new()
        .agent(AgentSpec::new().label("zone", "a").label("disks", "2"))
        .agent(AgentSpec::new().label("zone", "b").label("disks", "8"));
    let Some(cluster) = spec.start().await else { return };
    let second = cluster.agents[1].node_id();
    for constraint in [
        json!({ "Key": "zone", "Operator": "in", "Values": ["b", "c"] }),
        json!({ "Key": "zone", "Operator": "!=", "Values": ["a"] }),
        json!({ "Key": "disks", "Operator": "gt", "Values": ["4"] }),
    ] {
        let mut job = batch(&cluster.image, &["echo"]);
        job["Count"] = json!(2);
        job["Constraints"] = json!([constraint]);
        let executions = cluster.run(&job).await;
        assert_eq!(per_node(&executions), BTreeMap::from([(second, 2)]), "{constraint}");
    }

    let mut job = batch(&cluster.image, &["echo"]);
    job["Constraints"] = json!([{ "Key": "zone", "Operator": "=", "Values": ["d"] }]);
    let id = cluster.submit(&job).await;
    let waiting = cluster.wait_for_job(id, JobStateType::Queued).await;
    assert!(waiting.state.message.contains("zone"), "{}", waiting.state.message);
}

#[tokio::test]
async fn an_ops_job_runs_once_on_every_matching_node() {
    let spec = ClusterSpec::new()
        .agent(AgentSpec::new().label("role", "front"))
        .agent(AgentSpec::new().label("role", "back"));
    let Some(cluster) = spec.start().await else { return };
    let executions = cluster.run(&ops(&cluster.image, &["echo"])).await;
    let expected: BTreeMap<_, _> =
        cluster.agents.iter().map(|agent| (agent.node_id(), 1)).collect();
    assert_eq!(per_node(&executions), expected);

    let mut job = ops(&cluster.image, &["echo"]);
    job["Constraints"] = json!([{ "Key": "role", "Operator": "=", "Values": ["back"] }]);
    let node = cluster.run_one(&job).await.node_id;
    assert_eq!(node, cluster.agents[1].node_id());

    job["Constraints"] = json!([{ "Key": "role", "Operator": "=", "Values": ["none"] }]);
    let id = cluster.submit(&job).await;
    let failed = cluster.wait_for_job(id, JobStateType::Failed).await;
    assert!(failed.state.message.contains("match"), "{}", failed.state.message);
}

#[tokio::test]
async fn capacity_goes_to_the_higher_priority_first_and_then_to_the_older_job() {
    let spec = ClusterSpec::new().agent(AgentSpec::new().cpu("0.5"));
    let Some(cluster) = spec.start().await else { return };
    let running = cluster.submit(&batch(&cluster.image, &["sleep", "600"])).await;
    cluster.wait_for_execution(running, ComputeState::BidAccepted).await;

    let mut waiting = Vec::new();
    for priority in [10, 90, 50, 90] {
        let mut job = batch(&cluster.image, &["echo"]);
        job["Priority"] = json!(priority);
        let id = cluster.submit(&job).await;
        cluster.wait_for_job(id, JobStateType::Queued).await;
        waiting.push(id);
    }
    cluster.client().stop_job(running, "make room").await.unwrap();
    let mut placed = Vec::new();
    for (at, id) in waiting.into_iter().enumerate() {
        cluster.wait_for_job(id, JobStateType::Completed).await;
        placed.push((cluster.execution(id).await.create_time, at));
    }
    placed.sort();
    let order: Vec<_> = placed.into_iter().map(|(_, at)| at).collect();
    assert_eq!(order, [1, 3, 2, 0]);
}

/// No node can restrict a task to domains, so that such a job would wait for ever.
#[tokio::test]
async fn a_network_that_no_node_has_is_refused_at_the_submission() {
    let cluster = ClusterSpec::new().start_without_agents().await;
    let mut job = batch(&cluster.image, &["echo"]);
    job["Tasks"][0]["Network"] = json!({ "Type": "HTTP", "Domains": ["example.com"] });
    let body = json!({ "Job": job }).to_string();
    let refusal = cluster.client().create_job_raw(body.into(), None).await.unwrap_err();
    assert_eq!(refusal.code(), Some(Code::InvalidJob), "{refusal}");
    assert!(refusal.to_string().contains("HTTP is not available yet"), "{refusal}");
}
