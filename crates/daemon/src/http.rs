//! The HTTP edge of both daemons: connections, limits, and the processing of every response.
//!
//! A daemon provides its routes, and converts its failures into [`Refusal`]s.

mod edge;
mod indent;
mod serve;

pub use edge::{JSON, REQUEST_ID, Refusal, answer, json, wants_pretty};
pub use serve::{Peer, connections_within, serve};
