//! Docker jobs compared to docker without the service.
//!
//! The comparison through the Engine API uses the same container configuration as the service,
//! including limits and dropped privileges, since these affect the start of a container.

use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use api_types::execution::ComputeState;
use api_types::job::JobStateType;
use bollard::Docker;
use bollard::models::{ContainerCreateBody, HostConfig};
use bollard::query_parameters::{
    CreateContainerOptions, InspectContainerOptions, RemoveContainerOptions, WaitContainerOptions,
};
use futures_util::StreamExt;
use serde_json::{Value, json};
use tokio::process::Command;

use super::measure::{Difference, Measure, Target, median, median_round, millis, rate, ratio};
use super::scale::Scale;
use testbed::harness::{AgentSpec, Cluster, ClusterSpec, batch, eventually_within};

/// Concurrent containers.
const AT_ONCE: u32 = 8;

/// Half as many again as containers: sandboxes of ended tasks are being inspected.
const SANDBOXES: u16 = 12;

/// Number of rounds, of which the median counts.
const ROUNDS: usize = 5;

/// A short lease, so that the measurement is quick.
const LEASE_SECONDS: u64 = 5;

/// Time limit for the replacement of a killed node's work.
const TIMEOUT: Duration = Duration::from_secs(60);

pub(super) async fn measure(scale: Scale) -> anyhow::Result<Vec<Measure>> {
    // Capacity for exactly [`AT_ONCE`] tasks.
    let agent = AgentSpec::new().cpu("4").memory("8GB").sandbox_pool(SANDBOXES);
    let cluster = ClusterSpec::new().agent(agent).start().await.context("no Docker Engine")?;
    let docker = task_image::docker::connect().await?;
    let image = cluster.image.clone();
    let count = scale.containers;
    let host_config = host_config_of_a_job(&cluster, &docker).await?;

    let (mut rounds_none, mut rounds_full) = (Vec::new(), Vec::new());
    // Alternate, so that a machine that slows down affects both.
    for _ in 0..ROUNDS {
        let peer = command_line(&image, count).await?;
        let ours = job_rate(&cluster, "None", count).await?;
        rounds_none.push([ours, peer]);
        let floor = engine_api(&docker, &image, &host_config, count).await?;
        let ours = job_rate(&cluster, "Full", count).await?;
        rounds_full.push([ours, floor]);
    }
    let row = |what: &str, against: &str, rounds: &mut [[f64; 2]], target| {
        let ratio = ratio(&median_round(rounds));
        let context = rounds.iter().map(|[ours, theirs]| format!("{ours:.1}/s : {theirs:.1}/s"));
        let context = format!("to {against}: {}", context.collect::<Vec<_>>().join(", "));
        Measure::new(what, (ratio, ""), target, context)
    };
    let mut measures = vec![
        row(
            "docker jobs without network, 8 in parallel, of the peer's rate",
            "docker run --rm --network none",
            &mut rounds_none,
            Target::AtLeast(1.6),
        ),
        row(
            "docker jobs with network, 8 in parallel, of the floor's rate",
            "the Engine API",
            &mut rounds_full,
            Target::AtLeast(0.95),
        ),
    ];
    measures.push(service_overhead(&cluster, &docker, &host_config, scale).await?);
    Ok(measures)
}

fn job_of(image: &str, network: &str, count: u32) -> Value {
    let mut job = batch(image, &["exit", "0"]);
    job["Count"] = json!(count);
    job["Tasks"][0]["Network"] = json!({ "Type": network });
    job
}

async fn job_rate(cluster: &Cluster, network: &str, count: u32) -> anyhow::Result<f64> {
    // Containers of the previous job are removed before the clock starts.
    cluster.no_container_left().await;
    let begin = Instant::now();
    run_job(cluster, &job_of(&cluster.image, network, count)).await?;
    cluster.no_container_left().await;
    Ok(rate(count.into(), begin.elapsed()))
}

/// Submits a job and waits for its end by long polls.
async fn run_job(cluster: &Cluster, job: &Value) -> anyhow::Result<()> {
    let id = cluster.submit(job).await;
    let mut revision = 0;
    loop {
        let wait = Duration::from_secs(30);
        let job = cluster.client().await_job(id, wait, revision).await?;
        match job.state.state_type {
            JobStateType::Completed => return Ok(()),
            state if state.is_terminal() => bail!("the job is {state}: {}", job.state.message),
            _ => revision = job.revision,
        }
    }
}

/// Rate of `docker run --rm --network none` with the same count and concurrency.
async fn command_line(image: &str, count: u32) -> anyhow::Result<f64> {
    let begin = Instant::now();
    let runs = futures_util::stream::iter(0..count).map(|_| async {
        let status = Command::new("docker")
            .args(["run", "--rm", "--network", "none", image, "exit", "0"])
            .status()
            .await?;
        anyhow::ensure!(status.success(), "docker run: {status}");
        anyhow::Ok(())
    });
    let done: Vec<_> = runs.buffer_unordered(AT_ONCE as usize).collect().await;
    done.into_iter().collect::<anyhow::Result<()>>()?;
    Ok(rate(count.into(), begin.elapsed()))
}

