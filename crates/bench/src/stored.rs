//! A large history: cost of reads and of a restart.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use api_types::JobId;
use tempfile::TempDir;

use super::load::Connection;
use super::measure::{Measure, Target, millis, percentile};
use super::scale::Scale;
use super::seed::Seed;
use testbed::harness::{Cluster, ClusterSpec};

/// Size of the small history for comparison.
const FEW: u64 = 1000;

/// Lists in every order, and selectors that match many or few jobs.
const LISTS: [&str; 8] = [
    "order_by=create_time",
    "order_by=create_time&reverse=true",
    "order_by=id",
    "order_by=id&reverse=true",
    "labels=team%3Dt7",
    "labels=team%20in%20(t1,t2)&reverse=true",
    "labels=team%3Dt7&order_by=id",
    "state=Stopped&type=batch",
];

/// The kinds of reads.
pub(super) const KINDS: [&str; 3] = ["list", "describe", "history"];

/// The p99 of one read on two clusters.
pub(super) struct Worst<'a> {
    /// The second to the first.
    pub(super) ratio: f64,
    pub(super) name: &'a str,
    pub(super) times: [Duration; 2],
}

pub(super) async fn measure(scale: Scale) -> anyhow::Result<Vec<Measure>> {
    let (few, few_dir, few_ids) = with_jobs(FEW, 0).await?;
    let (mut many, many_dir, many_ids) = with_jobs(scale.jobs, scale.live).await?;
    let times = times([(&few, &few_ids), (&many, &many_ids)], scale).await?;
    let mut measures = Vec::new();
    for kind in KINDS {
        let Worst { ratio, name, times: [small, large] } = worst(&times, kind)?;
        measures.push(Measure::new(
            format!("p99 of {kind}, {} jobs stored, times that of {FEW}", scale.jobs),
            (ratio, ""),
            Target::AtMost(3.0),
            format!("worst: {name}, {:.2} ms against {:.2} ms", millis(large), millis(small)),
        ));
    }
    many.orchestrator.kill();
    let begin = Instant::now();
    many.orchestrator.restart().await;
    let (status, _) = {
        let mut connection = Connection::open(many.orchestrator.address()).await?;
        let (status, body) = connection.get("/readyz").await?;
        (status, body.len())
    };
    ensure!(status == 200, "the orchestrator responds but is not ready: {status}");
    measures.push(Measure::new(
        format!("restart to ready, {} jobs stored, {} executions live", scale.jobs, scale.live),
        (begin.elapsed().as_secs_f64(), "s"),
        Target::AtMost(10.0),
        "from the start of the process to its first response",
    ));
    drop((few_dir, many_dir));
    Ok(measures)
}

async fn with_jobs(jobs: u64, live: u32) -> anyhow::Result<(Cluster, TempDir, Vec<JobId>)> {
    let (directory, ids) = seeded(jobs, live).await?;
    let cluster = keeping(ClusterSpec::new())
        .setting("ORCHESTRATOR_DATA_DIR", &directory.path().display().to_string())
        .start_without_agents()
        .await;
    Ok((cluster, directory, ids))
}

/// A data directory with ended jobs and live executions, and some of the jobs.
pub(super) async fn seeded(jobs: u64, live: u32) -> anyhow::Result<(TempDir, Vec<JobId>)> {
    let directory = TempDir::new()?;
    let data = directory.path().to_owned();
    let seeding = move || {
        let mut seed = Seed::open(&data)?;
        let ids = seed.ended(jobs)?;
        seed.live(live)?;
        seed.finish();
        anyhow::Ok(ids)
    };
    let ids = tokio::task::spawn_blocking(seeding).await??;
    Ok((directory, ids))
}

/// Nothing of what was seeded expires.
pub(super) fn keeping(spec: ClusterSpec) -> ClusterSpec {
    // The node of the live executions does not exist; its lease must not expire.
    spec.setting("ORCHESTRATOR_NODE_TTL", "86400").setting("ORCHESTRATOR_JOB_RETENTION_COUNT", "0")
}

/// The read of this kind with the largest ratio between the two clusters.
pub(super) fn worst<'a>(
    times: &'a BTreeMap<String, [Duration; 2]>,
    kind: &str,
) -> anyhow::Result<Worst<'a>> {
    let of_kind = times.iter().filter(|(name, _)| name.starts_with(kind));
    let found = of_kind.map(|(name, times)| Worst {
        ratio: times[1].as_secs_f64() / times[0].as_secs_f64(),
        name,
        times: *times,
    });
    found.max_by(|a, b| a.ratio.total_cmp(&b.ratio)).context("reads were timed")
}

/// The p99 latency of each kind of read on both clusters, by name.
pub(super) async fn times(
    clusters: [(&Cluster, &[JobId]); 2],
    scale: Scale,
) -> anyhow::Result<BTreeMap<String, [Duration; 2]>> {
    let jobs = api_types::routes::JOBS;
    let mut sides = Vec::new();
    for (cluster, ids) in clusters {
        sides.push((Connection::open(cluster.orchestrator.address()).await?, ids));
    }
    let mut found = BTreeMap::new();
    let kinds = LISTS
        .iter()
        .map(|query| (format!("list {query}"), format!("{jobs}?{query}"), None))
        .chain([
            ("describe".to_owned(), jobs.to_owned(), Some("")),
            ("history".to_owned(), jobs.to_owned(), Some("/history")),
        ]);
    for (name, path, of_job) in kinds {
        let mut samples = [Vec::new(), Vec::new()];
        // Alternate, so that other load of the machine affects both.
        for turn in 0..scale.fast_samples as usize {
            for ((connection, ids), samples) in sides.iter_mut().zip(&mut samples) {
                let path = match of_job {
                    None => path.clone(),
                    Some(rest) => format!("{path}/{}{rest}", ids[turn * 7919 % ids.len()]),
                };
                let begin = Instant::now();
                let (status, body) = connection.get(&path).await?;
                samples.push(begin.elapsed());
                ensure!(status == 200, "{path}: {}", String::from_utf8_lossy(body));
            }
        }
        found.insert(name, samples.map(|mut samples| percentile(&mut samples, 0.99)));
    }
    Ok(found)
}
