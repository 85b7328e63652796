//! What the usage curves of running tasks take of an agent's memory.

use super::measure::{Measure, Target};
use super::process::anonymous_bytes;

/// Tasks of the row.
const TASKS: u32 = 1000;

/// As many times as many are weighed, so that memory which this program had free does not count.
const TIMES: u32 = 40;

pub(super) fn measure() -> anyhow::Result<Vec<Measure>> {
    let own = std::process::id();
    let before = anonymous_bytes(own)?;
    let curves = compute_agent::full_curves(TASKS * TIMES);
    let taken = anonymous_bytes(own)?.saturating_sub(before);
    drop(curves);
    #[expect(clippy::cast_precision_loss, reason = "memory far below 2^52 bytes")]
    let megabytes = taken as f64 / f64::from(TIMES) / 1e6;
    Ok(vec![Measure::new(
        format!("memory of an agent for {TASKS} full usage curves"),
        (megabytes, "MB"),
        Target::AtMost(2.0),
        "with what else a measured task takes",
    )])
}
