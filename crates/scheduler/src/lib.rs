//! The pure scheduler: state, now and an input become changes and effects.
//!
//! No clock, no randomness, no I/O: the time comes with each input, and IDs come from a seeded
//! [`mint::Mint`]. The crate does not use the standard library, so that the compiler refuses a
//! clock, a file, a socket or a thread. The state holds what is live: nodes, jobs that have work
//! left, their executions, the queue. Everything finished lives in the store only.
//!
//! Costs, with n nodes and p pools (see [`queue`]): a submission, a report or a placement is O(p log
//! n); a heartbeat O(1); a node that joins, leaves or changes O(p) plus the work it runs; the first
//! job that finds its class full O(n). A namespace makes separate classes: each costs what a class
//! of another demand costs, and its first job finds it full by itself. While a backlog is left, a
//! submission also compares itself with the best of its pool's classes: one in 4096 of them, and 16
//! entries of the backlog. Memory: one [`state::job::LiveJob`] and a queue entry per queued
//! job (specifications stay in the store), and one row per execution.

#![no_std]

extern crate alloc;

mod agents;
mod budget;
pub mod change;
mod counterparts;
pub mod demand;
mod dependency;
pub mod downstream;
mod end;
pub mod exclusion;
mod fetch;
mod gate;
pub mod health;
pub mod input;
pub mod invariants;
mod keyed;
mod marks;
pub mod mint;
pub mod node_event;
pub mod node_name;
mod notice;
mod occupancy;
pub mod outcomes;
pub mod plan;
mod queue;
mod rank;
mod reads;
pub mod rerun;
mod reservation;
mod restore;
mod rules;
mod scheduler;
mod settings;
mod settle;
pub mod silence;
mod slot_set;
pub mod slots;
mod state;
mod streak;
pub mod text;
pub mod time;
mod timer;
mod tries;
mod turn;
mod views;

pub use queue::quota::{Entitled, Entitlement, Quota, QuotaUse};
pub use restore::{Restore, RestoreError};
pub use scheduler::{LONGEST_SLEEP, Scheduler};
pub use settings::Settings;
pub use turn::Output;
pub use views::census::{Census, Waiting};
pub use views::demand::{ClusterDemand, WaitingClass};
pub use views::dry_run::Preview;
pub use views::group::GroupUse;
pub use views::reasons::Reasons;
pub use views::standing::{Ahead, Held, Standing, Waits};
