//! The HTTP edge of both daemons: connections, limits, and the processing of every response.
//!
//! A daemon provides its routes, and converts its failures into [`Refusal`]s.

mod context;
mod edge;
mod indent;
mod operations;
mod routes;
mod serve;
mod tls;
mod unread;

pub use context::{Peer, RequestContext};
pub use edge::{JSON, REQUEST_ID, Refusal, RequestId, answer, json, wants_pretty};
#[doc(hidden)]
pub use operations::method;
pub use operations::{Described, Document, Operations};
pub use routes::{Found, Routes, parameters};
pub use serve::{Listening, connections_within, serve};
pub use tls::{ClientCertificate, Tls};
pub use unread::RequestBody;
#[doc(hidden)]
pub use utoipa_axum;

#[cfg(test)]
mod tests;
