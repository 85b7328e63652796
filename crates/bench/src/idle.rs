//! Memory of idle daemons.

use std::time::Duration;

use anyhow::Context;

use super::measure;
use super::measure::{Measure, Target};
use super::process::{anonymous_bytes, resident_bytes};
use super::scale::Scale;
use testbed::harness::{AgentSpec, ClusterSpec};

/// Time for background work after the start.
const SETTLE_TIME: Duration = Duration::from_secs(5);

pub(super) async fn measure(_: Scale) -> anyhow::Result<Vec<Measure>> {
    // The default engines and the default pool of an agent.
    let spec = ClusterSpec::new().agent(AgentSpec::new().sandbox_pool(8));
    let cluster = spec.start().await.context("no Docker Engine responds")?;
    tokio::time::sleep(SETTLE_TIME).await;
    let orchestrator = cluster.orchestrator.pid().context("it runs")?;
    let agent = cluster.agents[0].pid().context("it runs")?;
    let resident = megabytes(resident_bytes(agent)?);
    let of = |what: &str, bytes, most, context: String| {
        measure::Measure::new(what, (megabytes(bytes), "MB"), Target::AtMost(most), context)
    };
    let resident = format!("anonymous; {resident:.1} MB resident");
    let own = megabytes(anonymous_bytes(orchestrator)?);
    Ok(vec![
        of(
            "memory at rest, orchestrator",
            resident_bytes(orchestrator)?,
            25.0,
            format!("resident; {own:.1} MB anonymous"),
        ),
        of("memory at rest, agent", anonymous_bytes(agent)?, 6.0, resident),
    ])
}

#[expect(clippy::cast_precision_loss, reason = "memory far below 2^52 bytes")]
fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}
