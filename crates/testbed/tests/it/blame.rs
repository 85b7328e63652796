//! Who is to blame for a failure: a node backs off when its own probe fails, and no job makes it.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use api_types::JobId;
use api_types::execution::{ComputeState, Execution};
use api_types::job::JobStateType;
use api_types::node::{HealthState, NodeHealth};
use peers::engine::{Broken, EngineProxy};
use serde_json::{Value, json};
use testbed::harness::{
    Agent, AgentSpec, Cluster, ClusterSpec, DataUrl, batch, binary, eventually, eventually_within,
};

/// Failures of a node in a row until it backs off.
const FAILURES: usize = 3;

/// The longest back-off of a test, with its probe: a busy machine may fail a probe or two.
const RECOVERY: Duration = Duration::from_secs(180);

/// Tasks of default size that two nodes of these tests run at a time.
const ROOM: usize = 8;

/// A file of the task image, where no directory can be.
const FILE: &str = "/task";

/// The label of the node that is broken.
const NODE: &str = "node";

fn behind(proxy: &EngineProxy, name: &str) -> AgentSpec {
    AgentSpec::new()
        .label(NODE, name)
        .setting("COMPUTE_AGENT_DOCKER__HOST", &proxy.host())
        .setting("COMPUTE_AGENT_ALLOW_NETWORK", "true")
}

async fn health(cluster: &Cluster, agent: &Agent) -> NodeHealth {
    cluster.client().describe_node(agent.node_id()).await.expect("it is known").health
}

async fn is_healthy(cluster: &Cluster, agent: &Agent) {
    eventually_within(RECOVERY, "the node is healthy", async || {
        match health(cluster, agent).await {
            NodeHealth { state: HealthState::Healthy, .. } => Ok(()),
            other => Err(format!("{}: {}", other.state, other.reason)),
        }
    })
    .await;
}

async fn failed(cluster: &Cluster, job: JobId) -> usize {
    let executions = cluster.executions(job).await;
    executions.iter().filter(|one| one.compute_state.state_type == ComputeState::Failed).count()
}

/// Three jobs of one namespace fail on the node, one after the other. It backs off, and is healthy
/// again once it is repaired, although no job waits for it.
async fn backs_off_and_recovers(cluster: &Cluster, job: &Value, repair: impl FnOnce()) {
    let agent = &cluster.agents[0];
    let mut jobs = Vec::new();
    for _ in 0..FAILURES {
        let id = cluster.submit(job).await;
        eventually("it has failed", async || match failed(cluster, id).await {
            0 => Err("not yet".to_owned()),
            _ => Ok(()),
        })
        .await;
        jobs.push(id);
    }
    let reason = eventually("the node backs off", async || match health(cluster, agent).await {
        NodeHealth { state: HealthState::BackingOff, reason, .. } => Ok(reason),
        other => Err(format!("{}: {}", other.state, other.reason)),
    })
    .await;
    assert!(!reason.is_empty());
    for id in jobs {
        assert_eq!(failed(cluster, id).await, 1, "each failed once: {reason}");
        cluster.client().stop_job(id, "").await.expect("it is stopped");
        cluster.ending(id).await;
    }
    repair();
    is_healthy(cluster, agent).await;
    let id = cluster.submit(job).await;
    cluster.wait_for_job(id, JobStateType::Completed).await;
    assert_eq!(cluster.execution(id).await.node_id, agent.node_id());
}

async fn breaks(change: impl FnOnce(Value) -> Value, broken: impl FnOnce(&Path) -> Broken) {
    let Some(proxy) = EngineProxy::open() else { return };
    let data = tempfile::tempdir().expect("a directory");
    let data_dir = data.path().join("data").display().to_string();
    let spec = behind(&proxy, "broken").setting("COMPUTE_AGENT_DATA_DIR", &data_dir);
    let Some(cluster) = ClusterSpec::new().agent(spec).start().await else { return };
    let real = std::fs::canonicalize(data.path()).expect("it exists");
    proxy.breaks(broken(&real));
    let job = change(batch(&cluster.image, &["echo", "x"]));
    backs_off_and_recovers(&cluster, &job, || proxy.is_repaired()).await;
    assert_eq!(proxy.most_twins(), 1);
}

