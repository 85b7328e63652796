//! The demo: a cluster in one process runs a job that counts the words of a text.
//!
//! The demo starts the daemons' libraries and otherwise uses the HTTP API like any client.

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

/// Why the demo failed.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    #[error(transparent)]
    NoDocker(#[from] task_image::docker::NoDocker),
    #[error(transparent)]
    Image(#[from] task_image::image::ImageError),
    #[error("send a request to the orchestrator")]
    Client(#[from] ClientError),
    #[error("create a client of the orchestrator")]
    BaseUrl(#[from] InvalidBaseUrl),
    #[error("write to the terminal")]
    Terminal(#[from] io::Error),
    #[error("start the {daemon}: {reason}")]
    Start { daemon: &'static str, reason: String },
    #[error("{0}")]
    Story(String),
}
