//! The demo: a cluster in one process runs a job that counts the words of a text.
//!
//! The demo starts the daemons' libraries and otherwise uses the HTTP API like any client.

mod changes;
mod cluster;
mod engine;
mod error;
mod story;
mod terminal;
mod text;

pub use cluster::{DEFAULT_ADDRESS, DemoCluster};
pub use engine::Choice;
pub use error::DemoError;
pub use story::Story;
pub use terminal::Terminal;
