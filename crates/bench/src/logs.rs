//! The output of a job with many executions: in order of time, compared with one execution after the
//! other. A simulated node sends it, so that the orchestrator's part counts.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use api_client::JobLogsQuery;
use api_types::JobId;
use futures_util::StreamExt;
use serde_json::json;
use testbed::fleet::{Fleet, FleetSpec};
use testbed::harness::{Cluster, ClusterSpec, noop};

use super::lifecycles::wait_until_all_ended;
use super::load::Connection;
use super::measure::{Measure, Target, median_round, rate};
use super::process::anonymous_bytes;
use super::scale::Scale;

/// Lines of each execution.
const LINES: u32 = 50;

/// Executions that are merged at a time; each further block begins with a remark.
const BLOCK: u64 = 64;

/// Number of rounds, of which the median counts.
const ROUNDS: usize = 3;

/// Interval of memory samples.
const SAMPLE_EVERY: Duration = Duration::from_millis(20);

/// What one reader got.
struct Reading {
    per_second: f64,
    /// Most anonymous memory of the orchestrator, above that before.
    grown: u64,
}

pub(super) async fn measure(scale: Scale) -> anyhow::Result<Vec<Measure>> {
    let cluster = ClusterSpec::new().start_without_agents().await;
    let executions = scale.printed;
    let spec = FleetSpec { agents: 1, tasks_per_agent: executions, lines_per_task: LINES };
    let mut fleet = Fleet::start(cluster.client(), spec)?;
    let mut job = noop();
    job["Count"] = json!(executions);
    let job = cluster.submit(&job).await;
    wait_until_all_ended(&mut Connection::open(cluster.orchestrator.address()).await?).await?;
    let (mut rounds, mut grown) = (Vec::new(), 0);
    // Alternate, so that a machine that slows down affects both.
    for _ in 0..ROUNDS {
        let in_turn = read(&cluster, job, executions, false).await?;
        let by_time = read(&cluster, job, executions, true).await?;
        rounds.push([by_time.per_second, in_turn.per_second]);
        grown = grown.max(by_time.grown);
    }
    fleet.check()?;
    let [by_time, in_turn] = median_round(&mut rounds);
    #[expect(clippy::cast_precision_loss, reason = "memory far below 2^52 bytes")]
    let megabytes = grown as f64 / 1e6;
    Ok(vec![
        Measure::new(
            format!(
                "logs of {executions} executions in order of time, of the default order's rate"
            ),
            (by_time / in_turn, ""),
            Target::AtLeast(0.5),
            format!("{by_time:.0} lines/s against {in_turn:.0} lines/s"),
        ),
        Measure::new(
            format!("memory of the orchestrator for logs of {executions} executions in that order"),
            (megabytes, "MB"),
            Target::AtMost(32.0),
            "most anonymous memory, above that before",
        ),
    ])
}

async fn read(
    cluster: &Cluster,
    job: JobId,
    executions: u32,
    by_time: bool,
) -> anyhow::Result<Reading> {
    let pid = cluster.orchestrator.pid().context("it runs")?;
    let before = anonymous_bytes(pid)?;
    let (begin, mut sampled) = (Instant::now(), Instant::now());
    let query = JobLogsQuery { by_time, ..JobLogsQuery::default() };
    let mut pieces = cluster.client().job_logs_text(job, &query).await?;
    let (mut lines, mut most) = (0, before);
    while let Some(piece) = pieces.next().await {
        lines += piece?.iter().filter(|byte| **byte == b'\n').count() as u64;
        if sampled.elapsed() >= SAMPLE_EVERY {
            most = most.max(anonymous_bytes(pid)?);
            sampled = Instant::now();
        }
    }
    let per_second = rate(lines, begin.elapsed());
    let printed = u64::from(executions) * u64::from(LINES);
    let remarks = if by_time { u64::from(executions).div_ceil(BLOCK) - 1 } else { 0 };
    ensure!(lines == printed + remarks, "{lines} lines, {printed} printed, {remarks} remarks");
    Ok(Reading { per_second, grown: most.saturating_sub(before) })
}
