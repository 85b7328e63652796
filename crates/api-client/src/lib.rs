//! A typed client for every operation of the API.
//!
//! One [`Client`] connects to one service, an orchestrator's or an agent's. Each operation is a
//! method of the same name, in the file of its resource. If the service has several URLs, a request
//! goes to the next one where that is harmless (`call`). Apart from that the client never retries:
//! its caller knows which requests may be repeated and for how long, and
//! [`ClientError::is_transient`] says when a retry makes sense.

mod access;
mod agent;
mod call;
mod client;
mod cluster;
mod download;
mod endpoints;
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
pub use call::{MAX_RESPONSE_BYTES, REQUEST_TIMEOUT};
pub use client::Client;
pub use cluster::{LiveExecutionsQuery, UsageQuery};
pub use download::Download;
pub use endpoints::{CONNECT_TIMEOUT, CONNECT_TIMEOUT_OF_SEVERAL, MAX_URLS, base_urls};
pub use error::{ClientError, InvalidBaseUrl, NoAnswer};
pub use events::{EventsQuery, StreamedEvent};
pub use graphs::GraphsQuery;
pub use jobs::{ExecutionsQuery, HistoryQuery, JobsQuery, ResultsQuery};
pub use lines::MAX_LINE_BYTES;
pub use logs::JobLogsQuery;
pub use nodes::{NodeHistoryQuery, NodesQuery};
pub use options::{Credentials, Identity, Options, ProxyUse, Trust};
pub use tls::authority_key;
