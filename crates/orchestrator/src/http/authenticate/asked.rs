//! What the audit log says of a request.

use std::net::IpAddr;

use api_types::audit::AuditOutcome;
use axum::body::Body;
use control_plane::audit::AuditEntry;
use daemon::http::{RequestContext, RequestId};
use http::{Request, Uri};

use crate::access::{Caller, Who};
use crate::clock;
use crate::http::Api;

/// The longest part of a path that the audit log has.
const MAX_PATH_CHARS: usize = 300;

/// What the audit log says of a request, besides who sent it.
#[derive(Debug, Clone)]
pub(in crate::http) struct Asked {
    pub(super) operation: &'static str,
    pub(super) uri: Uri,
    pub(super) address: Option<IpAddr>,
    pub(super) id: Option<RequestId>,
}

// === impl Asked ===

impl Asked {
    pub(super) fn of(request: &Request<Body>, operation: &'static str) -> Self {
        let context = RequestContext::of(request.extensions());
        Self {
            operation,
            uri: request.uri().clone(),
            address: context.and_then(|context| context.peer),
            id: context.and_then(|context| context.id.clone()),
        }
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

    /// Notes that somebody who is known by an ID token, and by nothing else, gets nothing.
    pub(in crate::http) fn note_denied(&self, api: &Api, user: &str) {
        api.denials.note(self.by(user, "", AuditOutcome::Denied));
    }

    /// Notes that the request carried credentials that are not valid.
    pub(in crate::http) fn note_unknown(&self, api: &Api) {
        if let Some(address) = self.address {
            api.denials.note_unknown(address);
        }
    }
}
