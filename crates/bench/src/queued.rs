//! A long queue: memory per queued job, and its effect on submissions and placements.

use std::time::Duration;

use anyhow::Context;
use serde_json::json;
use tempfile::TempDir;
use tokio::sync::mpsc;

use super::fleet;
use super::load::{self, Until, put};
use super::measure::{Measure, Target, median, median_round, millis, rate};
use super::process::resident_bytes;
use super::scale::Scale;
use super::seed::Seed;
use testbed::harness::{Cluster, ClusterSpec, noop};

const CONNECTIONS: u32 = 64;

/// Number of rounds, of which the median counts.
const ROUNDS: usize = 5;

/// A start frees memory that the allocator returns a moment later.
const SETTLING: Duration = Duration::from_secs(2);

/// Number of measured placements.
const PLACEMENTS: usize = 200;

/// Measures with jobs that stay queued forever.
pub(super) async fn measure(scale: Scale) -> anyhow::Result<Vec<Measure>> {
    let directory = TempDir::new()?;
    let data = directory.path().to_owned();
    let jobs = scale.jobs;
    let seeding = move || {
        let mut seed = Seed::open(&data)?;
        seed.queued(jobs)?;
        seed.finish();
        anyhow::Ok(())
    };
    tokio::task::spawn_blocking(seeding).await??;
    let empty = ClusterSpec::new().start_without_agents().await;
    let full = ClusterSpec::new()
        .setting("ORCHESTRATOR_DATA_DIR", &directory.path().display().to_string())
        .start_without_agents()
        .await;
    tokio::time::sleep(SETTLING).await;
    let at_rest = resident(&empty)?;
    let held = resident(&full)?.saturating_sub(at_rest);
    #[expect(clippy::cast_precision_loss, reason = "memory far below 2^52 bytes")]
    let each = held as f64 / jobs as f64;

    let placed = placements(&full).await?;
    let request = put(api_types::routes::JOBS, &json!({ "Job": noop() }).to_string());
    let window = Until::Elapsed(scale.window / 2);
    let mut rounds = Vec::new();
    // Alternate, so that a machine that slows down affects both.
    for _ in 0..ROUNDS {
        let mut round = [0.0; 2];
        for (cluster, found) in [&full, &empty].into_iter().zip(&mut round) {
            let address = cluster.orchestrator.address();
            let load = load::run(address, CONNECTIONS, window, request.clone()).await?;
            *found = rate(load.requests, load.elapsed);
        }
        rounds.push(round);
    }
    let [rate_full, rate_empty] = median_round(&mut rounds);
    Ok(vec![
        Measure::new(
            format!("memory per queued job, {jobs} of them"),
            (each, "B"),
            Target::AtMost(1024.0),
            format!("{} MB more than at rest", held / 1_000_000),
        ),
        Measure::new(
            format!("submissions with {jobs} queued, of the empty system's rate"),
            (rate_full / rate_empty, ""),
            Target::AtLeast(0.8),
            format!("{rate_full:.0}/s against {rate_empty:.0}/s"),
        ),
        placed,
    ])
}

fn resident(cluster: &Cluster) -> anyhow::Result<u64> {
    resident_bytes(cluster.orchestrator.pid().context("it runs")?)
}

async fn placements(cluster: &Cluster) -> anyhow::Result<Measure> {
    /// Time limit of a placement.
    const TIMEOUT: Duration = Duration::from_secs(60);
    let (sender, mut gaps) = mpsc::channel(1);
    let client = cluster.client().clone();
    let node = tokio::spawn(async move { fleet::one_at_a_time(&client, sender).await });
    let mut found = Vec::new();
    while found.len() < PLACEMENTS {
        match tokio::time::timeout(TIMEOUT, gaps.recv()).await? {
            Some(gap) => found.push(gap),
            None => break,
        }
    }
    drop(gaps);
    if found.len() < PLACEMENTS {
        node.await??;
    } else {
        node.abort();
    }
    let p99 = super::measure::percentile(&mut found, 0.99);
    Ok(Measure::new(
        "report of an end → offer of the freed slot, with that queue, median",
        (millis(median(&mut found)), "ms"),
        Target::AtMost(5.0),
        format!("p99 {:.1} ms; two HTTP messages and a commit included", millis(p99)),
    ))
}
