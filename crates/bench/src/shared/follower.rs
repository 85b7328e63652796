//! What a connection takes that a follower passes on to the leader.

use std::time::Instant;

use anyhow::ensure;
use testbed::harness::Cluster;

use super::Shared;
use crate::load::Connection;
use crate::measure::{Measure, Target, median, millis};
use crate::scale::Scale;

pub(crate) async fn measure(scale: Scale) -> anyhow::Result<Vec<Measure>> {
    let shared = Shared::start().await?;
    let leader = shared.spec().start_without_agents().await;
    let follower = shared.spec().start_without_agents().await;
    let open = async |cluster: &Cluster| Connection::open(cluster.orchestrator.address()).await;
    let mut connections = [open(&follower).await?, open(&leader).await?];
    let path = format!("{}?limit=10", api_types::routes::JOBS);
    let mut samples = [Vec::new(), Vec::new()];
    // Alternate, so that other load of the machine affects both.
    for _ in 0..scale.fast_samples {
        for (connection, samples) in connections.iter_mut().zip(&mut samples) {
            let begin = Instant::now();
            let (status, _) = connection.get(&path).await?;
            samples.push(begin.elapsed());
            ensure!(status == 200, "{path}: {status}");
        }
    }
    let [passed, direct] = samples.map(|mut samples| median(&mut samples));
    Ok(vec![Measure::new(
        "a read through a follower, median, times that of the leader",
        (passed.as_secs_f64() / direct.as_secs_f64(), ""),
        Target::AtMost(1.5),
        format!("{:.3} ms against {:.3} ms", millis(passed), millis(direct)),
    )])
}
