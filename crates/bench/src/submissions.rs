//! Durable submissions compared to the same HTTP stack without storage.
//!
//! The floor parses a job and responds. For context, the orchestrator's own dry runs of the same
//! jobs do everything except storing: checks, defaults, request ids, metrics, and placement.

use serde_json::json;

use super::floor::Floor;
use super::load::put;
use super::load::{self, Until};
use super::measure::{Measure, Target, median_round, millis, percentile, rate};
use super::scale::Scale;
use testbed::harness::{ClusterSpec, noop};

/// The number of connections of the target.
const CONNECTIONS: u32 = 64;

/// Number of rounds, of which the median counts.
const ROUNDS: usize = 3;

pub(super) async fn measure(scale: Scale) -> anyhow::Result<Vec<Measure>> {
    let body = json!({ "Job": noop() }).to_string();
    let request = put(api_types::routes::JOBS, &body);
    let dry_request = put(&format!("{}?dry_run", api_types::routes::JOBS), &body);
    let floor = Floor::start().await?;
    let cluster = ClusterSpec::new().start_without_agents().await;
    let address = cluster.orchestrator.address();
    let window = Until::Elapsed(scale.window);
    let mut rounds = Vec::new();
    let mut latencies = Vec::new();
    // Alternate, so that a machine that slows down affects all.
    for _ in 0..ROUNDS {
        let bare = load::run(floor.address, CONNECTIONS, window, request.clone()).await?;
        let dry = load::run(address, CONNECTIONS, window, dry_request.clone()).await?;
        let durable = load::run(address, CONNECTIONS, window, request.clone()).await?;
        rounds.push([&durable, &bare, &dry].map(|load| rate(load.requests, load.elapsed)));
        latencies.extend(durable.latencies);
    }
    let p50 = percentile(&mut latencies, 0.5);
    let p99 = percentile(&mut latencies, 0.99);
    let [stored, floor, dry] = median_round(&mut rounds);
    let of_dry = stored / dry;
    let context = format!(
        "{stored:.0}/s against {floor:.0}/s; {of_dry:.2} of the orchestrator's own dry runs, \
         {dry:.0}/s"
    );
    Ok(vec![
        Measure::new(
            "durable submissions, 64 connections, of the floor's rate",
            (stored / floor, ""),
            Target::AtLeast(0.4),
            context,
        ),
        Measure::new(
            "durable submissions, p99",
            (millis(p99), "ms"),
            Target::AtMost(20.0),
            format!("p50 {:.1} ms", millis(p50)),
        ),
    ])
}
