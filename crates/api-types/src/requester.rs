//! The group of operations that the API replaced: both daemons answer 410 to every request for it.

use crate::{ApiError, Code, routes};

/// The patterns of all its paths.
pub const PATTERNS: [&str; 3] =
    ["/api/v1/requester", routes::REQUESTER, "/api/v1/requester/{*rest}"];

/// What replaces each of the old paths.
const REPLACEMENTS: [(&str, &str); 9] = [
    ("list", "GET /api/v1/orchestrator/jobs"),
    ("nodes", "GET /api/v1/orchestrator/nodes"),
    ("states", "GET /api/v1/orchestrator/jobs/:jobID"),
    ("results", "GET /api/v1/orchestrator/jobs/:jobID"),
    ("events", "GET /api/v1/orchestrator/jobs/:jobID/history"),
    ("submit", "PUT /api/v1/orchestrator/jobs"),
    ("cancel", "DELETE /api/v1/orchestrator/jobs/:jobID"),
    ("debug", "GET /api/v1/orchestrator/nodes/:nodeID"),
    ("websocket/events", "GET /api/v1/orchestrator/jobs/:jobID/history"),
];

/// The answer to a request for a path of the group: it names what replaces the path.
pub fn gone(path: &str) -> ApiError {
    let old = path.strip_prefix(routes::REQUESTER).unwrap_or_default().trim_end_matches('/');
    let message = match REPLACEMENTS.iter().find(|(name, _)| *name == old) {
        Some((_, operation)) => format!("{path} is gone; it is replaced by {operation}"),
        None => {
            format!("{path} is gone; the requester group is replaced by /api/v1/orchestrator/")
        }
    };
    ApiError::new(Code::Gone, message)
}
