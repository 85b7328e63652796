//! What the types of the API name in their schemas.
//!
//! It knows none of them, so that each of them may use it.

use serde_json::Value;
use utoipa::openapi::{RefOr, Schema};

/// The schema that this JSON is.
pub fn schema(json: Value) -> RefOr<Schema> {
    RefOr::T(serde_json::from_value(json).expect("it is written down here, and tests read it"))
}

/// An execution ID, or the empty text where there is none.
pub struct ExecutionIdOrEmpty;
/// A job ID, or the empty text where there is none.
pub struct JobIdOrEmpty;
/// An evaluation ID, or the empty text where there is none.
pub struct EvaluationIdOrEmpty;
/// A node ID, or the empty text where there is none.
pub struct NodeIdOrEmpty;
/// The states that a node reports.
pub struct ReportedState;
/// The operators of a constraint.
pub struct ConstraintOperator;
/// `Engine` of a submission.
pub struct EngineSubmission;
/// `Publisher` of a submission.
pub struct PublisherSubmission;
/// `Source` of an input of a submission.
pub struct SourceSubmission;
/// `Params` without any fields that are read. A separate schema, because client generators make a
/// class of each object and name unnamed ones twice.
pub struct AnyParams;
