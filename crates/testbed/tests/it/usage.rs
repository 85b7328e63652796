//! What executions use: live while a client reads it, and in the record afterwards.

use std::process::Output;
use std::time::Duration;

use api_client::UsageQuery;
use api_types::JobId;
use api_types::curve::UsageCurve;
use api_types::execution::{ComputeState, Execution};
use api_types::job::JobStateType;
use api_types::usage::Usage;
use serde_json::json;
use testbed::harness::{Cluster, TIMEOUT, batch, eventually, eventually_within};
use tokio::process::Command;

const MIB: u64 = 1 << 20;
const MB: u64 = 1_000_000;

/// Keeps half a core busy, which is what it asks for, and holds this many megabytes.
fn burning(image: &str, megabytes: &str, seconds: &str) -> serde_json::Value {
    with_resources(batch(image, &["memory", megabytes, seconds]))
}

fn with_resources(mut job: serde_json::Value) -> serde_json::Value {
    job["Tasks"][0]["ResourcesConfig"] = json!({ "CPU": "500m", "Memory": "128MB" });
    job
}

async fn jobctl(cluster: &Cluster, arguments: &[&str]) -> Output {
    let program =
        tokio::task::spawn_blocking(|| programs::binary("jobctl")).await.expect("it is built");
    let mut command = Command::new(program);
    command.args(arguments).env("JOBCTL_URL", cluster.client().base_url());
    command.output().await.expect("the program runs")
}

async fn live(cluster: &Cluster, job: JobId, wanted: impl Fn(&Execution) -> bool) -> Execution {
    let id = cluster.execution(job).await.id;
    let client = cluster.client();
    eventually("what the execution uses", async || {
        let found = client.describe_execution(id).await.map_err(|error| error.to_string())?;
        if wanted(&found) { Ok(found) } else { Err(format!("{:?}", found.usage)) }
    })
    .await
}

#[tokio::test]
async fn a_running_execution_shows_what_it_uses_and_an_ended_one_what_it_used() {
    let Some(mut cluster) = Cluster::with_agents(1).await else { return };
    let job = cluster.submit(&burning(&cluster.image, "48", "10")).await;
    let about = |bytes: u64| (43 * MIB..=54 * MIB).contains(&bytes);
    let running = live(&cluster, job, |found| {
        found.usage.is_some_and(|usage| about(usage.memory) && about(usage.memory_peak))
    })
    .await;
    assert_eq!(running.compute_state.state_type, ComputeState::BidAccepted);
    let seen = running.usage.unwrap();
    assert!(seen.cpu_seconds > 0.0, "{seen:?}");

    // The orchestrator keeps nothing of it, and asks again.
    cluster.orchestrator.kill();
    cluster.orchestrator.restart().await;
    live(&cluster, job, |found| found.usage.is_some()).await;

    cluster.wait_for_job(job, JobStateType::Completed).await;
    let ended = cluster.execution(job).await.usage.expect("it is in the record");
    assert!(ended.cpu_seconds >= seen.cpu_seconds && about(ended.memory_peak), "{ended:?}");
    assert_eq!((ended.cpu, ended.memory), (0.0, 0));
    cluster.orchestrator.kill();
    cluster.orchestrator.restart().await;
    assert_eq!(cluster.execution(job).await.usage, Some(ended));
}

#[tokio::test]
async fn the_executions_that_use_most_come_first() {
    let Some(cluster) = Cluster::with_agents(2).await else { return };
    let mut busy = batch(&cluster.image, &["burn", "60"]);
    busy["Name"] = json!("busy");
    busy["Tasks"][0]["ResourcesConfig"] = json!({ "CPU": "500m", "Memory": "64MB" });
    let mut large = burning(&cluster.image, "64", "60");
    large["Name"] = json!("large");
    let (busy, large) = (cluster.submit(&busy).await, cluster.submit(&large).await);
    // It writes to its memory page by page, and may be read before it has them all.
    live(&cluster, large, |found| found.usage.is_some_and(|usage| usage.memory >= 58 * MIB)).await;
    let names = async |order_by: &str| {
        let order_by = Some(order_by.to_owned());
        let query = UsageQuery { order_by, ..Default::default() };
        let usage = cluster.client().list_usage(&query).await.expect("the usage");
        let names = usage.executions.into_iter().map(|one| one.name);
        let unanswered = usage.unanswered_node_ids.iter().map(ToString::to_string);
        names.chain(unanswered).collect::<Vec<_>>().join(" ")
    };
    eventually("both to be measured", async || match (names("cpu").await, names("memory").await) {
        (cpu, memory) if cpu == "busy[0] large[0]" && memory == "large[0] busy[0]" => Ok(()),
        seen => Err(format!("{seen:?}")),
    })
    .await;
    // Half a core is all that it may use; a loaded machine gives it less, and reads late.
    let is_about_half = |used: Usage| (0.2..0.6).contains(&used.cpu);
    let execution = live(&cluster, busy, |found| found.usage.is_some_and(is_about_half)).await;

    let job = large.to_string();
    let of_job = UsageQuery { job_id: Some(job.clone()), ..Default::default() };
    let of_job = cluster.client().list_usage(&of_job).await.unwrap();
    assert_eq!((of_job.executions.len(), of_job.measured), (1, 1));

    let shown = jobctl(&cluster, &["top", "--once", "--sort", "memory", "-n", "1"]).await;
    let text = String::from_utf8(shown.stdout).unwrap();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), 2, "{text}");
    assert!(lines[0].starts_with("ID ") && lines[1].contains("large[0]"), "{text}");
    // Of 128 MB.
    let share = lines[1].split_whitespace().filter_map(|word| word.strip_suffix('%')).next_back();
    let share: u32 = share.unwrap().parse().unwrap();
    assert!((45..=62).contains(&share), "{text}");
    let described = jobctl(&cluster, &["describe", &execution.id.to_string()]).await;
    let text = String::from_utf8(described.stdout).unwrap();
    assert!(text.contains("Used:") && text.contains("of CPU"), "{text}");
}

