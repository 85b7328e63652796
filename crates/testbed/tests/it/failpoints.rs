//! Every failpoint around commit, response, docker, ledger and report, with every possible fault:
//! each job ends exactly once.
//!
//! Each test runs its part of the matrix on one cluster: it arms a failpoint, submits a job with
//! retries, restarts crashed daemons, and checks the job's end. It also checks that the failpoint
//! was hit, and prints a table of the hits.

use std::fmt::Write as _;
use std::io::Write as _;

use api_types::execution::ComputeState;
use api_types::job::JobStateType;
use failpoint::{CRASH, DELAY, ERROR, TWICE};
use serde_json::Value;
use testbed::harness::{AgentSpec, Cluster, ClusterSpec, Daemon, Ending, batch, eventually, noop};

const ALL: &[&str] = &[CRASH, ERROR, DELAY, TWICE];

/// After a step, where a repeat equals the one before it; and at steps that cannot be repeated.
const AFTER: &[&str] = &[CRASH, ERROR, DELAY];

#[derive(Clone, Copy, PartialEq)]
enum Side {
    Orchestrator,
    Agent,
}

struct Failpoint {
    side: Side,
    name: &'static str,
    actions: &'static [&'static str],
}

/// How the jobs end.
#[derive(Clone, Copy)]
enum Expectation {
    Completed,
    /// The jobs run long and are stopped.
    Stopped,
}

