//! The control plane without its I/O: the step function, and the parts below it: commits, the
//! clock, retention, the store.
//!
//! The daemon and the simulator run the same [`step::Step`]; each carries out its actions in its
//! own way.

pub mod audit;
pub mod batch;
pub mod clock;
pub mod follow;
pub mod groups;
pub mod pruning;
pub mod quotas;
pub mod records;
pub mod schedule;
pub mod step;
pub mod store;
