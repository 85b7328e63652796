//! Every place around commit, answer, docker, ledger and report, with every fault that it can have:
//! whatever happens there, the job ends once.
//!
//! Each test is one cluster that goes through its part of the matrix: a place is armed, a job is
//! submitted by a client that does not give up, daemons that die are started again, and the job's
//! ending is judged. That the place was hit is part of the judgement; the tables say it too.

use std::fmt::Write as _;
use std::io::Write as _;

use api_types::execution::ComputeState;
use api_types::job::JobStateType;
use failpoint::{CRASH, DELAY, ERROR, TWICE};
use serde_json::Value;
use testbed::harness::{AgentSpec, Cluster, ClusterSpec, Daemon, Ending, batch, eventually, noop};

const ALL: &[&str] = &[CRASH, ERROR, DELAY, TWICE];

/// Behind a step, where twice is the same as before it; and where nothing can be done twice.
const BEHIND: &[&str] = &[CRASH, ERROR, DELAY];

#[derive(Clone, Copy, PartialEq)]
enum Side {
    Orchestrator,
    Agent,
}

struct Place {
    side: Side,
    name: &'static str,
    actions: &'static [&'static str],
}

/// What becomes of the jobs.
#[derive(Clone, Copy)]
enum Course {
    Completed,
    /// They run for long, and are stopped.
    Stopped,
}

const fn orchestrator(name: &'static str, actions: &'static [&'static str]) -> Place {
    Place { side: Side::Orchestrator, name, actions }
}

const fn agent(name: &'static str, actions: &'static [&'static str]) -> Place {
    Place { side: Side::Agent, name, actions }
}

#[tokio::test]
async fn commit_and_answer() {
    let mut cluster = noop_cluster().await;
    let places = [
        orchestrator("commit.before", ALL),
        orchestrator("commit.within", BEHIND),
        orchestrator("commit.after", BEHIND),
        orchestrator("answer", BEHIND),
        orchestrator("assign", ALL),
        orchestrator("report.take", ALL),
        orchestrator("report.answer", BEHIND),
    ];
    go_through(&mut cluster, &places, &noop(), Course::Completed).await;
}

#[tokio::test]
async fn assignment_ledger_and_report() {
    let mut cluster = noop_cluster().await;
    let places = [
        agent("assignment.take", ALL),
        agent("ledger.before", ALL),
        agent("ledger.after", BEHIND),
        agent("report.send", ALL),
        agent("report.acknowledged", BEHIND),
    ];
    go_through(&mut cluster, &places, &noop(), Course::Completed).await;
}

#[tokio::test]
async fn docker_create_start_and_wait() {
    let Some(mut cluster) = Cluster::of(1).await else { return };
    let places = [
        agent("docker.create", ALL),
        agent("docker.created", BEHIND),
        agent("docker.start", ALL),
        agent("docker.started", BEHIND),
        agent("docker.wait", ALL),
        agent("docker.waited", BEHIND),
    ];
    let job = batch(&cluster.image, &["echo", "still here"]);
    go_through(&mut cluster, &places, &job, Course::Completed).await;
    nothing_is_left_after_a_sweep(&mut cluster).await;
}

#[tokio::test]
async fn docker_collect_and_remove() {
    let Some(mut cluster) = Cluster::of(1).await else { return };
    let places = [
        agent("collect.before", ALL),
        agent("collect.after", BEHIND),
        agent("docker.remove", ALL),
        agent("docker.removed", BEHIND),
    ];
    let job = batch(&cluster.image, &["echo", "still here"]);
    go_through(&mut cluster, &places, &job, Course::Completed).await;
    nothing_is_left_after_a_sweep(&mut cluster).await;
}

#[tokio::test]
async fn docker_stop() {
    let Some(mut cluster) = Cluster::of(1).await else { return };
    let places = [agent("docker.stop", ALL), agent("docker.stopped", BEHIND)];
    let job = batch(&cluster.image, &["sleep", "600"]);
    go_through(&mut cluster, &places, &job, Course::Stopped).await;
    nothing_is_left_after_a_sweep(&mut cluster).await;
}

async fn noop_cluster() -> Cluster {
    ClusterSpec::new().agent(AgentSpec::new().engines("noop")).start_without_docker().await
}

async fn go_through(cluster: &mut Cluster, places: &[Place], job: &Value, course: Course) {
    let mut table = format!("{:<21} {:<7} {:>4}  what came of it\n", "place", "fault", "hits");
    for place in places {
        for action in place.actions {
            let came = run(cluster, place, action, job, course).await;
            let hits = daemon(cluster, place.side).failpoints().hits(place.name, action);
            let _ = writeln!(table, "{:<21} {action:<7} {hits:>4}  {came}", place.name);
        }
    }
    // Past the test harness, which shows only what failed tests print.
    let _ = write!(std::io::stderr(), "\n{table}");
}

async fn run(
    cluster: &mut Cluster,
    place: &Place,
    action: &str,
    job: &Value,
    course: Course,
) -> String {
    let (side, key) = (place.side, format!("{}-{action}", place.name));
    let deaths_before = daemon(cluster, side).deaths();
    let id = match course {
        Course::Completed => {
            daemon(cluster, side).failpoints().arm(place.name, action).await;
            cluster.submit_stubbornly(job, &key).await
        }
        Course::Stopped => {
            let id = cluster.submit_stubbornly(job, &key).await;
            cluster.execution_in(id, ComputeState::BidAccepted).await;
            daemon(cluster, side).failpoints().arm(place.name, action).await;
            cluster.client().stop_job(id, "").await.expect("it runs, so it can be stopped");
            id
        }
    };
    // A process that kills itself is there for some moments more.
    let deaths_wanted = deaths_before + u32::from(action == CRASH);
    eventually(&format!("{key} has happened"), async || {
        cluster.revive().await;
        let daemon = daemon(cluster, side);
        let (hits, deaths) = (daemon.failpoints().hits(place.name, action), daemon.deaths());
        if hits == 1 && deaths == deaths_wanted {
            Ok(())
        } else {
            Err(format!("hits: {hits}, deaths: {}", deaths - deaths_before))
        }
    })
    .await;
    let Ending { state, executions } = cluster.ending(id).await;
    match course {
        Course::Completed => assert_eq!(state, JobStateType::Completed, "{key}"),
        Course::Stopped => assert_eq!(state, JobStateType::Stopped, "{key}"),
    }
    assert_eq!(cluster.submit_stubbornly(job, &key).await, id, "{key}: the answer is kept");
    assert_eq!(daemon(cluster, side).deaths(), deaths_wanted, "{key}: nothing else dies");
    let died = if action == CRASH { "the process died; " } else { "" };
    let plural = if executions == 1 { "" } else { "s" };
    format!("{died}job {state} by {executions} execution{plural}")
}

fn daemon(cluster: &Cluster, side: Side) -> &Daemon {
    match side {
        Side::Orchestrator => &cluster.orchestrator,
        Side::Agent => &cluster.agents[0],
    }
}

/// What could not be removed is found by the sweep, the first of which is soon after a start.
async fn nothing_is_left_after_a_sweep(cluster: &mut Cluster) {
    for agent in &mut cluster.agents {
        agent.kill();
        agent.start_again().await;
    }
    cluster.no_container_left().await;
}
