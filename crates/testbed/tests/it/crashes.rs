//! An agent or a whole node crashes: tasks continue here or elsewhere, and none runs twice.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use api_client::HistoryQuery;
use api_types::engine::EngineType;
use api_types::execution::ComputeState;
use api_types::job::JobStateType;
use api_types::node::Connection;
use serde_json::{Value, json};
use task_image::docker;
use testbed::harness::{
    AgentSpec, Cluster, ClusterSpec, TIMEOUT, batch, eventually, eventually_within,
};

use crate::programs::{job, ticking};

#[tokio::test]
async fn a_task_survives_a_crash_of_its_agent_and_is_reported_with_all_output() {
    let Some(mut cluster) = Cluster::with_agents(1).await else { return };
    cluster.agents[0].misses_ends().await;
    let id = cluster.submit(&batch(&cluster.image, &["lines", "20", "stdout", "100"])).await;
    let before = cluster.wait_for_execution(id, ComputeState::BidAccepted).await;
    cluster.agents[0].kill();
    assert_eq!(cluster.containers().await.len(), 1, "the container runs without its agent");
    cluster.agents[0].restart().await;

    cluster.wait_for_job(id, JobStateType::Completed).await;
    let after = cluster.execution(id).await;
    assert_eq!((after.id, after.revision), (before.id, 6), "the execution is the same");
    let lines: Vec<_> = after.run_output.stdout.lines().collect();
    let expected: Vec<_> = (0..20).map(|number| format!("line {number}")).collect();
    assert_eq!(lines, expected);
    cluster.no_container_left().await;
}

#[tokio::test]
async fn another_node_takes_over_the_work_of_a_lost_node() {
    let spec = ClusterSpec::new()
        .setting("ORCHESTRATOR_NODE_TTL", "2")
        .agent(AgentSpec::new().label("zone", "a"));
    let Some(mut cluster) = spec.start().await else { return };
    let id = cluster.submit(&batch(&cluster.image, &["sleep", "600"])).await;
    let lost = cluster.wait_for_execution(id, ComputeState::BidAccepted).await;
    cluster.add_agent(&AgentSpec::new().label("zone", "b")).await;
    cluster.agents[0].kill();

    let (lost_node, other_node) = (cluster.agents[0].node_id(), cluster.agents[1].node_id());
    let live = eventually("another node runs it", async || {
        let executions = cluster.executions(id).await;
        let live = executions.iter().find(|one| {
            one.node_id == other_node && one.compute_state.state_type == ComputeState::BidAccepted
        });
        live.cloned().ok_or_else(|| format!("{executions:#?}"))
    })
    .await;
    let executions = cluster.executions(id).await;
    let failed = executions.iter().find(|one| one.id == lost.id).unwrap();
    assert_eq!(failed.compute_state.state_type, ComputeState::Failed);
    assert_eq!(failed.next_execution, Some(live.id));
    assert_eq!(live.previous_execution, Some(lost.id));
    let node = cluster.client().describe_node(lost_node).await.unwrap();
    assert_eq!(node.connection, Connection::Disconnected);

    // When the node returns it stops the replaced execution, and no late report changes the record.
    cluster.agents[0].restart().await;
    eventually("only the other node runs a container", async || {
        let containers = cluster.containers().await;
        let nodes: Vec<_> = containers.iter().map(|one| one.node_id.clone()).collect();
        if nodes == [other_node.to_string()] { Ok(()) } else { Err(format!("{containers:?}")) }
    })
    .await;
    let query = HistoryQuery { execution_id: Some(lost.id.to_string()), ..Default::default() };
    let events = cluster.history(id, &query).await;
    let last = events.last().and_then(|event| event.execution_state).unwrap();
    assert_eq!((last.previous, last.new), (ComputeState::BidAccepted, ComputeState::Failed));
    let job = cluster.client().describe_job(id).await.unwrap();
    assert_eq!(job.state.state_type, JobStateType::Running);
}

