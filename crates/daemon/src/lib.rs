//! What both daemons are as processes: a command line, a health that can be asked for, a data
//! directory of their own, and a service manager that looks after them.
//!
//! It knows neither of the daemons, and nothing of jobs.

pub mod command;
pub mod health;
pub mod help;
mod lock;
mod runtime;
pub mod sample;
pub mod service_manager;

pub use command::Command;
pub use lock::lock;
pub use runtime::runtime;
pub use service_manager::Pulse;