/// The configuration of the container of a job with network.
async fn host_config_of_a_job(cluster: &Cluster, docker: &Docker) -> anyhow::Result<HostConfig> {
    let mut job = job_of(&cluster.image, "Full", 1);
    job["Tasks"][0]["Engine"]["Params"]["Parameters"] = json!(["sleep", "600000"]);
    let id = cluster.submit(&job).await;
    let execution = cluster.wait_for_execution(id, ComputeState::BidAccepted).await;
    let name = format!("execution-{}", execution.id);
    let container = docker.inspect_container(&name, None::<InspectContainerOptions>).await?;
    cluster.client().stop_job(id, "inspected").await?;
    cluster.no_container_left().await;
    let host_config = container.host_config.context("a container has a host configuration")?;
    // By hand there is no sandbox.
    Ok(HostConfig { network_mode: Some("bridge".to_owned()), ..host_config })
}

async fn engine_api(
    docker: &Docker,
    image: &str,
    host_config: &HostConfig,
    count: u32,
) -> anyhow::Result<f64> {
    let begin = Instant::now();
    let runs =
        futures_util::stream::iter(0..count).map(|_| without_service(docker, image, host_config));
    let done: Vec<_> = runs.buffer_unordered(AT_ONCE as usize).collect().await;
    done.into_iter().collect::<anyhow::Result<()>>()?;
    Ok(rate(count.into(), begin.elapsed()))
}

/// Creates, starts, awaits and removes one container through the Engine API.
async fn without_service(
    docker: &Docker,
    image: &str,
    host_config: &HostConfig,
) -> anyhow::Result<()> {
    let body = ContainerCreateBody {
        image: Some(image.to_owned()),
        cmd: Some(vec!["exit".to_owned(), "0".to_owned()]),
        host_config: Some(host_config.clone()),
        ..ContainerCreateBody::default()
    };
    let id = docker.create_container(None::<CreateContainerOptions>, body).await?.id;
    docker.start_container(&id, None).await?;
    let options = WaitContainerOptions { condition: "not-running".to_owned() };
    let mut ended = std::pin::pin!(docker.wait_container(&id, Some(options)));
    while let Some(end) = ended.next().await {
        end?;
    }
    docker.remove_container(&id, None::<RemoveContainerOptions>).await?;
    Ok(())
}

/// Overhead of the service for one container on an idle machine: the median difference between
/// consecutive runs with and without the service, so that slow drifts of the machine cancel out.
async fn service_overhead(
    cluster: &Cluster,
    docker: &Docker,
    host_config: &HostConfig,
    scale: Scale,
) -> anyhow::Result<Measure> {
    let mut pairs = Vec::new();
    for _ in 0..scale.slow_samples {
        let begin = Instant::now();
        run_job(cluster, &job_of(&cluster.image, "Full", 1)).await?;
        let ours = begin.elapsed();
        cluster.no_container_left().await;
        let begin = Instant::now();
        without_service(docker, &cluster.image, host_config).await?;
        pairs.push([ours, begin.elapsed()]);
    }
    let Difference { median: overhead, error } = Difference::from_pairs(&pairs);
    let [ours, hand] = [0, 1]
        .map(|one| millis(median(&mut pairs.iter().map(|pair| pair[one]).collect::<Vec<_>>())));
    Ok(Measure::new(
        "submit → Completed of one docker job, overhead, median",
        (overhead, "ms"),
        Target::AtMost(10.0),
        format!(
            "{ours:.0} ms against {hand:.0} ms without the service, {} pairs; ± {error:.1} ms",
            pairs.len()
        ),
    ))
}

/// Measures the time from the kill of a node until its work runs on another.
pub(super) async fn replacement() -> anyhow::Result<Vec<Measure>> {
    let spec = ClusterSpec::new()
        .setting("ORCHESTRATOR_NODE_TTL", &LEASE_SECONDS.to_string())
        .agent(AgentSpec::new())
        .agent(AgentSpec::new());
    let mut cluster = spec.start().await.context("no Docker Engine responds")?;
    let id = cluster.submit(&batch(&cluster.image, &["sleep", "600000"])).await;
    let first = cluster.wait_for_execution(id, ComputeState::BidAccepted).await;
    let holder = cluster.agents.iter_mut().find(|agent| agent.node_id() == first.node_id);
    let begin = Instant::now();
    holder.context("the node belongs to the cluster")?.kill();
    eventually_within(TIMEOUT, "the work to run on the other node", async || {
        let executions = cluster.executions(id).await;
        let runs = executions.iter().any(|execution| {
            execution.node_id != first.node_id
                && execution.compute_state.state_type == ComputeState::BidAccepted
        });
        if runs { Ok(()) } else { Err(format!("{} executions", executions.len())) }
    })
    .await;
    let elapsed = begin.elapsed().as_secs_f64();
    #[expect(clippy::cast_precision_loss, reason = "a few seconds")]
    let target = Target::AtMost((LEASE_SECONDS + 1) as f64);
    let context = format!("a lease of {LEASE_SECONDS} s, until the replacement's process runs");
    Ok(vec![Measure::new("work of a killed node is replaced", (elapsed, "s"), target, context)])
}
