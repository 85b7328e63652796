//! The Docker Engine goes away under load and comes back.
//!
//! Other tests, and other people, use the same Engine; so here it is only the agent's way to it
//! that is closed. `CHAOS_DOCKER_RESTART` holds a command that really restarts it, and thereby
//! allows that it is run.

use std::process::Command;
use std::time::Duration;

use api_types::JobId;
use api_types::job::JobStateType;
use serde_json::{Value, json};
use testbed::harness::{AgentSpec, Cluster, ClusterSpec, DockerDoor, batch, eventually};

const JOBS: usize = 6;

/// Longer than the agent looks twice whether the Engine is there.
const ABSENCE: Duration = Duration::from_secs(6);

/// Three times a second, so that a gap or a repeat in the output would show.
const LINES: [&str; 4] = ["lines", "30", "stdout", "300"];

fn expected_output() -> String {
    (0..30).map(|line| format!("line {line}\n")).collect()
}

#[tokio::test]
async fn work_waits_for_an_engine_that_is_away() {
    let Some(mut door) = DockerDoor::open_to_docker() else { return };
    let agent = AgentSpec::new().cpu("2").setting("COMPUTE_AGENT_DOCKER__HOST", &door.host());
    let Some(mut cluster) = ClusterSpec::new().agent(agent).start().await else { return };
    let talking = cluster.submit(&batch(&cluster.image, &LINES)).await;
    cluster.job_in(talking, JobStateType::Running).await;
    let mut job = batch(&cluster.image, &["sleep", "1"]);
    job["Count"] = json!(2);
    let jobs = submit_many(&mut cluster, &job).await;

    door.close().await;
    let late = cluster.submit_stubbornly(&batch(&cluster.image, &["echo", "x"]), "late").await;
    tokio::time::sleep(ABSENCE).await;
    door.open();

    for id in jobs.into_iter().chain([late]) {
        assert_eq!(cluster.ending(id).await.state, JobStateType::Completed);
    }
    let ending = cluster.ending(talking).await;
    assert_eq!((ending.state, ending.executions), (JobStateType::Completed, 1));
    assert_eq!(cluster.execution(talking).await.run_output.stdout, expected_output());
    cluster.no_container_left().await;
}

#[tokio::test]
async fn an_agent_that_is_killed_takes_its_containers_up_when_the_engine_is_back() {
    let Some(mut door) = DockerDoor::open_to_docker() else { return };
    let agent = AgentSpec::new().setting("COMPUTE_AGENT_DOCKER__HOST", &door.host());
    let Some(mut cluster) = ClusterSpec::new().agent(agent).start().await else { return };
    let talking = cluster.submit(&batch(&cluster.image, &LINES)).await;
    let ended = cluster.submit(&batch(&cluster.image, &["sleep", "2"])).await;
    for id in [talking, ended] {
        cluster.job_in(id, JobStateType::Running).await;
    }
    door.close().await;
    cluster.agents[0].kill();
    cluster.agents[0].start_again().await;
    eventually("one of them has ended meanwhile", async || {
        let containers = cluster.containers().await;
        let left: Vec<_> = containers.iter().map(|one| one.state.as_str()).collect();
        if left.contains(&"exited") { Ok(()) } else { Err(format!("{left:?}")) }
    })
    .await;
    door.open();
    for id in [talking, ended] {
        let ending = cluster.ending(id).await;
        assert_eq!((ending.state, ending.executions), (JobStateType::Completed, 1));
    }
    assert_eq!(cluster.execution(talking).await.run_output.stdout, expected_output());
    cluster.no_container_left().await;
}

/// What a restart does, seen from an agent: every container ends, and the Engine comes back.
#[tokio::test]
async fn what_ends_together_with_the_engine_is_done_again() {
    let Some(mut door) = DockerDoor::open_to_docker() else { return };
    let agent = AgentSpec::new().cpu("2").setting("COMPUTE_AGENT_DOCKER__HOST", &door.host());
    let Some(mut cluster) = ClusterSpec::new().agent(agent).start().await else { return };
    let job = patient(&cluster.image);
    let jobs = submit_many(&mut cluster, &job).await;
    cluster.job_in(jobs[0], JobStateType::Running).await;

    door.close().await;
    let ended = kill_all(&cluster).await;
    tokio::time::sleep(ABSENCE).await;
    door.open();

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
        eprintln!("skipped: CHAOS_DOCKER_RESTART holds no command that restarts docker");
        return;
    };
    let Some(mut cluster) = Cluster::of(2).await else { return };
    let job = patient(&cluster.image);
    let jobs = submit_many(&mut cluster, &job).await;
    cluster.job_in(jobs[0], JobStateType::Running).await;
    let status = Command::new("sh").args(["-c", &command]).status().unwrap();
    assert!(status.success(), "'{command}': {status}");
    for id in jobs {
        assert_eq!(cluster.ending(id).await.state, JobStateType::Completed);
    }
    cluster.no_container_left().await;
}

/// A job whose processes may end with the Engine, unless that keeps containers alive.
fn patient(image: &str) -> Value {
    let mut job = batch(image, &["sleep", "3"]);
    job["Count"] = json!(2);
    job["RetryPolicy"] = json!({ "Attempts": 10, "Delay": 1 });
    job
}

/// Kills the containers that run, past the agent's closed door; answers how many those were.
async fn kill_all(cluster: &Cluster) -> usize {
    let mut running = cluster.containers().await;
    running.retain(|one| one.state == "running");
    let mut docker = Command::new("docker");
    docker.arg("kill").args(running.iter().map(|one| &one.id));
    let status = docker.status().expect("docker is there");
    assert!(status.success() && !running.is_empty(), "{docker:?}: {status}");
    running.len()
}

async fn submit_many(cluster: &mut Cluster, job: &Value) -> Vec<JobId> {
    let mut ids = Vec::new();
    for number in 0..JOBS {
        ids.push(cluster.submit_stubbornly(job, &format!("job-{number}")).await);
    }
    ids
}
