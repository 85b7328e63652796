//! A deterministic simulation of the whole service: the scheduler and its store, the agents' pure
//! core, docker and the network, in one thread and in virtual time.
//!
//! One seed determines everything: submissions, message delays, lost and repeated messages, crashes
//! between any two steps, containers that cannot be created. After every step that stores something,
//! or after one in some while many jobs are live, the simulator checks the scheduler's invariants. A
//! witness checks each decision to give work up for the silence of its node, or to place a slot again
//! where it failed. What is stored is inspected for nodes that are blamed for nothing of theirs. After
//! all faults are healed, some runs end with a situation that has a guarantee
//! (`world::epilogue`): a crowd in which a large job must not starve, a node that breaks among others,
//! a silence in a long run, a silence of most nodes, a ledger without room. At the end the simulator
//! checks the guarantees of the service: every accepted job has exactly one outcome, no slot
//! completed twice, no process was started twice, no placement exceeded a capacity, no execution moved
//! backwards, revisions and sequences have no gaps, the times of a job's history never go back, and no
//! container is left.
//!
//! Real parts: the orchestrator's [`step`](control_plane::step) with the [`scheduler`], the store
//! contract (the in-memory implementation, which survives crashes), and [`agent_core`] with the
//! decisions of an agent's session. Modelled parts: HTTP (lost, late and repeated requests; streams
//! that are reset or fall silent), the store's disk (full, or without an answer), and docker.

mod agent;
mod checks;
mod coverage;
mod digest;
mod docker;
mod faults;
mod groups;
mod idle_quota;
mod inspection;
mod machine;
mod network;
mod orchestrator;
mod quotas;
pub mod random;
mod run;
mod schedule;
mod session;
mod shares;
mod summary;
mod trouble;
mod units;
mod workload;
mod world;

pub use digest::Digest;
pub use run::{digest, run, run_with};
pub use summary::{Failure, Sabotage, Summary};
