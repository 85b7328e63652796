//! Process-level parts of both daemons: command line, health probe, HTTP edge, service manager.
//!
//! It knows neither of the daemons, and nothing about jobs.

pub mod command;
pub mod health;
pub mod help;
pub mod http;
mod runtime;
pub mod sample;
pub mod service_manager;

pub use command::Command;
pub use lock::lock;
pub use runtime::{keep_files_private, runtime};
pub use service_manager::Pulse;
