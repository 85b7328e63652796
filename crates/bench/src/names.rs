//! What a generated name costs a submission.

use serde_json::json;

use super::load::{self, Until, put};
use super::measure::{Measure, Target, median_round, rate};
use super::scale::Scale;
use testbed::harness::{ClusterSpec, noop};

/// As of the rows of submissions.
const CONNECTIONS: u32 = 64;

/// Many short rounds, because the difference is small: the median counts.
const ROUNDS: usize = 16;

pub(super) async fn measure(scale: Scale) -> anyhow::Result<Vec<Measure>> {
    let named = noop();
    let mut unnamed = noop();
    unnamed.as_object_mut().expect("a job is an object").remove("Name");
    let requests = [unnamed, named]
        .map(|job| put(api_types::routes::JOBS, &json!({ "Job": job }).to_string()));
    let cluster = ClusterSpec::new().start_without_agents().await;
    let address = cluster.orchestrator.address();
    let window = Until::Elapsed(scale.window / 4);
    let mut rounds = Vec::new();
    for round in 0..ROUNDS {
        let mut rates = [0.0; 2];
        // Alternate who comes first, since the store grows.
        for turn in 0..2 {
            let which = (round + turn) % 2;
            let load = load::run(address, CONNECTIONS, window, requests[which].clone()).await?;
            rates[which] = rate(load.requests, load.elapsed);
        }
        rounds.push(rates);
    }
    let [without, with] = median_round(&mut rounds);
    Ok(vec![Measure::new(
        "submissions without a name, of the rate with one",
        (without / with, ""),
        Target::AtLeast(0.97),
        format!("{without:.0}/s against {with:.0}/s"),
    )])
}
