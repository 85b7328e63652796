//! The compute agent: joins an orchestrator, and runs on this node what it is told to.
//!
//! [`Agent::start`] runs one inside any process; `main.rs` is one process around it.

mod admission;
mod agent;
mod archive;
mod attempts;
mod backoff;
mod capacity;
mod clock;
mod collect;
pub mod core;
mod data_dir;
mod disk;
mod drain;
mod environment;
pub mod execution;
mod executor;
mod generator;
mod gpu;
mod http;
mod kubo;
mod ledger;
mod mint;
mod node_record;
mod observer;
mod outbox;
mod output;
mod progress;
mod publisher;
mod s3;
mod session;
pub mod settings;
mod source;
mod steps;
mod supervisor;
mod web;

#[cfg(test)]
mod testing;

pub use agent::{Agent, RunningAgent, StartError, run};
pub use data_dir::DataDirError;
pub use settings::Settings;
