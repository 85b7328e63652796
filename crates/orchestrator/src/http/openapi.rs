//! The OpenAPI document: a file that the tests write and compare, and that is served.
//!
//! An attribute of each handler declares its parameters and responses, and the same attribute
//! routes it: no second list of operations can fall behind. `described` collects the document
//! from them. Rejected: a handwritten document, which nothing checks against the handlers; one that
//! the service makes, whose parts were a tenth of its code.

#[cfg(test)]
pub(super) mod described;
pub(super) mod examples;
pub(super) mod params;

use api_types::Code::{self, *};

// === Codes that operations may be refused with ===

pub(super) const QUERY: &[Code] = &[InvalidQuery];
pub(super) const PAGE: &[Code] = &[InvalidQuery, InvalidNextToken];
pub(super) const BODY: &[Code] =
    &[MalformedBody, InvalidRequest, BodyTooLarge, UnsupportedMediaType, TooManyRequests];
/// A path that cannot be decoded names nothing.
pub(super) const JOB: &[Code] = &[JobNotFound, AmbiguousId, PathNotFound];
pub(super) const EXECUTION: &[Code] = &[ExecutionNotFound, AmbiguousId];
pub(super) const NODE: &[Code] = &[NodeNotFound, AmbiguousId, PathNotFound];
pub(super) const OWN_NODE_ID: &[Code] = &[NodeNotFound, PathNotFound];
/// Reads of the store.
pub(super) const READ: &[Code] = &[TooManyRequests, StoreUnavailable];
/// Requests that go through the driver.
pub(super) const CALL: &[Code] = &[TooManyRequests, StoreUnavailable, ShuttingDown];
/// Requests that need a session.
pub(super) const SESSION: &[Code] = &[StaleSession, Forbidden];

/// What any request may be refused with: a bug can end it, [`guard`](super::edge::guard) and
/// [`authenticate`](super::edge::authenticate) check it.
const ANY: &[Code] = &[Internal, Unauthenticated, Forbidden, MisdirectedRequest];

/// What any request may be refused with that depends on the store: its response may be withheld.
const LED: &[Code] = &[StoreUnavailable];

/// All of these, and what any request may be refused with.
pub(super) fn refusals(sets: &[&[Code]]) -> Vec<Code> {
    sets.iter().copied().chain([LED, ANY]).flatten().copied().collect()
}

/// What a request may be refused with that concerns this process only.
pub(super) fn refusals_of_process() -> Vec<Code> {
    ANY.to_vec()
}
