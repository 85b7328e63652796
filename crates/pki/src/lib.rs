//! The certificates of a cluster: its CA, its servers, its nodes.
//!
//! A certificate says who its holder is, in a URI: `urn:jobs:orchestrator:<id>` or
//! `urn:jobs:node:<id>`. Everything is valid from 2020 on, so that a machine whose clock is behind
//! can still use a certificate that was made just now.
//!
//! Whether an identity may do something is not decided here: a node's certificate passes the
//! handshake even when it has expired, because a node that was off for a month still has to prove
//! who it is in order to renew it. [`Peer::expires`] says when it ended.

mod authority;
mod peer;
mod request;
pub mod server;

pub use authority::{Authority, AuthorityError, Issued};
pub use peer::{Peer, PeerError};
pub use request::{NodeKey, NodeRequest, RequestError};

#[cfg(test)]
mod tests;
