//! The certificates of a cluster: its CA, its servers, its nodes.
//!
//! A certificate says who its holder is, in a URI: `urn:jobs:orchestrator:<id>` or
//! `urn:jobs:node:<id>`. Everything is valid from 2020 on, so that a machine whose clock is behind
//! can still use a certificate that was made just now.
//!
//! A cluster can replace its CA: the old one certifies the new one, so that clients that know only the
//! old one accept servers with certificates of the new one; see [`Authority::certify`].
//!
//! Whether an identity may do something is not decided here: a node's certificate passes the
//! handshake even when it has expired, because a node that was off for a month still has to prove
//! who it is in order to renew it. [`Peer::expires`] says when it ended.

mod authority;
mod name;
mod peer;
mod request;
pub mod server;

pub use authority::{Authority, AuthorityCertificate, AuthorityError, Issued, MAX_AUTHORITIES};
pub use peer::{Peer, PeerError};
pub use request::{NodeKey, NodeRequest, RequestError};

#[cfg(test)]
mod tests;
