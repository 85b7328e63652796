//! Two agents with copies of one data directory: the second is refused, and the first works on.

use std::path::{Path, PathBuf};
use std::process::Command;

use api_client::NodeHistoryQuery;
use api_types::execution::{ComputeState, Execution};
use api_types::job::JobStateType;
use api_types::node::RefusedAgent;
use api_types::{JobId, NodeId};
use failpoint::BOOT_ID_VARIABLE;
use testbed::harness::{AgentSpec, Cluster, ClusterSpec, batch, binary, eventually};

use crate::programs::{job, ticking};

/// Of an agent with bad settings, or with the identity of another.
const NOT_STARTED_AGAIN: i32 = 64;

#[tokio::test]
async fn the_second_agent_on_a_copy_is_refused_and_the_tasks_of_the_first_go_on() {
    let Some(mut cluster) = Cluster::with_agents(1).await else { return };
    let id = cluster.submit(&batch(&cluster.image, &["await"])).await;
    let running = cluster.wait_for_execution(id, ComputeState::BidAccepted).await;
    let directory = tempfile::tempdir().unwrap();
    let copy = copy_of(&cluster, directory.path());
    let said = ended(&cluster, &copy, &[("COMPUTE_AGENT_ENGINES", "docker")]).await;
    for part in [
        "another agent has the identity of this one",
        "remove ledger.sqlite* and identity.json from its data directory",
        &copy.display().to_string(),
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert_eq!(said.matches("another agent has the identity").count(), 1, "{said}");
    is_shown(&cluster, cluster.agents[0].node_id()).await;

    goes_on(&cluster, id, &running).await;
    cluster.signal(id).await;
    cluster.wait_for_job(id, JobStateType::Completed).await;
    assert_eq!(cluster.execution(id).await.id, running.id);
    cluster.no_container_left().await;

    // A restart is none of a copy.
    cluster.agents[0].kill();
    cluster.agents[0].restart().await;
    cluster.run_one(&batch(&cluster.image, &["echo"])).await;
    assert!(!cluster.agents[0].log().contains("has the identity"), "{}", cluster.agents[0].log());
}

/// The second is on another machine, where nothing of the work of the first can be found.
#[tokio::test]
async fn a_copy_on_another_machine_does_not_report_the_work_of_the_first_as_lost() {
    let agent = AgentSpec::new().engines("wasm");
    let mut cluster = ClusterSpec::new().agent(agent).start_without_docker().await;
    let id = cluster.submit(&job(&ticking(6000, 0))).await;
    let running = cluster.wait_for_execution(id, ComputeState::BidAccepted).await;
    let directory = tempfile::tempdir().unwrap();
    let copy = copy_of(&cluster, directory.path());
    let run = copy.join(format!("executions/{}/wasm", running.id));
    std::fs::remove_dir_all(run).unwrap();
    let other_boot = "00000000-0000-4000-8000-000000000002";
    let elsewhere = [(BOOT_ID_VARIABLE, other_boot), ("COMPUTE_AGENT_ENGINES", "wasm")];
    for _ in 0..2 {
        ended(&cluster, &copy, &elsewhere).await;
    }
    is_shown(&cluster, cluster.agents[0].node_id()).await;
    goes_on(&cluster, id, &running).await;

    // The first is started again, and then stopped for good: the second may be the node.
    cluster.agents[0].kill();
    cluster.agents[0].restart().await;
    goes_on(&cluster, id, &running).await;
    cluster.client().stop_job(id, "enough").await.unwrap();
    cluster.wait_for_job(id, JobStateType::Stopped).await;
}

/// Copies the data directory of the agent while it runs.
fn copy_of(cluster: &Cluster, directory: &Path) -> PathBuf {
    let copy = directory.join("agent");
    let copied = Command::new("cp").arg("-a").arg(cluster.agents[0].data_dir()).arg(&copy).status();
    assert!(copied.expect("cp").success());
    copy
}

/// Runs a second agent on the copy until it ends; returns its log.
async fn ended(cluster: &Cluster, copy: &Path, variables: &[(&str, &str)]) -> String {
    let log = copy.with_extension("log");
    let file = std::fs::File::create(&log).expect("a log");
    let mut command = tokio::process::Command::new(binary("compute-agent"));
    command
        .env("COMPUTE_AGENT_LISTEN", "127.0.0.1:0")
        .env("COMPUTE_AGENT_DATA_DIR", copy)
        .env("COMPUTE_AGENT_ORCHESTRATOR", cluster.orchestrator.base_url())
        .env("COMPUTE_AGENT_WASM__RUNNER", binary("wasm-runner"))
        .env("COMPUTE_AGENT_DOCKER__SANDBOX_POOL", "0")
        .envs(variables.iter().copied())
        .stderr(file.try_clone().expect("a file"))
        .stdout(file)
        .kill_on_drop(true);
    let mut child = command.spawn().expect("it starts");
    let read = || std::fs::read_to_string(&log).expect("its log");
    let status = eventually("the second agent ends", async || match child.try_wait() {
        Ok(Some(status)) => Ok(status),
        Ok(None) => Err(read()),
        Err(error) => Err(error.to_string()),
    })
    .await;
    assert_eq!(status.code(), Some(NOT_STARTED_AGAIN), "{}", read());
    read()
}

/// The record and the history of the node, and `jobctl`, name the refused agent.
async fn is_shown(cluster: &Cluster, node: NodeId) {
    let record = cluster.client().describe_node(node).await.expect("the node");
    let machine = record.labels["hostname"].clone();
    let Some(RefusedAgent { machine: shown, since }) = record.refused_agent else {
        panic!("no agent is refused");
    };
    assert_eq!(shown, machine);
    assert!(!since.is_empty());
    let history =
        cluster.client().node_history(node, &NodeHistoryQuery::default()).await.expect("a history");
    let expected = format!("a second agent on '{machine}' has the identity of this node");
    let told = history.history.iter().filter(|event| event.comment.contains(&expected));
    assert_eq!(told.count(), 1, "{:#?}", history.history);
    let described = tokio::process::Command::new(binary("jobctl"))
        .args(["--url", cluster.orchestrator.base_url(), "node", "describe", &node.to_string()])
        .output()
        .await
        .expect("jobctl");
    let described = String::from_utf8_lossy(&described.stdout).into_owned();
    let line = described.lines().find(|line| line.starts_with("Second agent"));
    assert!(line.is_some_and(|line| line.contains(&machine)), "{described}");
}

/// The execution runs, is the only one, and has been on its node all the time.
async fn goes_on(cluster: &Cluster, id: JobId, running: &Execution) {
    let seen = cluster.agents[0].client().agent_executions().await.expect("a list");
    assert!(
        seen.iter().any(|local| local.id == running.id && local.phase == "Running"),
        "{seen:?}"
    );
    let now = cluster.execution(id).await;
    assert_eq!(now.id, running.id);
    assert_eq!(now.compute_state.state_type, ComputeState::BidAccepted);
}