/// What a curve says was used, in seconds of one core.
fn core_seconds(curve: &UsageCurve) -> f64 {
    let covered = |at: usize| {
        let begin = u64::from(curve.step) * at as u64;
        let rest = curve.end_time.since(curve.begin_time) - Duration::from_secs(begin);
        rest.min(Duration::from_secs(curve.step.into())).as_secs_f64()
    };
    curve.cpu.iter().enumerate().map(|(at, cores)| f64::from(*cores) * covered(at)).sum()
}

#[tokio::test]
async fn the_curve_of_an_execution_outlives_both_daemons_and_its_node() {
    let Some(cluster) = Cluster::with_agents(1).await else { return };
    curve_is_drawn(cluster, Duration::from_secs(30)).await;
}

#[tokio::test]
#[ignore = "long"]
async fn half_a_core_and_50_megabytes_for_two_minutes_are_drawn_to_within_a_tenth() {
    let Some(cluster) = Cluster::with_agents(1).await else { return };
    let curve = curve_is_drawn(cluster, Duration::from_secs(120)).await;
    // The first point may be of the start, and the last of the end.
    let whole = &curve.memory[1..curve.memory.len() - 1];
    assert!(whole.iter().all(|bytes| (45 * MB..=55 * MB).contains(bytes)), "{curve:?}");
    assert!(curve.cpu.iter().all(|cores| *cores < 0.55), "{curve:?}");
    assert!(curve.end_time.since(curve.begin_time) >= Duration::from_secs(115), "{curve:?}");
}

/// Of a task that uses half a core for so long, while both daemons restart; the curve at the end.
///
/// A loaded machine gives it less than it asks for, so the curve is compared with the counter.
async fn curve_is_drawn(mut cluster: Cluster, time: Duration) -> UsageCurve {
    let seconds = time.as_secs().to_string();
    let work = batch(&cluster.image, &["work", "48", &seconds]);
    let job = cluster.submit(&with_resources(work)).await;
    let id = cluster.execution(job).await.id;
    live(&cluster, job, |found| found.usage.is_some_and(|usage| usage.cpu_seconds > 1.0)).await;
    let client = cluster.client().clone();
    let drawn = async || {
        eventually("a curve", async || {
            let found = client.execution_usage(id).await.map_err(|error| error.to_string())?;
            match (&found.usage, &found.curve) {
                (Some(usage), Some(curve)) if found.answered => Ok((*usage, curve.clone())),
                _ => Err(format!("{found:?}")),
            }
        })
        .await
    };
    let is_right = |usage: Usage, curve: &UsageCurve| {
        let total = core_seconds(curve);
        // What was used before the first sample, and since the last one, is in no point.
        assert!((total - usage.cpu_seconds).abs() < 0.1 * usage.cpu_seconds + 0.5, "{curve:?}");
        let most = curve.memory.iter().max().copied().unwrap_or_default();
        assert!((43 * MIB..=54 * MIB).contains(&most), "{curve:?}");
    };
    cluster.agents[0].kill();
    cluster.agents[0].restart().await;
    cluster.orchestrator.kill();
    cluster.orchestrator.restart().await;
    let (usage, curve) = drawn().await;
    is_right(usage, &curve);
    let together = client.job_usage(job, true).await.expect("the usage of the job");
    assert_eq!((together.nodes, together.answered, together.executions.len()), (1, 1, 1));

    eventually_within(time + TIMEOUT, "the end of the task", async || {
        let state = client.describe_job(job).await.map_err(|error| error.to_string())?.state;
        if state.state_type == JobStateType::Completed { Ok(()) } else { Err(state.message) }
    })
    .await;
    let (usage, ended) = drawn().await;
    assert!(ended.begin_time == curve.begin_time && ended.end_time > curve.end_time);
    is_right(usage, &ended);
    cluster.agents[0].kill();
    cluster.orchestrator.kill();
    cluster.orchestrator.restart().await;
    let (_, kept) = drawn().await;
    assert_eq!(kept, ended);
    kept
}

#[tokio::test]
async fn a_node_draws_what_its_executions_use_and_hold() {
    let Some(cluster) = Cluster::with_agents(1).await else { return };
    let job = cluster.submit(&burning(&cluster.image, "48", "60")).await;
    let node = cluster.execution(job).await.node_id;
    let is_drawn = async || {
        let found = cluster.client().node_usage(node).await.map_err(|error| error.to_string())?;
        let Some(hour) = &found.hour else { return Err(format!("{found:?}")) };
        let holds = hour.allocated_cpu.iter().any(|cores| (0.49..0.51).contains(cores));
        let uses = hour.used.memory.iter().any(|bytes| *bytes >= 43 * MIB);
        if holds && uses { Ok(()) } else { Err(format!("{hour:?}")) }
    };
    eventually("the node's curve", is_drawn).await;
}