#[tokio::test]
async fn a_node_that_starts_nothing_backs_off_and_recovers_without_a_job() {
    breaks(|job| job, |_| Broken::Starts).await;
}

#[tokio::test]
async fn a_node_without_a_working_network_backs_off_and_recovers_without_a_job() {
    let with_network = |mut job: Value| {
        job["Tasks"][0]["Network"] = json!({ "Type": "Full" });
        job
    };
    breaks(with_network, |_| Broken::Network).await;
}

#[tokio::test]
async fn a_node_that_mounts_nothing_of_its_disk_backs_off_and_recovers_without_a_job() {
    let with_input = |mut job: Value| {
        let source = json!({ "Type": "inline", "Params": { "URL": DataUrl::text("x") } });
        job["Tasks"][0]["InputSources"] = json!([{ "Source": source, "Target": "/inputs/x" }]);
        job
    };
    breaks(with_input, |data| Broken::Mounts(data.to_owned())).await;
}

/// A runner that fails every run while the file exists.
fn wrapper(directory: &Path) -> (PathBuf, PathBuf) {
    let (path, broken) = (directory.join("wasm-runner"), directory.join("broken"));
    let script = format!(
        "#!/bin/sh\nif [ \"$1\" = run ] && [ -e {} ]; then echo damaged >&2; exit 3; fi\nexec {} \"$@\"\n",
        broken.display(),
        binary("wasm-runner").display()
    );
    std::fs::write(&path, script).expect("a script");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("its mode");
    (path, broken)
}

