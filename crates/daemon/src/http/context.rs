//! What is known of a request apart from its message.

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use http::Extensions;
use http::request::Parts;

use super::head::Flaw;
use super::tls::ClientCertificate;

/// One value in the extensions of a request, because each extension is a separate allocation.
#[derive(Debug, Clone, Default)]
pub struct RequestContext {
    /// The other end of the connection.
    pub peer: Option<IpAddr>,
    /// What the peer presented in the TLS handshake.
    pub certificate: Option<ClientCertificate>,
    pub id: Option<RequestId>,
    /// Why no operation sees the request, if the connection delivered one that is malformed.
    pub flaw: Option<Flaw>,
    /// The path of the operation, with the names of its parameters.
    pub pattern: &'static str,
}

/// The ID of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestId(pub Arc<str>);

/// Who sent a request: the other end of its connection, unless it came from none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Peer(pub Option<IpAddr>);

// === impl RequestContext ===

impl RequestContext {
    /// Of a request with these extensions.
    pub fn from_extensions(extensions: &Extensions) -> Option<&Self> {
        extensions.get()
    }

    /// The same to be filled in.
    pub(super) fn from_extensions_mut(extensions: &mut Extensions) -> &mut Self {
        extensions.get_or_insert_default()
    }
}

// === impl Peer ===

impl Peer {
    pub fn from_extensions(extensions: &Extensions) -> Self {
        Self(RequestContext::from_extensions(extensions).and_then(|context| context.peer))
    }
}

impl<S: Sync> FromRequestParts<S> for Peer {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self::from_extensions(&parts.extensions))
    }
}
