//! A machine restarts with its tasks: the tasks run again, and their jobs do not pay for it.
//!
//! The restart is simulated: the agent is killed, then what it runs, and the agent starts with
//! another boot ID.

use std::path::Path;
use std::process::Command;

use api_types::JobId;
use api_types::execution::ComputeState;
use api_types::job::JobStateType;
use api_types::node::NodeAction;
use failpoint::BOOT_ID_VARIABLE;
use serde_json::{Value, json};
use testbed::harness::{AgentSpec, Cluster, ClusterSpec, batch};

use crate::chaos::silence::an_hour_passes;
use crate::programs;

const BEFORE: &str = "00000000-0000-4000-8000-000000000001";
const AFTER: &str = "00000000-0000-4000-8000-000000000002";

#[tokio::test]
async fn a_container_that_ended_with_its_machine_runs_again_with_a_single_attempt() {
    let agent = AgentSpec::new().setting(BOOT_ID_VARIABLE, BEFORE);
    let Some(mut cluster) = ClusterSpec::new().agent(agent).start().await else { return };
    let id = submit(&cluster, batch(&cluster.image, &["await"])).await;
    cluster.add_agent(&AgentSpec::new()).await;

    cluster.agents[0].kill();
    kill_containers(&cluster).await;
    reboot(&mut cluster).await;
    cluster.signal_one(cluster.agents[1].node_id()).await;
    runs_elsewhere(&cluster, id).await;
    cluster.no_container_left().await;
}

#[tokio::test]
async fn a_run_of_an_hour_that_ended_with_its_machine_runs_again_with_a_single_attempt() {
    let agent = AgentSpec::new().setting(BOOT_ID_VARIABLE, BEFORE);
    let Some(mut cluster) = ClusterSpec::new().agent(agent).start().await else { return };
    let id = submit(&cluster, batch(&cluster.image, &["await"])).await;
    cluster.add_agent(&AgentSpec::new()).await;
    an_hour_passes(&mut cluster).await;

    cluster.agents[0].kill();
    kill_containers(&cluster).await;
    reboot(&mut cluster).await;
    cluster.signal_one(cluster.agents[1].node_id()).await;
    runs_elsewhere(&cluster, id).await;
    cluster.no_container_left().await;
}

#[tokio::test]
async fn a_wasm_program_that_ended_with_its_machine_runs_again_with_a_single_attempt() {
    let data = tempfile::tempdir().unwrap();
    let path = data.path().display().to_string();
    let agent = AgentSpec::new().engines("wasm").setting(BOOT_ID_VARIABLE, BEFORE);
    let agent = agent.setting("COMPUTE_AGENT_DATA_DIR", &path);
    let mut cluster = ClusterSpec::new().agent(agent).start_without_docker().await;
    cluster.add_agent(&AgentSpec::new().engines("wasm")).await;
    let other = cluster.agents[1].node_id();
    let client = cluster.client().clone();
    let act = async |action| client.act_on_node(other, action, "").await.unwrap();
    act(NodeAction::Cordon).await;
    let id = submit(&cluster, programs::job(&programs::ticking(40, 0))).await;
    cluster.agents[0].kill();
    act(NodeAction::Uncordon).await;
    ::programs::end_runners(Path::new(&path));
    reboot(&mut cluster).await;
    runs_elsewhere(&cluster, id).await;
}

/// A task that fails by itself while its agent is away, without a reboot, has used its attempt.
#[tokio::test]
async fn a_container_that_was_killed_without_a_reboot_is_its_tasks_failure() {
    let agent = AgentSpec::new().setting(BOOT_ID_VARIABLE, BEFORE);
    let Some(mut cluster) = ClusterSpec::new().agent(agent).start().await else { return };
    let id = submit(&cluster, batch(&cluster.image, &["sleep", "600"])).await;
    cluster.agents[0].kill();
    kill_containers(&cluster).await;
    cluster.agents[0].restart().await;
    cluster.wait_for_job(id, JobStateType::Failed).await;
    let execution = cluster.execution(id).await;
    assert_eq!(execution.compute_state.message, "exit code 137 (SIGKILL)");
}

/// Submits the job with one attempt, and waits until it runs.
async fn submit(cluster: &Cluster, mut job: Value) -> JobId {
    job["RetryPolicy"] = json!({ "Attempts": 1 });
    let id = cluster.submit(&job).await;
    cluster.wait_for_execution(id, ComputeState::BidAccepted).await;
    id
}

/// Ends what the nodes run, as their machines would.
pub(crate) async fn kill_containers(cluster: &Cluster) {
    for container in cluster.containers().await {
        let killed = Command::new("docker").args(["kill", &container.id]).output();
        assert!(killed.expect("docker is installed").status.success());
    }
}

async fn reboot(cluster: &mut Cluster) {
    cluster.agents[0].set_variable(BOOT_ID_VARIABLE, AFTER);
    cluster.agents[0].restart().await;
}

async fn runs_elsewhere(cluster: &Cluster, id: JobId) {
    let ending = cluster.ending(id).await;
    assert_eq!((ending.state, ending.executions), (JobStateType::Completed, 2));
    let executions = cluster.executions(id).await;
    let nodes = [cluster.agents[0].node_id(), cluster.agents[1].node_id()];
    assert_eq!([executions[0].node_id, executions[1].node_id], nodes);
    let (first, message) = (&executions[0], &executions[0].compute_state.message);
    assert_eq!(first.compute_state.state_type, ComputeState::Failed);
    assert_eq!(first.run_output.exit_code, -1);
    assert!(message.starts_with("its machine restarted while it ran"), "{message}");
}
