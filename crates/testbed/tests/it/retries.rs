//! Failures that are not the task's own, and who pays for them.

use api_types::execution::ComputeState;
use api_types::job::JobStateType;
use failpoint::{BOOT_CLOCK_OFFSET_VARIABLE, ERROR};
use serde_json::json;
use testbed::harness::{AgentSpec, ClusterSpec, batch, eventually};

/// More than a slot of a job with limited attempts may fail for reasons unrelated to its task.
const NODES: usize = 7;

/// Longer than a slot avoids a node after its first failure there.
const EXCLUSION_IS_OVER_SECONDS: &str = "60";

#[tokio::test]
async fn a_service_outlives_more_node_failures_than_any_other_job_may_have() {
    let spec = (0..NODES).fold(ClusterSpec::new(), |spec, _| spec.agent(AgentSpec::new()));
    let Some(mut cluster) = spec.start().await else { return };
    for agent in &cluster.agents {
        agent.failpoints().arm_always("docker.start", ERROR).await;
    }
    let mut service = batch(&cluster.image, &["sleep", "600"]);
    service["Type"] = json!("service");
    let id = cluster.submit(&service).await;
    eventually("it has failed on every node", async || {
        let executions = cluster.executions(id).await;
        let failed = |state| state == ComputeState::Failed;
        let failed = executions.iter().filter(|one| failed(one.compute_state.state_type)).count();
        if failed >= NODES { Ok(()) } else { Err(format!("{executions:#?}")) }
    })
    .await;
    let job = cluster.client().describe_job(id).await.expect("the job exists");
    assert!(!job.state.state_type.is_terminal(), "{:?}", job.state);
    assert!(job.state.message.contains("docker answers 500"), "{}", job.state.message);

    for agent in &cluster.agents {
        agent.failpoints().disarm("docker.start").await;
    }
    cluster.orchestrator.kill();
    cluster.orchestrator.set_variable(BOOT_CLOCK_OFFSET_VARIABLE, EXCLUSION_IS_OVER_SECONDS);
    cluster.orchestrator.restart().await;
    cluster.wait_for_job(id, JobStateType::Running).await;
    eventually("it runs", async || {
        let executions = cluster.executions(id).await;
        let last = executions.last().expect("it was tried");
        match last.compute_state.state_type {
            ComputeState::BidAccepted => Ok(()),
            _ => Err(format!("{last:?}")),
        }
    })
    .await;
    let executions = cluster.executions(id).await;
    let failed = |state| state == ComputeState::Failed;
    let failed = executions.iter().filter(|one| failed(one.compute_state.state_type)).count();
    // On a slow machine it may have been on one of them twice.
    assert!(failed >= NODES && executions.len() == failed + 1, "{executions:#?}");
    cluster.client().stop_job(id, "").await.expect("it is stopped");
    assert_eq!(cluster.ending(id).await.state, JobStateType::Stopped);
    cluster.no_container_left().await;
}
