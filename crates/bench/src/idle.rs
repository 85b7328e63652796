//! Memory of idle daemons.

use std::time::Duration;

use anyhow::Context;

use super::measure::{Measure, Target};
use super::process::resident_bytes;
use super::{Scale, measure};
use testbed::harness::{AgentSpec, ClusterSpec};

/// Time for background work after the start.
const SETTLE_TIME: Duration = Duration::from_secs(5);

pub(super) async fn measure(_: Scale) -> anyhow::Result<Vec<Measure>> {
    // The default engines and the default pool of an agent.
    let spec = ClusterSpec::new().agent(AgentSpec::new().sandbox_pool(8));
    let cluster = spec.start().await.context("no Docker Engine responds")?;
    tokio::time::sleep(SETTLE_TIME).await;
    let orchestrator = megabytes(cluster.orchestrator.pid())?;
    let agent = megabytes(cluster.agents[0].pid())?;
    let of = |what: &str, value, most| {
        measure::Measure::new(what, (value, "MB"), Target::AtMost(most), "resident")
    };
    Ok(vec![
        of("memory at rest, orchestrator", orchestrator, 25.0),
        of("memory at rest, agent", agent, 12.0),
    ])
}

#[expect(clippy::cast_precision_loss, reason = "memory far below 2^52 bytes")]
fn megabytes(pid: Option<u32>) -> anyhow::Result<f64> {
    Ok(resident_bytes(pid.context("it runs")?)? as f64 / 1e6)
}
