//! The Docker Engine becomes unreachable under load and returns.
//!
//! Other tests and users share the Engine, so these tests only cut the agent's connection to it.
//! `CHAOS_DOCKER_RESTART` permits a real restart: it contains the command.

use std::process::Command;
use std::time::Duration;

use api_types::JobId;
use api_types::job::JobStateType;
use serde_json::{Value, json};
use testbed::harness::{AgentSpec, Cluster, ClusterSpec, DockerProxy, batch, eventually};

const JOBS: usize = 6;

/// Longer than two of the agent's probes of the Engine.
const ABSENCE: Duration = Duration::from_secs(6);

/// Prints three lines per second, so that gaps and repeats in the output show.
const LINES: [&str; 4] = ["lines", "30", "stdout", "300"];

fn expected_output() -> String {
    (0..30).map(|line| format!("line {line}\n")).collect()
}

#[tokio::test]
async fn work_waits_for_an_unreachable_engine() {
    let Some(mut proxy) = DockerProxy::open_to_docker() else { return };
    let agent = AgentSpec::new().cpu("2").setting("COMPUTE_AGENT_DOCKER__HOST", &proxy.host());
    let Some(mut cluster) = ClusterSpec::new().agent(agent).start().await else { return };
    let printing = cluster.submit(&batch(&cluster.image, &LINES)).await;
    cluster.wait_for_job(printing, JobStateType::Running).await;
    let mut job = batch(&cluster.image, &["sleep", "1"]);
    job["Count"] = json!(2);
    let jobs = submit_many(&mut cluster, &job).await;

    proxy.close().await;
    let late = cluster.submit_with_retries(&batch(&cluster.image, &["echo", "x"]), "late").await;
    tokio::time::sleep(ABSENCE).await;
    proxy.open();

    for id in jobs.into_iter().chain([late]) {
        assert_eq!(cluster.ending(id).await.state, JobStateType::Completed);
    }
    let ending = cluster.ending(printing).await;
    assert_eq!((ending.state, ending.executions), (JobStateType::Completed, 1));
    assert_eq!(cluster.execution(printing).await.run_output.stdout, expected_output());
    cluster.no_container_left().await;
}

#[tokio::test]
async fn a_killed_agent_adopts_its_containers_when_the_engine_returns() {
    let Some(mut proxy) = DockerProxy::open_to_docker() else { return };
    let agent = AgentSpec::new().setting("COMPUTE_AGENT_DOCKER__HOST", &proxy.host());
    let Some(mut cluster) = ClusterSpec::new().agent(agent).start().await else { return };
    let printing = cluster.submit(&batch(&cluster.image, &LINES)).await;
    let ended = cluster.submit(&batch(&cluster.image, &["await"])).await;
    for id in [printing, ended] {
        cluster.wait_for_job(id, JobStateType::Running).await;
    }
    proxy.close().await;
    cluster.agents[0].kill();
    cluster.signal(ended).await;
    cluster.agents[0].restart().await;
    eventually("one of the containers has ended", async || {
        let containers = cluster.containers().await;
        let left: Vec<_> = containers.iter().map(|one| one.state.as_str()).collect();
        if left.contains(&"exited") { Ok(()) } else { Err(format!("{left:?}")) }
    })
    .await;
    proxy.open();
    for id in [printing, ended] {
        let ending = cluster.ending(id).await;
        assert_eq!((ending.state, ending.executions), (JobStateType::Completed, 1));
    }
    assert_eq!(cluster.execution(printing).await.run_output.stdout, expected_output());
    cluster.no_container_left().await;
}

/// Simulates a restart of the Engine: every container ends, and the Engine returns.
#[tokio::test]
async fn tasks_that_end_with_the_engine_run_again_with_a_single_attempt() {
    let Some(mut proxy) = DockerProxy::open_to_docker() else { return };
    let agent = AgentSpec::new().cpu("2").setting("COMPUTE_AGENT_DOCKER__HOST", &proxy.host());
    let Some(mut cluster) = ClusterSpec::new().agent(agent).start().await else { return };
    let job = single_attempt(&cluster.image);
    let jobs = submit_many(&mut cluster, &job).await;
    cluster.wait_for_job(jobs[0], JobStateType::Running).await;

    proxy.close().await;
    let ended = kill_all(&cluster).await;
    tokio::time::sleep(ABSENCE).await;
    proxy.open();

    let mut executions = 0;
    for id in &jobs {
        let ending = cluster.ending(*id).await;
        assert_eq!(ending.state, JobStateType::Completed);
        executions += ending.executions;
    }
    assert_eq!(executions, 2 * JOBS + ended, "one more for each container that ended");
    cluster.no_container_left().await;
}

#[tokio::test]
async fn a_restart_of_the_engine_under_load_loses_no_job() {
    let Ok(command) = std::env::var("CHAOS_DOCKER_RESTART") else {
        eprintln!("skipped: CHAOS_DOCKER_RESTART is not set to a command that restarts docker");
        return;
    };
    let Some(mut cluster) = Cluster::with_agents(2).await else { return };
    let job = single_attempt(&cluster.image);
    let jobs = submit_many(&mut cluster, &job).await;
    cluster.wait_for_job(jobs[0], JobStateType::Running).await;
    let status = Command::new("sh").args(["-c", &command]).status().unwrap();
    assert!(status.success(), "'{command}': {status}");
    for id in jobs {
        assert_eq!(cluster.ending(id).await.state, JobStateType::Completed);
    }
    cluster.no_container_left().await;
}

/// A job whose processes may end with the Engine, which is no failure of theirs, unless it keeps
/// containers alive.
fn single_attempt(image: &str) -> Value {
    let mut job = batch(image, &["sleep", "3"]);
    job["Count"] = json!(2);
    job["RetryPolicy"] = json!({ "Attempts": 1 });
    job
}

/// Kills the running containers directly, bypassing the agent's proxy; returns how many ended by it
/// and not by themselves just before.
async fn kill_all(cluster: &Cluster) -> usize {
    let mut killed = 0;
    for container in cluster.containers().await.iter().filter(|one| one.state == "running") {
        let status = Command::new("docker").args(["kill", &container.id]).status();
        killed += usize::from(status.expect("docker is installed").success());
    }
    assert!(killed > 0, "every container had ended before it was killed");
    killed
}

async fn submit_many(cluster: &mut Cluster, job: &Value) -> Vec<JobId> {
    let mut ids = Vec::new();
    for number in 0..JOBS {
        ids.push(cluster.submit_with_retries(job, &format!("job-{number}")).await);
    }
    ids
}