/// With a program that starts within milliseconds: how long a container takes to start is up to
/// Docker and to what else the machine does.
#[tokio::test]
async fn at_the_defaults_the_work_of_a_dead_node_runs_elsewhere_within_12_seconds() {
    let agent = AgentSpec::new().engines("wasm");
    let mut cluster = ClusterSpec::new().agent(agent.clone()).start_without_docker().await;
    let id = cluster.submit(&job(&ticking(6000, 0))).await;
    cluster.wait_for_execution(id, ComputeState::BidAccepted).await;
    cluster.add_agent(&agent).await;
    cluster.agents[0].kill();
    let death = Instant::now();
    let other_node = cluster.agents[1].node_id();
    eventually("another node runs it", async || {
        let executions = cluster.executions(id).await;
        let is_there = executions.iter().any(|one| {
            one.node_id == other_node && one.compute_state.state_type == ComputeState::BidAccepted
        });
        if is_there { Ok(()) } else { Err(format!("{executions:#?}")) }
    })
    .await;
    let took = death.elapsed();
    // An orchestrator that did not run for a while knows nothing of the silence during that time.
    let missed_heartbeats = cluster.orchestrator.missed_heartbeats();
    assert!(missed_heartbeats || took <= Duration::from_secs(12), "{took:?}");
}

#[tokio::test]
async fn a_task_that_ends_while_its_agent_is_down_is_reported_with_its_exit_code() {
    let Some(mut cluster) = Cluster::with_agents(1).await else { return };
    cluster.agents[0].misses_ends().await;
    let id = cluster.submit(&batch(&cluster.image, &["sleep", "1"])).await;
    cluster.wait_for_execution(id, ComputeState::BidAccepted).await;
    cluster.agents[0].kill();
    eventually("the container has ended", async || {
        let containers = cluster.containers().await;
        let ended = containers.iter().all(|container| container.state == "exited");
        if ended { Ok(()) } else { Err(format!("{containers:?}")) }
    })
    .await;
    cluster.agents[0].restart().await;
    cluster.wait_for_job(id, JobStateType::Completed).await;
    let execution = cluster.execution(id).await;
    assert_eq!(execution.run_output.exit_code, 0);
    assert_eq!(execution.run_output.stdout, "slept 1 s\n");
    cluster.no_container_left().await;
}

#[tokio::test]
async fn an_engine_that_the_settings_no_longer_name_ends_what_runs_under_it() {
    let spec = ClusterSpec::new().agent(AgentSpec::new().sandbox_pool(1));
    let Some(mut cluster) = spec.start().await else { return };
    let id = cluster.submit(&batch(&cluster.image, &["await"])).await;
    cluster.wait_for_execution(id, ComputeState::BidAccepted).await;
    cluster.agents[0].kill();
    cluster.agents[0].set_variable("COMPUTE_AGENT_ENGINES", "noop");
    cluster.agents[0].restart().await;
    eventually("the node offers the other engine alone", async || {
        let node = cluster.client().describe_node(cluster.agents[0].node_id()).await;
        let engines = node.map_err(|error| error.to_string())?.compute_node_info.execution_engines;
        if engines == [EngineType::Noop] { Ok(()) } else { Err(format!("{engines:?}")) }
    })
    .await;
    cluster.signal(id).await;
    cluster.wait_for_job(id, JobStateType::Completed).await;
    assert_eq!(cluster.execution(id).await.run_output.stdout, "waiting\nsignalled\n");
    cluster.no_container_left().await;
    cluster.agents[0].terminate().await;
    let engine = docker::connect().await.unwrap();
    let node = cluster.agents[0].node_id().to_string();
    assert_eq!(docker::sandboxes_of_node(&engine, &node).await.unwrap(), [], "it leaves none idle");
}

/// Overwrites the end of the Engine's log of a container, as the end of its machine may. Without
/// the permission it prints the reason and returns false, or panics when `CI` is set.
fn damage_log(container: &str) -> bool {
    let root = Command::new("docker").args(["info", "--format", "{{.DockerRootDir}}"]).output();
    let root = String::from_utf8(root.expect("docker is installed").stdout).expect("a path");
    let directory = Path::new(root.trim()).join("containers").join(container);
    let log = directory.join("local-logs/container.log");
    let damaged = OpenOptions::new().write(true).open(&log).and_then(|file| {
        let end = file.metadata()?.len();
        file.write_all_at(&[0xFF; 100], end - 100)
    });
    match damaged {
        Ok(()) => true,
        Err(error) if std::env::var_os("CI").is_some() => panic!("{}: {error}", log.display()),
        Err(error) => {
            eprintln!("skipped: cannot write to {}: {error}", log.display());
            false
        }
    }
}

