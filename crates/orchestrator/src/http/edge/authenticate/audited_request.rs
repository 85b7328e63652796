//! What the audit log says of a request.

use std::net::IpAddr;

use api_types::audit::{AuditChain, AuditOutcome};
use axum::body::Body;
use control_plane::audit::AuditEntry;
use daemon::http::{RequestContext, RequestId};
use http::{HeaderValue, Method, Request, Uri, header};

use crate::access::{Caller, Who};
use crate::clock;
use crate::http::api::Api;

/// The longest part of a path that the audit log has.
const MAX_PATH_CHARS: usize = 300;

/// What the audit log says of a request, apart from who sent it.
#[derive(Debug, Clone)]
pub(in crate::http) struct AuditedRequest {
    pub(super) operation: &'static str,
    pub(super) uri: Uri,
    pub(super) address: Option<IpAddr>,
    pub(super) id: Option<RequestId>,
    /// As which host the caller knows this service; the guard has judged it.
    host: Option<HeaderValue>,
    is_protected: bool,
}

// === impl AuditedRequest ===

impl AuditedRequest {
    pub(super) fn new(api: &Api, request: &Request<Body>, operation: &'static str) -> Self {
        let context = RequestContext::from_extensions(request.extensions());
        Self {
            operation,
            uri: request.uri().clone(),
            address: context.and_then(|context| context.peer),
            id: context.and_then(|context| context.id.clone()),
            host: request.headers().get(header::HOST).cloned(),
            is_protected: api.protection.is_some(),
        }
    }

    /// Whether the request makes a change that the audit log keeps for a year.
    pub(super) fn is_lasting(&self, method: &Method) -> bool {
        let reads = [Method::GET, Method::HEAD].contains(method);
        let chain = AuditEntry::chain_of(self.operation, AuditOutcome::Done);
        !reads && !self.operation.is_empty() && chain == AuditChain::Changes
    }

    /// A URL of this service as the caller reaches it; for one that names no host, the path alone.
    pub(super) fn url_of(&self, path: &str) -> String {
        let host = match self.uri.authority() {
            Some(authority) => Some(authority.as_str()),
            None => self.host.as_ref().and_then(|host| host.to_str().ok()),
        };
        let scheme = if self.is_protected { "https" } else { "http" };
        host.map_or_else(|| path.to_owned(), |host| format!("{scheme}://{host}{path}"))
    }

    pub(super) fn entry(&self, caller: &Caller, outcome: AuditOutcome) -> AuditEntry {
        let id = match &caller.who {
            Who::Local => String::new(),
            Who::Node(id) => id.to_string(),
            Who::Token { id, .. } => id.clone(),
        };
        self.by(caller.name(), &id, outcome)
    }

    /// For requests that carry their credentials in their body.
    pub(in crate::http) fn done_by(&self, user: &str, token_id: &str) -> AuditEntry {
        self.by(user, token_id, AuditOutcome::Done)
    }

    fn by(&self, user: &str, token_id: &str, outcome: AuditOutcome) -> AuditEntry {
        AuditEntry {
            chain: AuditEntry::chain_of(self.operation, outcome),
            time: clock::now(),
            user: user.to_owned(),
            token_id: token_id.to_owned(),
            address: self.address.map(|address| address.to_string()).unwrap_or_default(),
            operation: self.operation,
            object: self.uri.path().chars().take(MAX_PATH_CHARS).collect(),
            request_id: self.id.as_ref().map(|RequestId(id)| id.to_string()).unwrap_or_default(),
            outcome,
            count: 1,
        }
    }

    /// The same for a request that makes a token for its caller.
    pub(in crate::http) fn done_for(&self, user: &str, token_id: &str) -> AuditEntry {
        AuditEntry { object: token_id.to_owned(), ..self.done_by(user, token_id) }
    }

    /// The same for a caller whose credentials are in the body and do not permit it.
    pub(in crate::http) fn denied(&self, caller: &Caller) -> AuditEntry {
        self.entry(caller, AuditOutcome::Denied)
    }

    /// Notes that a caller known only by an ID token gets nothing.
    pub(in crate::http) fn note_denied(&self, api: &Api, user: &str) {
        api.handle.repeats().note(self.by(user, "", AuditOutcome::Denied));
    }

    /// Notes that the request carried credentials that are not valid.
    pub(in crate::http) fn note_unknown(&self, api: &Api) {
        if let Some(address) = self.address {
            api.handle.repeats().note_unknown(address);
        }
    }
}
