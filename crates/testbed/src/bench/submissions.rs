//! Durable submissions against the same HTTP server that stores nothing.

use serde_json::json;

use super::floor::Floor;
use super::load::{self, Until};
use super::measure::{Measure, Target, millis, percentile, rate};
use super::{Scale, load::put};
use crate::harness::{ClusterSpec, noop};

/// As many as the target names.
const CONNECTIONS: u32 = 64;

pub(super) async fn measure(scale: Scale) -> anyhow::Result<Vec<Measure>> {
    let request = put(api_types::routes::JOBS, &json!({ "Job": noop() }).to_string());
    let floor = Floor::start().await?;
    let cluster = ClusterSpec::new().start_without_agents().await;
    let address = cluster.orchestrator.address();
    let window = Until::Elapsed(scale.window);
    // Turn about, so that a machine that gets slower is slower for both.
    let (mut floors, mut stored, mut latencies) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..3 {
        let bare = load::run(floor.address, CONNECTIONS, window, request.clone()).await?;
        floors.push(rate(bare.requests, bare.elapsed));
        let durable = load::run(address, CONNECTIONS, window, request.clone()).await?;
        stored.push(rate(durable.requests, durable.elapsed));
        latencies.extend(durable.latencies);
    }
    floors.sort_unstable_by(f64::total_cmp);
    stored.sort_unstable_by(f64::total_cmp);
    let p50 = percentile(&mut latencies, 0.5);
    let p99 = percentile(&mut latencies, 0.99);
    let beside = format!("{:.0}/s against {:.0}/s", stored[1], floors[1]);
    Ok(vec![
        Measure::new(
            "durable submissions, 64 connections, of the floor's rate",
            (stored[1] / floors[1], ""),
            Target::AtLeast(0.4),
            beside,
        ),
        Measure::new(
            "durable submissions, p99",
            (millis(p99), "ms"),
            Target::AtMost(20.0),
            format!("p50 {:.1} ms", millis(p50)),
        ),
    ])
}