#[tokio::test]
async fn a_node_whose_wasm_runner_fails_backs_off_and_recovers_without_a_job() {
    let directory = tempfile::tempdir().unwrap();
    let (runner, broken) = wrapper(directory.path());
    let spec = AgentSpec::new()
        .label(NODE, "broken")
        .engines("wasm")
        .setting("COMPUTE_AGENT_WASM__RUNNER", &runner.display().to_string());
    let cluster = ClusterSpec::new().agent(spec).start_without_docker().await;
    std::fs::write(&broken, "").unwrap();
    let module =
        wat::parse_str(r#"(module (memory (export "memory") 1) (func (export "_start")))"#);
    let url = DataUrl::bytes("application/wasm", &module.expect("a module"));
    let source = json!({ "Source": { "Type": "inline", "Params": { "URL": url } } });
    let job = json!({
        "Name": "nothing",
        "Type": "batch",
        "Count": 1,
        "Tasks": [{
            "Name": "main",
            "Engine": { "Type": "wasm", "Params": { "EntryModule": source } },
        }],
    });
    backs_off_and_recovers(&cluster, &job, || std::fs::remove_file(&broken).unwrap()).await;
}

#[tokio::test]
#[ignore = "long"]
async fn a_node_with_one_damaged_image_does_not_back_off_and_the_other_runs_its_jobs() {
    const JOBS: usize = 100;
    let Some(proxy) = EngineProxy::open() else { return };
    let spec = ClusterSpec::new()
        .agent(behind(&proxy, "damaged"))
        .agent(AgentSpec::new().label(NODE, "good"));
    let Some(cluster) = spec.start().await else { return };
    proxy.breaks(Broken::Image(cluster.image.clone()));
    let mut jobs = Vec::new();
    for _ in 0..JOBS {
        jobs.push(cluster.submit(&batch(&cluster.image, &["echo"])).await);
    }
    let mut refused = 0;
    for id in jobs {
        cluster.wait_for_job(id, JobStateType::Completed).await;
        let executions = cluster.executions(id).await;
        refused += executions.len() - 1;
        let last = executions.last().expect("it ran");
        assert_eq!(last.node_id, cluster.agents[1].node_id());
        let health = health(&cluster, &cluster.agents[0]).await;
        assert_eq!(health.state, HealthState::Healthy, "{}", health.reason);
    }
    assert!(refused > 0, "the damaged node was never tried");
    assert_eq!(proxy.most_twins(), 1);
}

fn state(execution: &Execution) -> ComputeState {
    execution.compute_state.state_type
}

#[tokio::test]
async fn an_array_that_no_node_can_start_fails_after_two_executions_of_one_slot() {
    let (Some(first), Some(second)) = (EngineProxy::open(), EngineProxy::open()) else { return };
    let spec = ClusterSpec::new().agent(behind(&first, "a")).agent(behind(&second, "b"));
    let Some(cluster) = spec.start().await else { return };
    let good = cluster.submit(&batch(&cluster.image, &["echo"])).await;
    let mut job = batch(&cluster.image, &["echo"]);
    job["Count"] = json!(1000);
    job["Tasks"][0]["Engine"]["Params"]["WorkingDirectory"] = json!(FILE);
    let id = cluster.submit(&job).await;
    let other = cluster.submit(&batch(&cluster.image, &["echo"])).await;
    let ending = cluster.ending(id).await;
    assert_eq!(ending.state, JobStateType::Failed);
    let executions = cluster.executions(id).await;
    // Those that the nodes had room for began before the first was refused.
    assert!(executions.len() <= ROOM + 1, "{} executions", executions.len());
    let failed: Vec<_> =
        executions.iter().filter(|one| state(one) == ComputeState::Failed).collect();
    let second_try = failed.last().expect("they failed");
    let tries: Vec<_> = failed.iter().filter(|one| one.name == second_try.name).collect();
    assert_eq!(tries.len(), 2, "{tries:#?}");
    assert_ne!(tries[0].node_id, tries[1].node_id);
    let message = &second_try.compute_state.message;
    assert!(message.contains("check WorkingDirectory"), "{message}");
    for id in [good, other] {
        cluster.wait_for_job(id, JobStateType::Completed).await;
    }
    for (proxy, agent) in [&first, &second].into_iter().zip(&cluster.agents) {
        assert!(proxy.most_twins() <= 2, "{}", proxy.most_twins());
        let health = health(&cluster, agent).await;
        assert_eq!(health.state, HealthState::Healthy, "{}", health.reason);
    }
}

#[tokio::test]
#[ignore = "long"]
async fn bad_parameters_at_a_high_priority_make_no_node_back_off() {
    const FIRST: usize = 8;
    const INTERVAL: Duration = Duration::from_secs(10);
    const LATER: usize = 5;
    let spec = ClusterSpec::new()
        .agent(AgentSpec::new().label(NODE, "a"))
        .agent(AgentSpec::new().label(NODE, "b"));
    let Some(cluster) = spec.start().await else { return };
    let bad = |number: usize| {
        let mut job = batch(&cluster.image, &["echo"]);
        job["Namespace"] = json!("hostile");
        job["Priority"] = json!(100);
        let task = &mut job["Tasks"][0];
        match number % 3 {
            0 => task["Engine"]["Params"]["WorkingDirectory"] = json!(FILE),
            1 => {
                let source = json!({ "Type": "inline", "Params": { "URL": DataUrl::text("x") } });
                let target = format!("{FILE}/x");
                task["InputSources"] = json!([{ "Source": source, "Target": target }]);
            }
            _ => task["ResultPaths"] = json!([{ "Name": "out", "Path": format!("{FILE}/x") }]),
        }
        job
    };
    let mut bad_jobs = Vec::new();
    for number in 0..FIRST {
        bad_jobs.push(cluster.submit(&bad(number)).await);
    }
    let (begun, mut next) = (Instant::now(), FIRST);
    while next < FIRST + LATER {
        let good = cluster.submit(&batch(&cluster.image, &["echo"])).await;
        cluster.wait_for_job(good, JobStateType::Completed).await;
        if begun.elapsed() > INTERVAL * u32::try_from(next - FIRST + 1).expect("few") {
            bad_jobs.push(cluster.submit(&bad(next)).await);
            next += 1;
        }
        for agent in &cluster.agents {
            let health = health(&cluster, agent).await;
            assert_eq!(health.state, HealthState::Healthy, "{}", health.reason);
        }
    }
    for id in bad_jobs {
        assert_eq!(cluster.ending(id).await.state, JobStateType::Failed);
    }
}
