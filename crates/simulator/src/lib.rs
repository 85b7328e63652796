//! A deterministic simulation of the whole service: the scheduler and its store, the agents' pure
//! core, docker and the network, in one thread and in virtual time.
//!
//! One seed determines everything: submissions, message delays, lost and repeated messages, crashes
//! between any two steps, containers that cannot be created. After every step the simulator checks
//! the scheduler's invariants. At the end, after all faults are healed, it checks the guarantees of
//! the service: every accepted job has exactly one outcome, no slot completed twice, no process was
//! started twice, no placement exceeded a capacity, no execution moved backwards, revisions and
//! sequences have no gaps, the times of a job's history never go back, and no container is left.
//!
//! Real parts: the orchestrator's [`step`](control_plane::step) with the
//! [`scheduler`](::scheduler), the store contract (the in-memory implementation, which survives
//! crashes), and [`agent_core`]. Modelled parts: HTTP (lost, late and repeated requests; broken
//! streams), the store's disk (full, or without an answer), docker, and the rules of an agent's
//! session.

mod agent;
mod checks;
mod docker;
mod faults;
mod machine;
mod network;
mod orchestrator;
pub mod random;
mod summary;
mod workload;
mod world;

pub use summary::{Failure, Sabotage, Summary};
pub use world::{run, run_with};
