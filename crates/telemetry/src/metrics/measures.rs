//! Buckets, units, and the ways in which measures are registered.

use std::fmt::Debug;
use std::hash::Hash;
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

/// Bucket bounds from a fraction of a millisecond to seconds: requests and commits.
pub const SHORT_SECONDS: [f64; 13] =
    [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0];

/// Bucket bounds from a millisecond to hours: waiting, fetching, running.
pub const LONG_SECONDS: [f64; 14] =
    [0.001, 0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0, 300.0, 1800.0, 7200.0, 86_400.0];

/// Bucket bounds of batch sizes.
pub const COUNTS: [f64; 6] = [1.0, 4.0, 16.0, 64.0, 256.0, 1024.0];

/// Registers a family of histograms in seconds; `name` lacks the unit.
pub fn seconds<L>(
    registry: &mut Registry,
    name: &str,
    help: &str,
    histogram: fn() -> Histogram,
) -> Family<L, Histogram>
where
    L: Clone + Eq + Hash + Debug + EncodeLabelSet + Send + Sync + 'static,
{
    let family = Family::new_with_constructor(histogram);
    registry.register_with_unit(name, help, Unit::Seconds, family.clone());
    family
}

pub fn short_seconds() -> Histogram {
    Histogram::new(SHORT_SECONDS)
}

pub fn long_seconds() -> Histogram {
    Histogram::new(LONG_SECONDS)
}

/// Registers a gauge with its value at the time of the scrape.
pub fn number(registry: &mut Registry, name: &str, help: &str, value: f64) {
    registry.register(name, help, ConstGauge::new(value));
}

/// The same with a unit, which is appended to the name.
pub fn quantity(registry: &mut Registry, name: &str, help: &str, unit: Unit, value: f64) {
    registry.register_with_unit(name, help, unit, ConstGauge::new(value));
}

/// Converts a count into a sample; rounded beyond 2^53.
#[expect(clippy::cast_precision_loss, reason = "samples are floating point numbers")]
pub const fn sample(count: u64) -> f64 {
    count as f64
}

/// Converts millicores into cores.
pub const fn cores(millis: u64) -> f64 {
    sample(millis) / 1000.0
}

/// Converts a duration into seconds.
pub const fn elapsed(time: Duration) -> f64 {
    time.as_secs_f64()
}
