//! A deterministic simulation of the whole service: the engine and its store, the agents' pure
//! core, docker and the network, in one thread and in virtual time.
//!
//! One seed decides everything: what is submitted, how long messages take, which of them are lost
//! or repeated, who dies between which two steps, which containers cannot be made. After every
//! step the engine's invariants are checked, and at the end, when every fault is healed, the
//! promises of the service: every accepted job has exactly one outcome, no slot completed twice,
//! nothing was started twice, nothing was placed beyond capacity, no execution moved backwards,
//! revisions and sequences have no gap, no container is left.
//!
//! What is real: [`orchestrator::engine`](::orchestrator::engine), the contract of the store (its
//! in-memory implementation, whose clone is what a crash leaves), [`compute_agent::core`]. What is
//! modelled: HTTP (requests that are lost, late, repeated; a stream that is cut), docker, and the
//! few lines of an agent's session that decide when to join, to send and to give up.

mod agent;
mod checks;
mod docker;
mod faults;
mod network;
mod orchestrator;
mod summary;
mod workload;
mod world;

pub use summary::{Failure, Sabotage, Summary};
pub use world::{run, run_with};
