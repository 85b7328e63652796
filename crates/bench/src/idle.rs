//! Memory of idle daemons.

use std::time::Duration;

use anyhow::Context;

use super::Scale;
use super::measure::{Measure, Target};
use super::process::{anonymous_bytes, resident_bytes};
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
    let of = |what: &str, bytes, most, context: String| {
        Measure::new(what, (megabytes(bytes), "MB"), Target::AtMost(most), context)
    };
    // What is resident besides are pages of the program's file, as many as the kernel has mapped.
    let anonymous = |process| -> anyhow::Result<_> {
        let resident = megabytes(resident_bytes(process)?);
        Ok((anonymous_bytes(process)?, format!("anonymous; {resident:.1} MB resident")))
    };
    let (own, context) = anonymous(orchestrator)?;
    let (agents, agents_context) = anonymous(agent)?;
    let resident = resident_bytes(orchestrator)?;
    Ok(vec![
        of("memory at rest, orchestrator", own, 6.0, context),
        of("memory at rest, orchestrator, with its code", resident, 25.0, "resident".to_owned()),
        of("memory at rest, agent", agents, 6.0, agents_context),
    ])
}

#[expect(clippy::cast_precision_loss, reason = "memory far below 2^52 bytes")]
fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}
