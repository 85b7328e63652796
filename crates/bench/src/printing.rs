//! What the agent uses for a docker job that prints much.

use std::time::Duration;

use anyhow::{Context, ensure};
use api_types::job::JobStateType;
use serde_json::json;

use super::measure::{Measure, Target};
use super::process::{anonymous_bytes, cpu_time};
use super::scale::Scale;
use testbed::harness::{AgentSpec, ClusterSpec, batch};

/// Of one line, with its end.
const LINE_BYTES: u64 = 1000;

/// Lines of each second: 10 MB.
const LINES: u64 = 10_000;

/// How often the task prints.
const TICKS_PER_SECOND: u64 = 100;

/// Interval of memory samples.
const SAMPLE_EVERY: Duration = Duration::from_millis(100);

/// The output is printed evenly, as a busy server does: 100 MB in 10 s in a full run.
pub(super) async fn measure(scale: Scale) -> anyhow::Result<Vec<Measure>> {
    let spec = ClusterSpec::new().agent(AgentSpec::new());
    let cluster = spec.start().await.context("no Docker Engine responds")?;
    let agent = cluster.agents[0].pid().context("it runs")?;
    let seconds = scale.printing.as_secs();
    let lines = (LINES / TICKS_PER_SECOND).to_string();
    let (width, ticks) = (LINE_BYTES.to_string(), (seconds * TICKS_PER_SECOND).to_string());
    let interval_ms = (1000 / TICKS_PER_SECOND).to_string();
    let job = batch(&cluster.image, &["stream", &lines, &width, &ticks, &interval_ms]);
    let mut job = job;
    job["Tasks"][0]["ResourcesConfig"] = json!({ "Disk": "1GB" });

    let (before, at_rest) = (cpu_time(agent)?, anonymous_bytes(agent)?);
    let id = cluster.submit(&job).await;
    let mut peak = at_rest;
    let done = loop {
        let job = cluster.client().await_job(id, SAMPLE_EVERY, u64::MAX).await?;
        peak = peak.max(anonymous_bytes(agent)?);
        if job.state.state_type.is_terminal() {
            break job;
        }
        tokio::time::sleep(SAMPLE_EVERY).await;
    };
    ensure!(done.state.state_type == JobStateType::Completed, "{}", done.state.message);
    let output = cluster.execution(id).await.run_output;
    let printed = seconds * LINES * LINE_BYTES;
    ensure!(output.stdout_bytes == printed, "{} bytes of {printed} are kept", output.stdout_bytes);
    let used = cpu_time(agent)?.saturating_sub(before);
    let megabytes = printed / 1_000_000;
    let what =
        |what: &str| format!("{what}, a docker job that prints {megabytes} MB in {seconds} s");
    Ok(vec![
        Measure::new(
            what("CPU time of the agent"),
            (used.as_secs_f64(), "s"),
            Target::AtMost(3.0),
            format!("{:.0} ms for each MB, copying and reporting included", per(used, megabytes)),
        ),
        Measure::new(
            what("memory of the agent"),
            (mega(peak.saturating_sub(at_rest)), "MB"),
            Target::AtMost(16.0),
            format!("anonymous, more than the {:.1} MB before", mega(at_rest)),
        ),
    ])
}

#[expect(clippy::cast_precision_loss, reason = "memory far below 2^52 bytes")]
fn mega(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

#[expect(clippy::cast_precision_loss, reason = "some hundred")]
fn per(used: Duration, megabytes: u64) -> f64 {
    used.as_secs_f64() * 1000.0 / megabytes as f64
}
