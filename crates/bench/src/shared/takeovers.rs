//! `kill -9` of the leader: the time until the next one has accepted a job.

use std::time::{Duration, Instant};

use anyhow::ensure;
use serde_json::json;
use tempfile::TempDir;
use testbed::harness::noop;

use super::Shared;
use crate::load::{Connection, put};
use crate::measure::{Measure, Target};
use crate::scale::Scale;
use crate::seed::Seed;
use crate::stored;

/// Longer than the slowest machine takes.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Interval between submissions that no one accepts.
const RETRY_INTERVAL: Duration = Duration::from_millis(5);

pub(crate) async fn measure(scale: Scale) -> anyhow::Result<Vec<Measure>> {
    let (live, _) = stored::seeded(0, scale.live).await?;
    let queued = TempDir::new()?;
    let (data, jobs) = (queued.path().to_owned(), scale.jobs);
    let seeding = move || {
        let mut seed = Seed::open(&data)?;
        seed.queued(jobs)?;
        seed.finish();
        anyhow::Ok(())
    };
    tokio::task::spawn_blocking(seeding).await??;
    let row = async |directory: TempDir, what: String, most| {
        let took = killed(&directory).await?;
        let what = format!("kill -9 of the leader to the next accepted job, {what}");
        let context = "a submission every 5 ms to the other orchestrator";
        anyhow::Ok(Measure::new(what, (took.as_secs_f64(), "s"), Target::AtMost(most), context))
    };
    Ok(vec![
        row(live, format!("{} executions live", scale.live), 2.0).await?,
        row(queued, format!("{} jobs queued", scale.jobs), 4.0).await?,
    ])
}

async fn killed(directory: &TempDir) -> anyhow::Result<Duration> {
    let shared = Shared::start().await?;
    shared.import(directory.path()).await?;
    let mut leader = stored::keeping(shared.spec()).start_without_agents().await;
    let next = stored::keeping(shared.spec()).start_without_agents().await;
    let request = put(api_types::routes::JOBS, &json!({ "Job": noop() }).to_string());
    let begin = Instant::now();
    leader.orchestrator.kill();
    loop {
        if accepts(&next, &request).await {
            return Ok(begin.elapsed());
        }
        ensure!(begin.elapsed() < TIMEOUT, "no job is accepted after {TIMEOUT:?}");
        tokio::time::sleep(RETRY_INTERVAL).await;
    }
}

async fn accepts(cluster: &testbed::harness::Cluster, request: &[u8]) -> bool {
    let Ok(mut connection) = Connection::open(cluster.orchestrator.address()).await else {
        return false;
    };
    connection.send(request).await.is_ok_and(|(status, _)| status == 200)
}
