//! Durable submissions over HTTP, with either store.

use serde_json::json;
use testbed::harness::{ClusterSpec, noop};

use super::{ROUNDS, Shared};
use crate::load::{self, Until, put};
use crate::measure::{Measure, Target, median_round, rate};
use crate::scale::Scale;

/// As of the rows of submissions.
const CONNECTIONS: u32 = 64;

/// Five times what three servers of the peer accept on two such cores.
const FIVE_TIMES_THE_PEER: f64 = 4600.0;

pub(crate) async fn measure(scale: Scale) -> anyhow::Result<Vec<Measure>> {
    let shared = Shared::start().await?;
    let postgres = shared.spec().start_without_agents().await;
    let sqlite = ClusterSpec::new().start_without_agents().await;
    let request = put(api_types::routes::JOBS, &json!({ "Job": noop() }).to_string());
    let window = Until::Elapsed(scale.window);
    let mut rounds = Vec::new();
    // Alternate, so that a machine that slows down affects both.
    for _ in 0..ROUNDS {
        let mut round = [0.0; 2];
        for (cluster, found) in [&postgres, &sqlite].into_iter().zip(&mut round) {
            let address = cluster.orchestrator.address();
            let load = load::run(address, CONNECTIONS, window, request.clone()).await?;
            *found = rate(load.requests, load.elapsed);
        }
        rounds.push(round);
    }
    let [postgres, sqlite] = median_round(&mut rounds);
    let what = "PostgreSQL, durable submissions, 64 connections";
    Ok(vec![
        Measure::new(
            format!("{what}, of SQLite's rate"),
            (postgres / sqlite, ""),
            Target::AtLeast(0.4),
            format!("{postgres:.0}/s against {sqlite:.0}/s"),
        ),
        Measure::new(
            what,
            (postgres, "/s"),
            Target::AtLeast(FIVE_TIMES_THE_PEER),
            "5 times the peer's, Nomad with three servers",
        ),
    ])
}
