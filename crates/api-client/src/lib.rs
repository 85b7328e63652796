//! A typed client for every operation of the API.
//!
//! One [`Client`] connects to one base URL, an orchestrator's or an agent's. Each operation is a
//! method of the same name, in the file of its resource. The client never retries: its caller
//! knows which requests may be repeated and for how long, and [`ClientError::is_transient`] says
//! when a retry makes sense.

mod access;
mod agent;
mod client;
mod cluster;
mod download;
mod error;
mod events;
mod graphs;
mod groups;
mod jobs;
mod joining;
mod lines;
mod logs;
mod nodes;
#[cfg(feature = "observed")]
pub mod observed;
mod options;
mod protocol;
mod proxy;
mod query;
mod schedules;
mod tls;

pub use access::AuditQuery;
pub use agent::LogsQuery;
pub use client::{CONNECT_TIMEOUT, Client, MAX_RESPONSE_BYTES, REQUEST_TIMEOUT};
pub use cluster::{LiveExecutionsQuery, UsageQuery};
pub use download::Download;
pub use error::{ClientError, InvalidBaseUrl};
pub use events::{EventsQuery, StreamedEvent};
pub use graphs::GraphsQuery;
pub use jobs::{ExecutionsQuery, HistoryQuery, JobsQuery, ResultsQuery};
pub use lines::MAX_LINE_BYTES;
pub use logs::JobLogsQuery;
pub use nodes::{NodeHistoryQuery, NodesQuery};
pub use options::{Credentials, Identity, Options, ProxyUse, Trust};
pub use tls::authority_key;
