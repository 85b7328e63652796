//! Silence at the defaults, while runs of an hour are at stake: of one node, of a dead machine, and
//! of every node together.
//!
//! The hour is handed in: the orchestrator starts again with its boot clock an hour ahead.

use std::time::{Duration, Instant};

use api_client::NodeHistoryQuery;
use api_types::JobId;
use api_types::execution::{ComputeState, Execution};
use api_types::job::JobStateType;
use api_types::node::{Connection, Ready};
use failpoint::BOOT_CLOCK_OFFSET_VARIABLE;
use serde_json::json;
use telemetry::metrics::Exposed;
use testbed::harness::{AgentSpec, Cluster, ClusterSpec, batch, eventually, eventually_within};

use super::leases::replacement;
use crate::reboots::kill_containers;

const HOUR_SECONDS: &str = "3600";
const MINUTE: Duration = Duration::from_secs(60);

/// 2 % of an hour: how long a batch run of that age is waited for.
const PATIENCE: Duration = Duration::from_secs(72);

/// How late a busy machine may be.
const LATE: Duration = Duration::from_secs(15);

/// Interval between checks that nothing has changed.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);

const NODES: usize = 10;
const PER_NODE: usize = 2;

/// Starts the orchestrator again an hour later, and waits until every node has been heard.
pub(crate) async fn an_hour_passes(cluster: &mut Cluster) {
    let mut heard = Vec::new();
    for agent in &cluster.agents {
        let node = cluster.client().describe_node(agent.node_id()).await.expect("it is known");
        heard.push((agent.node_id(), node.last_heartbeat));
    }
    cluster.orchestrator.kill();
    cluster.orchestrator.set_variable(BOOT_CLOCK_OFFSET_VARIABLE, HOUR_SECONDS);
    cluster.orchestrator.restart().await;
    for (id, before) in heard {
        eventually("the node is heard", async || {
            let node = cluster.client().describe_node(id).await.expect("it is known");
            let is_heard = node.connection == Connection::Connected && node.last_heartbeat > before;
            if is_heard { Ok(()) } else { Err(format!("{node:?}")) }
        })
        .await;
    }
}

/// Checks until `end` that the job has these executions, which all run.
async fn nothing_changes(cluster: &Cluster, job: JobId, expected: &[Execution], end: Instant) {
    let ids = |executions: &[Execution]| executions.iter().map(|one| one.id).collect::<Vec<_>>();
    while Instant::now() < end {
        let executions = cluster.executions(job).await;
        assert_eq!(ids(&executions), ids(expected), "{executions:#?}");
        let run = |one: &Execution| one.compute_state.state_type == ComputeState::BidAccepted;
        assert!(executions.iter().all(run), "{executions:#?}");
        tokio::time::sleep(CHECK_INTERVAL).await;
    }
}

async fn message(cluster: &Cluster, job: JobId) -> String {
    cluster.client().describe_job(job).await.expect("the job exists").state.message
}

#[tokio::test]
#[ignore = "long"]
async fn a_run_of_an_hour_outlives_a_minute_of_silence_and_one_with_a_short_lost_after_does_not() {
    let Some(mut cluster) = Cluster::with_agents(1).await else { return };
    let patient = cluster.submit(&batch(&cluster.image, &["sleep", "80"])).await;
    let mut impatient = batch(&cluster.image, &["sleep", "600"]);
    impatient["Tasks"][0]["Timeouts"] = json!({ "LostAfter": 10 });
    let impatient = cluster.submit(&impatient).await;
    let kept = cluster.wait_for_execution(patient, ComputeState::BidAccepted).await;
    let given_up = cluster.wait_for_execution(impatient, ComputeState::BidAccepted).await;
    cluster.add_agent(&AgentSpec::new()).await;
    an_hour_passes(&mut cluster).await;

    cluster.agents[0].pause();
    let silent = Instant::now();
    let second = replacement(&cluster, impatient, &given_up).await;
    assert!(silent.elapsed() < Duration::from_secs(10) + LATE, "{:?}", silent.elapsed());
    assert_eq!(second.node_id, cluster.agents[1].node_id());
    let said = message(&cluster, patient).await;
    assert!(said.contains("has been silent since"), "{said}");
    nothing_changes(&cluster, patient, &[kept], silent + MINUTE).await;
    cluster.agents[0].resume();

    let ending = cluster.ending(patient).await;
    assert_eq!((ending.state, ending.executions), (JobStateType::Completed, 1));
    cluster.client().stop_job(impatient, "").await.expect("it is stopped");
    let ending = cluster.ending(impatient).await;
    assert_eq!((ending.state, ending.executions), (JobStateType::Stopped, 2));
    cluster.no_container_left().await;
}

