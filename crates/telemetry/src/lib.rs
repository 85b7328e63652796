//! Telemetry of both daemons: metrics, log, traces.
//!
//! A daemon counts events where they happen, and reads gauges when it is scraped. Neither waits
//! for a consumer.

pub mod log;
pub mod metrics;
pub mod traces;
