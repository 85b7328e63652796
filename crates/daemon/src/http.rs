//! The HTTP edge of both daemons: connections, limits, and the processing of every response.
//!
//! A daemon provides its routes, and converts its failures into [`Refusal`]s.

mod accept;
mod context;
mod edge;
mod head;
mod indent;
mod operations;
mod plain;
pub mod preface;
mod query;
mod refusal;
pub mod requester;
mod routes;
mod serve;
mod tls;
mod unread;

pub use accept::{Accepted, Permits, connections_within, tune};
pub use context::{Peer, RequestContext, RequestId};
pub use edge::{REQUEST_ID, answer, json, wants_pretty};
pub use head::Flaw;
#[doc(hidden)]
pub use operations::method;
pub use operations::{Described, Document, Operations};
pub use query::{InvalidQuery, MAX_LIMIT, Query, invalid_query};
pub use refusal::{JSON, Refusal};
pub use routes::{RouteMatch, Routes, parameters};
pub use serve::{Listening, serve};
pub use tls::{ClientCertificate, Tls};
pub use unread::RequestBody;
#[doc(hidden)]
pub use utoipa_axum;

#[cfg(test)]
mod tests;
