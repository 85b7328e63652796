//! The pure part of the compute agent: the state of a node, and its reaction to each input.
//!
//! [`execution`] is the lifecycle of one execution on a node, [`node_state`] holds all executions
//! of a node, [`ledger`] is what is persisted of both, and [`session`] decides when to contact the
//! orchestrator. Each input carries the time; decisions leave as effects. The crate is `no_std`, so
//! that the compiler rejects a clock, a file, a socket or a thread.

#![no_std]

extern crate alloc;

pub mod backoff;
mod boot;
pub mod execution;
pub mod ledger;
pub mod node_state;
pub mod session;

pub use boot::{BootId, Now};
pub use execution::Execution;
pub use ledger::{Batch, Contents, Ends, StoredReport};
pub use node_state::NodeState;
