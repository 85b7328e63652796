//! Why the demo failed.

use std::io;

use api_client::{ClientError, InvalidBaseUrl};

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