#[tokio::test]
async fn a_damaged_log_costs_the_end_of_the_output_and_no_second_run() {
    const LINES: u32 = 40;
    let Some(mut cluster) = Cluster::with_agents(1).await else { return };
    cluster.agents[0].misses_ends().await;
    let count = LINES.to_string();
    let id = cluster.submit(&batch(&cluster.image, &["lines", &count, "stdout", "50"])).await;
    cluster.wait_for_execution(id, ComputeState::BidAccepted).await;
    cluster.agents[0].kill();
    let container = eventually("the container has ended", async || {
        let containers = cluster.containers().await;
        match containers.as_slice() {
            [one] if one.state == "exited" => Ok(one.id.clone()),
            _ => Err(format!("{containers:?}")),
        }
    })
    .await;
    if !damage_log(&container) {
        return;
    }
    cluster.agents[0].restart().await;
    // It asks for the output again and again for half a minute.
    eventually_within(2 * TIMEOUT, "the job has ended", async || {
        let state = cluster.client().describe_job(id).await.map_err(|error| error.to_string())?;
        match state.state.state_type {
            JobStateType::Completed => Ok(()),
            other => Err(other.to_string()),
        }
    })
    .await;
    let execution = cluster.execution(id).await;
    // The Engine may drop what it has read when it comes upon the damage.
    let whole: String = (0..LINES).map(|number| format!("line {number}\n")).collect();
    let stdout = &execution.run_output.stdout;
    assert!(whole.starts_with(stdout.as_str()) && stdout.len() < whole.len(), "{execution:?}");
    let message = &execution.compute_state.message;
    let words = "its output is incomplete: cannot read the output of this execution: docker says: ";
    assert!(message.contains(words), "{message}");
    cluster.no_container_left().await;
}

/// Longer than the task, and passed before the next agent starts.
const DEADLINE: Duration = Duration::from_secs(4);

/// Of two jobs with this deadline, the agent of the first dies, and the first ends in time while no
/// agent watches it; the second runs on.
async fn the_deadline_passes_while_the_agent_is_down(mut cluster: Cluster, jobs: [Value; 2]) {
    let [in_time, late] = jobs.map(|mut job| {
        job["Tasks"][0]["Timeouts"] = json!({ "ExecutionTimeout": DEADLINE.as_secs() });
        job
    });
    cluster.agents[0].misses_ends().await;
    let (in_time, late) = (cluster.submit(&in_time).await, cluster.submit(&late).await);
    for id in [in_time, late] {
        cluster.wait_for_execution(id, ComputeState::BidAccepted).await;
    }
    cluster.agents[0].kill();
    tokio::time::sleep(DEADLINE + Duration::from_secs(1)).await;
    cluster.agents[0].restart().await;
    cluster.wait_for_job(in_time, JobStateType::Completed).await;
    assert_eq!(cluster.execution(in_time).await.run_output.exit_code, 0);
    cluster.wait_for_job(late, JobStateType::Failed).await;
    let message = cluster.execution(late).await.compute_state.message;
    assert!(message.starts_with("execution timeout: still running after 4 s"), "{message}");
}

#[tokio::test]
async fn a_container_that_ends_in_time_while_its_agent_is_down_has_not_timed_out() {
    let Some(cluster) = Cluster::with_agents(1).await else { return };
    let sleeps = |seconds| batch(&cluster.image, &["sleep", seconds]);
    let jobs = [sleeps("1"), sleeps("600")];
    the_deadline_passes_while_the_agent_is_down(cluster, jobs).await;
}

#[tokio::test]
async fn a_program_that_ends_in_time_while_its_agent_is_down_has_not_timed_out() {
    let agent = AgentSpec::new().engines("wasm");
    let cluster = ClusterSpec::new().agent(agent).start_without_docker().await;
    let jobs = [job(&ticking(10, 0)), job(&ticking(6000, 0))];
    the_deadline_passes_while_the_agent_is_down(cluster, jobs).await;
}
