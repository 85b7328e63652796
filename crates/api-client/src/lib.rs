//! A typed client for every operation of the API.
//!
//! One [`Client`] speaks to one base URL, an orchestrator's or an agent's. Each operation is one
//! method, named after it, in the file of its resource. Nothing here retries: whoever calls knows
//! what may be repeated and how long it may wait ([`ClientError::is_transient`] says when it is
//! worth it).

mod agent;
mod client;
mod download;
mod error;
mod events;
mod jobs;
mod lines;
mod logs;
mod nodes;
mod protocol;
mod query;

pub use agent::LogsQuery;
pub use client::{CONNECT_TIMEOUT, Client, MAX_ANSWER_BYTES, REQUEST_TIMEOUT};
pub use download::Download;
pub use error::{ClientError, InvalidBaseUrl};
pub use events::{EventsQuery, StreamedEvent};
pub use jobs::{ExecutionsQuery, HistoryQuery, JobsQuery, ResultsQuery};
pub use lines::MAX_LINE_BYTES;
pub use logs::JobLogsQuery;
pub use nodes::NodesQuery;
