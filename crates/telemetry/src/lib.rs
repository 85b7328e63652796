//! What both daemons tell of themselves: metrics, the log, traces.
//!
//! A daemon counts what happens where it happens, and reads what merely is at the moment somebody
//! asks; neither waits for whoever listens.

pub mod log;
pub mod metrics;
pub mod traces;
