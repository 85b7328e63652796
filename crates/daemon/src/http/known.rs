//! What is known of a request besides its message.

use std::convert::Infallible;
use std::net::IpAddr;

use axum::extract::FromRequestParts;
use http::Extensions;
use http::request::Parts;

use super::{ClientCertificate, RequestId};

/// In the extensions of a request, as one value: each would take two pieces of memory of its own.
#[derive(Debug, Clone, Default)]
pub struct Known {
    /// The other end of the connection.
    pub peer: Option<IpAddr>,
    /// What the peer has shown in the handshake.
    pub certificate: Option<ClientCertificate>,
    pub id: Option<RequestId>,
    /// The path of the operation, with the names of its parameters.
    pub pattern: &'static str,
}

/// Who sent a request: the other end of its connection, unless it came from none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer(pub Option<IpAddr>);

// === impl Known ===

impl Known {
    /// Of a request with these extensions.
    pub fn of(extensions: &Extensions) -> Option<&Self> {
        extensions.get()
    }

    pub(super) fn fill(extensions: &mut Extensions) -> &mut Self {
        extensions.get_or_insert_default()
    }
}

// === impl Peer ===

impl Peer {
    pub fn of(extensions: &Extensions) -> Self {
        Self(Known::of(extensions).and_then(|known| known.peer))
    }
}

impl<S: Sync> FromRequestParts<S> for Peer {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self::of(&parts.extensions))
    }
}
