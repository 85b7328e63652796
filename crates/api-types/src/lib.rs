//! Types that cross the wire: records, states, ids, selectors, quantities, the error envelope.
//!
//! Everything here is plain data with serde: no I/O, no clock, no HTTP library.
//! `docs/api.md` is the source of every name and shape.

pub mod access;
pub mod audit;
pub mod cluster;
pub mod constraint;
pub mod credential;
pub mod curve;
pub mod demand;
pub mod dependency;
pub mod engine;
pub mod error;
pub mod execution;
pub mod explanation;
pub mod gate;
pub mod graph;
pub mod group;
pub mod history;
pub mod id;
pub mod image;
pub mod job;
pub mod job_input;
pub mod joining;
pub mod key;
pub mod log;
pub mod member;
pub mod node;
#[cfg(feature = "openapi")]
pub mod openapi;
pub mod protocol;
pub mod quantity;
pub mod quota;
pub mod reason;
pub mod requester;
pub mod rerun;
pub mod routes;
pub mod schedule;
pub mod search;
pub mod secret;
pub mod selector;
pub mod slots;
pub mod source;
pub mod submission;
pub mod summary;
#[cfg(feature = "testing")]
pub mod testing;
pub mod text;
pub mod time;
pub mod trust;
pub mod usage;
pub mod version;
pub mod words;

mod serde_empty;
mod word;

/// The largest body that an operation accepts.
pub const MAX_BODY_BYTES: usize = 10_000_000;

pub use error::{ApiError, Code};
pub use id::{EvaluationId, ExecutionId, GraphId, JobId, NodeId};
pub use time::Timestamp;
pub use trust::KeyDigest;
