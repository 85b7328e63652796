//! The thread-free parts around the scheduler: batches of inputs, the clock, retention, the store.
//!
//! The daemon and the simulator share these parts, each with its own loop.

pub mod batch;
pub mod clock;
pub mod pruning;
pub mod store;