const fn orchestrator(name: &'static str, actions: &'static [&'static str]) -> Failpoint {
    Failpoint { side: Side::Orchestrator, name, actions }
}

const fn agent(name: &'static str, actions: &'static [&'static str]) -> Failpoint {
    Failpoint { side: Side::Agent, name, actions }
}

#[tokio::test]
async fn commit_and_answer() {
    let mut cluster = noop_cluster().await;
    let failpoints = [
        orchestrator("commit.before", ALL),
        orchestrator("commit.within", AFTER),
        orchestrator("commit.after", AFTER),
        orchestrator("answer", AFTER),
        orchestrator("assign", ALL),
        orchestrator("report.take", ALL),
        orchestrator("report.answer", AFTER),
    ];
    run_matrix(&mut cluster, &failpoints, &noop(), Expectation::Completed).await;
}

#[tokio::test]
async fn assignment_ledger_and_report() {
    let mut cluster = noop_cluster().await;
    let failpoints = [
        agent("assignment.take", ALL),
        agent("ledger.before", ALL),
        agent("ledger.after", AFTER),
        agent("report.send", ALL),
        agent("report.acknowledged", AFTER),
    ];
    run_matrix(&mut cluster, &failpoints, &noop(), Expectation::Completed).await;
}

#[tokio::test]
#[ignore = "long"]
async fn docker_create_start_and_wait() {
    let Some(mut cluster) = Cluster::with_agents(1).await else { return };
    let failpoints = [
        agent("docker.create", ALL),
        agent("docker.created", AFTER),
        agent("docker.start", ALL),
        agent("docker.started", AFTER),
        agent("docker.wait", ALL),
        agent("docker.waited", AFTER),
    ];
    let job = batch(&cluster.image, &["echo", "still here"]);
    run_matrix(&mut cluster, &failpoints, &job, Expectation::Completed).await;
    no_container_left_after_a_sweep(&mut cluster).await;
}

#[tokio::test]
#[ignore = "long"]
async fn docker_collect_and_remove() {
    let Some(mut cluster) = Cluster::with_agents(1).await else { return };
    let failpoints = [
        agent("collect.before", ALL),
        agent("collect.after", AFTER),
        agent("docker.remove", ALL),
        agent("docker.removed", AFTER),
    ];
    let job = batch(&cluster.image, &["echo", "still here"]);
    run_matrix(&mut cluster, &failpoints, &job, Expectation::Completed).await;
    no_container_left_after_a_sweep(&mut cluster).await;
}

#[tokio::test]
async fn docker_stop() {
    let Some(mut cluster) = Cluster::with_agents(1).await else { return };
    let failpoints = [agent("docker.stop", ALL), agent("docker.stopped", AFTER)];
    let job = batch(&cluster.image, &["sleep", "600"]);
    run_matrix(&mut cluster, &failpoints, &job, Expectation::Stopped).await;
    no_container_left_after_a_sweep(&mut cluster).await;
}

async fn noop_cluster() -> Cluster {
    ClusterSpec::new().agent(AgentSpec::new().engines("noop")).start_without_docker().await
}

async fn run_matrix(
    cluster: &mut Cluster,
    failpoints: &[Failpoint],
    job: &Value,
    expected: Expectation,
) {
    let mut table = format!("{:<21} {:<7} {:>4}  outcome\n", "failpoint", "fault", "hits");
    for failpoint in failpoints {
        for action in failpoint.actions {
            let outcome = run(cluster, failpoint, action, job, expected).await;
            let hits = daemon(cluster, failpoint.side).failpoints().hits(failpoint.name, action);
            let _ = writeln!(table, "{:<21} {action:<7} {hits:>4}  {outcome}", failpoint.name);
        }
    }
    // Bypasses the test harness, which captures the output of passing tests.
    let _ = write!(std::io::stderr(), "\n{table}");
}

async fn run(
    cluster: &mut Cluster,
    failpoint: &Failpoint,
    action: &str,
    job: &Value,
    expected: Expectation,
) -> String {
    let (side, key) = (failpoint.side, format!("{}-{action}", failpoint.name));
    let crashes_before = daemon(cluster, side).crashes();
    let id = match expected {
        Expectation::Completed => {
            daemon(cluster, side).failpoints().arm(failpoint.name, action).await;
            cluster.submit_with_retries(job, &key).await
        }
        Expectation::Stopped => {
            let id = cluster.submit_with_retries(job, &key).await;
            cluster.wait_for_execution(id, ComputeState::BidAccepted).await;
            daemon(cluster, side).failpoints().arm(failpoint.name, action).await;
            cluster.client().stop_job(id, "").await.expect("the job is running");
            id
        }
    };
    // A process that kills itself takes a moment to end.
    let crashes_expected = crashes_before + u32::from(action == CRASH);
    eventually(&format!("{key} has happened"), async || {
        cluster.restart_crashed().await;
        let daemon = daemon(cluster, side);
        let (hits, crashes) = (daemon.failpoints().hits(failpoint.name, action), daemon.crashes());
        if hits == 1 && crashes == crashes_expected {
            Ok(())
        } else {
            Err(format!("hits: {hits}, crashes: {}", crashes - crashes_before))
        }
    })
    .await;
    let Ending { state, executions } = cluster.ending(id).await;
    match expected {
        Expectation::Completed => assert_eq!(state, JobStateType::Completed, "{key}"),
        Expectation::Stopped => assert_eq!(state, JobStateType::Stopped, "{key}"),
    }
    assert_eq!(
        cluster.submit_with_retries(job, &key).await,
        id,
        "{key}: the idempotency key is kept"
    );
    assert_eq!(daemon(cluster, side).crashes(), crashes_expected, "{key}: nothing else crashes");
    let crashed = if action == CRASH { "the process crashed; " } else { "" };
    let plural = if executions == 1 { "" } else { "s" };
    format!("{crashed}job {state} by {executions} execution{plural}")
}

fn daemon(cluster: &Cluster, side: Side) -> &Daemon {
    match side {
        Side::Orchestrator => &cluster.orchestrator,
        Side::Agent => &cluster.agents[0],
    }
}

/// The sweep soon after a start removes containers whose removal failed.
async fn no_container_left_after_a_sweep(cluster: &mut Cluster) {
    for agent in &mut cluster.agents {
        agent.kill();
        agent.restart().await;
    }
    cluster.no_container_left().await;
}