#[tokio::test]
#[ignore = "long"]
async fn a_run_of_an_hour_whose_machine_never_returns_completes_elsewhere_with_one_attempt() {
    let Some(mut cluster) = Cluster::with_agents(1).await else { return };
    let mut job = batch(&cluster.image, &["sleep", "25"]);
    job["RetryPolicy"] = json!({ "Attempts": 1 });
    let id = cluster.submit(&job).await;
    let first = cluster.wait_for_execution(id, ComputeState::BidAccepted).await;
    cluster.add_agent(&AgentSpec::new()).await;
    an_hour_passes(&mut cluster).await;

    cluster.agents[0].kill();
    let silent = Instant::now();
    kill_containers(&cluster).await;
    nothing_changes(&cluster, id, std::slice::from_ref(&first), silent + MINUTE).await;
    let second = replacement(&cluster, id, &first).await;
    let took = silent.elapsed();
    assert!(took < PATIENCE + LATE, "{took:?}");
    assert_eq!(second.node_id, cluster.agents[1].node_id());
    let ending = cluster.ending(id).await;
    assert_eq!((ending.state, ending.executions), (JobStateType::Completed, 2));
    assert_eq!(cluster.executions(id).await[0].run_output.exit_code, -1, "its end was not seen");
}

#[tokio::test]
#[ignore = "long"]
async fn ten_nodes_that_are_silent_for_a_minute_keep_everything_they_run() {
    let spec = (0..NODES).fold(ClusterSpec::new(), |spec, _| spec.agent(AgentSpec::new()));
    let Some(cluster) = spec.start().await else { return };
    let mut job = batch(&cluster.image, &["sleep", "120"]);
    job["Count"] = json!(NODES * PER_NODE);
    let id = cluster.submit(&job).await;
    let running = eventually("all run", async || {
        let executions = cluster.executions(id).await;
        let run = |one: &&Execution| one.compute_state.state_type == ComputeState::BidAccepted;
        match executions.iter().filter(run).count() {
            count if count == NODES * PER_NODE => Ok(executions),
            count => Err(format!("{count} run")),
        }
    })
    .await;
    let containers = sorted_containers(&cluster).await;
    assert_eq!(containers.len(), NODES * PER_NODE);
    assert_eq!(ready(&cluster).await.message, "");

    cluster.agents.iter().for_each(|agent| agent.pause());
    let silent = Instant::now();
    for agent in &cluster.agents {
        wait_for(&cluster, agent, Connection::Disconnected).await;
    }
    assert!(ready(&cluster).await.message.starts_with("most nodes fell silent together"));
    assert_eq!(metric(&cluster, "orchestrator_mass_silence").await, 1.0);
    assert_eq!(metric(&cluster, "orchestrator_lease_ends_total").await, 10.0);
    nothing_changes(&cluster, id, &running, silent + MINUTE).await;
    assert_eq!(sorted_containers(&cluster).await, containers, "nothing was stopped");
    cluster.agents.iter().for_each(|agent| agent.resume());

    for agent in &cluster.agents {
        wait_for(&cluster, agent, Connection::Connected).await;
        says_it_was_one_of_many(&cluster, agent).await;
    }
    assert_eq!(ready(&cluster).await.message, "");
    assert_eq!(metric(&cluster, "orchestrator_mass_silence").await, 0.0);
    assert_eq!(sorted_containers(&cluster).await, containers, "nothing was stopped");
    let ending = eventually_within(2 * MINUTE, "the job has ended", async || {
        match cluster.client().describe_job(id).await.expect("it exists").state.state_type {
            state if state.is_terminal() => Ok(cluster.ending(id).await),
            state => Err(state.to_string()),
        }
    })
    .await;
    assert_eq!((ending.state, ending.executions), (JobStateType::Completed, NODES * PER_NODE));
    cluster.no_container_left().await;
}

async fn says_it_was_one_of_many(cluster: &Cluster, agent: &testbed::harness::Agent) {
    let query = NodeHistoryQuery::default();
    let history = cluster.client().node_history(agent.node_id(), &query).await;
    let comments: Vec<_> =
        history.expect("it is known").history.into_iter().map(|event| event.comment).collect();
    let ended = comments.iter().find(|comment| comment.starts_with("its lease ended"));
    let ended = ended.unwrap_or_else(|| panic!("{comments:?}"));
    assert!(ended.contains("; most nodes fell silent together"), "{ended}");
    assert!(comments.last().is_some_and(|last| last.starts_with("is back")), "{comments:?}");
}

async fn wait_for(cluster: &Cluster, agent: &testbed::harness::Agent, expected: Connection) {
    eventually(&format!("the node is {expected}"), async || {
        let node = cluster.client().describe_node(agent.node_id()).await.expect("it is known");
        if node.connection == expected { Ok(()) } else { Err(node.connection.to_string()) }
    })
    .await;
}

async fn sorted_containers(cluster: &Cluster) -> Vec<(String, String)> {
    let containers = cluster.containers().await.into_iter();
    let mut containers: Vec<_> = containers.map(|one| (one.id, one.state)).collect();
    containers.sort();
    containers
}

async fn ready(cluster: &Cluster) -> Ready {
    let body = get(cluster, "/readyz").await;
    serde_json::from_str(&body).unwrap_or_else(|error| panic!("{error}: {body}"))
}

async fn metric(cluster: &Cluster, name: &str) -> f64 {
    Exposed::read(&get(cluster, "/metrics").await).sum(name, &[])
}

async fn get(cluster: &Cluster, path: &str) -> String {
    let http = reqwest::Client::builder().no_proxy().build().expect("make a client");
    let url = format!("{}{path}", cluster.client().base_url());
    let response = http.get(url).send().await.expect("a response");
    assert_eq!(response.status(), 200);
    response.text().await.expect("a whole body")
}
