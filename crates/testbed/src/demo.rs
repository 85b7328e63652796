//! The demo: a cluster in one process, a job that counts the words of a text, and its results.
//!
//! Everything it shows it has over HTTP, as any client would: the demo itself knows no more of
//! the daemons than how to start them.

mod changes;
mod cluster;
mod engine;
mod story;
mod terminal;
mod text;

use std::io;

use api_client::{ClientError, InvalidBaseUrl};

pub use cluster::{DEFAULT_ADDRESS, DemoCluster};
pub use engine::Choice;
pub use story::Story;
pub use terminal::Terminal;

/// Why the demo cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    #[error(transparent)]
    NoDocker(#[from] crate::docker::NoDocker),
    #[error(transparent)]
    Image(#[from] crate::image::ImageError),
    #[error("ask the orchestrator")]
    Client(#[from] ClientError),
    #[error("make a client of the orchestrator")]
    BaseUrl(#[from] InvalidBaseUrl),
    #[error("write to the terminal")]
    Terminal(#[from] io::Error),
    #[error("start the {daemon}: {reason}")]
    Start { daemon: &'static str, reason: String },
    #[error("{0}")]
    Story(String),
}
