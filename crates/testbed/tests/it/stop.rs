//! Stopping jobs: immediately in the record, with a grace period on the node.

use api_client::{ClientError, HistoryQuery};
use api_types::Code;
use api_types::execution::{ComputeState, DesiredState};
use api_types::job::JobStateType;
use failpoint::ERROR;
use testbed::harness::{AgentSpec, Cluster, ClusterSpec, batch, eventually};

const GRACE: &str = "COMPUTE_AGENT_STOP_GRACE_SECONDS";

/// Whether the engine has started it or not: the agent never hears of it.
#[tokio::test]
async fn a_start_that_the_engine_does_not_answer_can_be_stopped() {
    let Some(cluster) = Cluster::with_agents(1).await else { return };
    let failpoints = cluster.agents[0].failpoints();
    failpoints.arm_always("docker.started", ERROR).await;
    let id = cluster.submit(&batch(&cluster.image, &["sleep", "600"])).await;
    eventually("it was started", async || match failpoints.hits("docker.started", ERROR) {
        0 => Err("not yet".to_owned()),
        _ => Ok(()),
    })
    .await;
    cluster.client().stop_job(id, "no one waits for it").await.unwrap();
    cluster.wait_for_job(id, JobStateType::Stopped).await;
    cluster.no_container_left().await;
}

#[tokio::test]
async fn a_stopped_job_ends_its_process_with_sigterm_and_records_the_reason() {
    let Some(cluster) = Cluster::with_agents(1).await else { return };
    let id = cluster.submit(&batch(&cluster.image, &["sleep", "600"])).await;
    cluster.wait_for_execution(id, ComputeState::BidAccepted).await;

    let response = cluster.client().stop_job(id, "changed my mind").await.unwrap();
    assert!(response.evaluation_id.is_some());
    // The record changes before the response is sent.
    let job = cluster.client().describe_job(id).await.unwrap();
    assert_eq!(job.state.state_type, JobStateType::Stopped);

    let execution = cluster.wait_for_execution(id, ComputeState::Cancelled).await;
    assert_eq!(execution.desired_state.state_type, DesiredState::Stopped);
    cluster.no_container_left().await;
    let events = cluster.history(id, &HistoryQuery::default()).await;
    let is_recorded = events.iter().any(|event| event.comment.contains("changed my mind"));
    assert!(is_recorded, "{events:#?}");
}

#[tokio::test]
async fn a_task_that_ignores_sigterm_is_killed_after_the_grace_period() {
    let agent = AgentSpec::new().setting(GRACE, "1");
    let Some(cluster) = ClusterSpec::new().agent(agent).start().await else { return };
    let id = cluster.submit(&batch(&cluster.image, &["stubborn", "600"])).await;
    cluster.wait_for_execution(id, ComputeState::BidAccepted).await;
    cluster.client().stop_job(id, "").await.unwrap();
    cluster.wait_for_execution(id, ComputeState::Cancelled).await;
    cluster.no_container_left().await;
}

#[tokio::test]
async fn a_repeated_stop_is_harmless_and_a_stop_of_an_ended_job_is_refused() {
    let Some(cluster) = Cluster::with_agents(1).await else { return };
    let id = cluster.submit(&batch(&cluster.image, &["sleep", "600"])).await;
    cluster.client().stop_job(id, "").await.unwrap();
    let again = cluster.client().stop_job(id, "").await.unwrap();
    assert_eq!(again.evaluation_id, None);

    let ended = cluster.submit(&batch(&cluster.image, &["echo"])).await;
    cluster.wait_for_job(ended, JobStateType::Completed).await;
    let refusal = cluster.client().stop_job(ended, "").await.unwrap_err();
    assert_eq!(refusal.code(), Some(Code::JobFinished), "{refusal}");
    assert!(matches!(refusal, ClientError::Api(error) if error.status == 409));
}

#[tokio::test]
async fn a_queued_job_can_be_stopped_and_is_never_started() {
    let spec = ClusterSpec::new().agent(AgentSpec::new().cpu("0.5"));
    let Some(cluster) = spec.start().await else { return };
    let running = cluster.submit(&batch(&cluster.image, &["sleep", "600"])).await;
    cluster.wait_for_execution(running, ComputeState::BidAccepted).await;
    let waiting = cluster.submit(&batch(&cluster.image, &["echo"])).await;
    cluster.wait_for_job(waiting, JobStateType::Queued).await;
    cluster.client().stop_job(waiting, "").await.unwrap();
    cluster.client().stop_job(running, "").await.unwrap();
    cluster.wait_for_execution(running, ComputeState::Cancelled).await;

    // A later job gets the capacity that the stopped job waited for.
    cluster.run_one(&batch(&cluster.image, &["echo"])).await;
    let job = cluster.client().describe_job(waiting).await.unwrap();
    assert_eq!(job.state.state_type, JobStateType::Stopped);
    assert!(cluster.executions(waiting).await.is_empty());
}

#[tokio::test]
async fn a_stop_right_after_the_submission_leaves_nothing_behind() {
    let Some(cluster) = Cluster::with_agents(1).await else { return };
    let mut ids = Vec::new();
    for _ in 0..4 {
        let id = cluster.submit(&batch(&cluster.image, &["sleep", "600"])).await;
        cluster.client().stop_job(id, "").await.unwrap();
        ids.push(id);
    }
    for id in ids {
        eventually("all its executions have ended", async || {
            let executions = cluster.executions(id).await;
            let live = executions.iter().find(|one| !one.compute_state.state_type.is_terminal());
            live.map_or(Ok(()), |one| Err(format!("{:?}", one.compute_state)))
        })
        .await;
    }
    cluster.no_container_left().await;
}
