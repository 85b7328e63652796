//! Explain Job in a large cluster: what each node lacks, for the jobs that are compared at most.

use std::collections::BTreeMap;
use std::time::Instant;

use anyhow::{Context, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::load::Connection;
use super::measure::{Measure, Target, median, millis, percentile};
use super::scale::Scale;
use super::seed::Seed;
use testbed::harness::{Cluster, ClusterSpec, noop};

const NODES: u32 = 10_000;

/// As many as a job may have, with as many values in all.
const CONSTRAINTS: usize = 64;
const VALUES: usize = 4;

pub(super) async fn measure(scale: Scale) -> anyhow::Result<Vec<Measure>> {
    let directory = TempDir::new()?;
    let data = directory.path().to_owned();
    let seeding = move || {
        let mut seed = Seed::open(&data)?;
        seed.nodes(NODES, |number| {
            let zone = format!("zone-{}", number % 100);
            BTreeMap::from([
                ("host".to_owned(), format!("host-{number}")),
                ("zone".to_owned(), zone),
            ])
        })?;
        seed.finish();
        anyhow::Ok(())
    };
    tokio::task::spawn_blocking(seeding).await??;
    let cluster = ClusterSpec::new()
        .setting("ORCHESTRATOR_DATA_DIR", &directory.path().display().to_string())
        // The nodes do not exist; their leases must not expire.
        .setting("ORCHESTRATOR_NODE_TTL", "86400")
        .start_without_agents()
        .await;
    let mut worst: Option<(String, [f64; 2])> = None;
    for (name, job) in waiting() {
        let times = times(&cluster, &job, scale).await.with_context(|| name.to_owned())?;
        if worst.as_ref().is_none_or(|(_, slowest)| times[0] > slowest[0]) {
            worst = Some((name.to_owned(), times));
        }
    }
    let (name, [middle, p99]) = worst.context("jobs were explained")?;
    Ok(vec![Measure::new(
        format!("explanation of a job over {NODES} nodes, median"),
        (middle, "ms"),
        Target::AtMost(50.0),
        format!("worst: {name}; p99 {p99:.1} ms"),
    )])
}

/// Jobs that wait, each for a different reason.
fn waiting() -> [(&'static str, Value); 4] {
    let job = |change: &dyn Fn(&mut Value)| {
        let mut job = noop();
        change(&mut job);
        job
    };
    let not_in = |number: usize| {
        let values: Vec<_> = (0..VALUES).map(|value| format!("host-x-{number}-{value}")).collect();
        json!({ "Key": "host", "Operator": "notin", "Values": values })
    };
    // All but the last are met.
    let absent = json!({ "Key": "zone", "Operator": "in", "Values": ["nowhere"] });
    let constraints: Vec<_> = (1..CONSTRAINTS).map(not_in).chain([absent]).collect();
    let constraints = json!(constraints);
    [
        ("a label that no node has", job(&|job| job["Constraints"] = constraints.clone())),
        (
            "an engine that no node has",
            job(&|job| {
                job["Constraints"] = constraints.clone();
                job["Tasks"][0]["Engine"] =
                    json!({ "Type": "docker", "Params": { "Image": "busybox" } });
            }),
        ),
        (
            "more cores than any node has",
            job(&|job| job["Tasks"][0]["ResourcesConfig"] = json!({ "CPU": "64" })),
        ),
        ("room on every node", job(&|job| job["Count"] = json!(1_000_000))),
    ]
}

/// The median and the p99 of its explanation, in milliseconds.
async fn times(cluster: &Cluster, job: &Value, scale: Scale) -> anyhow::Result<[f64; 2]> {
    let id = cluster.submit(job).await;
    let path = api_types::routes::fill(api_types::routes::JOB_EXPLAIN, id);
    let mut connection = Connection::open(cluster.orchestrator.address()).await?;
    let mut samples = Vec::new();
    for _ in 0..scale.fast_samples.min(200) {
        let begin = Instant::now();
        let (status, body) = connection.get(&path).await?;
        samples.push(begin.elapsed());
        ensure!(status == 200, "{status}: {}", String::from_utf8_lossy(body));
        let found: Value = serde_json::from_slice(body)?;
        let nodes = found["Nodes"].as_array().map_or(0, Vec::len);
        ensure!(nodes == NODES as usize, "{nodes} nodes of {NODES} are explained");
    }
    cluster.client().stop_job(id, "explained").await?;
    Ok([millis(median(&mut samples)), millis(percentile(&mut samples, 0.99))])
}
