//! What the OpenAPI documents of both daemons share: schemas that cannot be derived, and the finish.
//!
//! Records derive their schemas next to their serde attributes. Here are those of types that read
//! and write themselves, and of what a submission may hold, which is text until it is checked.
//! [`finish`](finish()) brings a document that was collected from handlers into its final form.

mod direction;
mod finish;
#[cfg(feature = "testing")]
mod golden;
pub(crate) mod schema;

use std::borrow::Cow;

use serde_json::{Value, json};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use crate::engine::{DockerParams, NoopParams, S3PublisherParams, WasmParams};
use crate::execution::{ComputeState, DesiredState};
use crate::id::{EvaluationId, ExecutionId, GraphId, JobId, NodeId};
use crate::source::{
    InlineParams, IpfsParams, JobSourceParams, LocalDirectoryParams, RepositoryParams,
    S3SourceParams, UrlParams,
};
use crate::time::Timestamp;
pub use finish::{ApiInfo, CODES, ITEMS, finish};
#[cfg(feature = "testing")]
pub use golden::check_golden;
pub use schema::{
    AnyParams, ConstraintOperator, EngineSubmission, EvaluationIdOrEmpty, ExecutionIdOrEmpty,
    JobIdOrEmpty, NodeIdOrEmpty, PublisherSubmission, ReportedState, SourceSubmission, schema,
};

type Schemas = Vec<(String, RefOr<Schema>)>;

fn referred<T: ToSchema>(schemas: &mut Schemas) {
    schemas.push((T::name().into_owned(), T::schema()));
    T::schemas(schemas);
}

macro_rules! schemas {
    ($($type:ty, $name:literal $([$($part:ty),+])? => $json:expr;)*) => {$(
        impl PartialSchema for $type {
            fn schema() -> RefOr<Schema> {
                schema($json)
            }
        }

        impl ToSchema for $type {
            fn name() -> Cow<'static, str> {
                Cow::Borrowed($name)
            }

            $(fn schemas(schemas: &mut Schemas) {
                $(referred::<$part>(schemas);)+
            })?
        }
    )*};
}

const UUID: &str = "[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}";

fn id(letter: char, kind: &str) -> Value {
    json!({
        "type": "string",
        "pattern": format!("^{letter}-{UUID}$"),
        "description": format!("{kind}: `{letter}-` and a UUID."),
    })
}

fn id_or_empty(letter: char, kind: &str) -> Value {
    json!({
        "type": "string",
        "pattern": format!("^({letter}-{UUID})?$"),
        "description": format!("{kind}, or empty where there is none."),
    })
}

fn states(described: &str, numbers: &[u8]) -> Value {
    json!({ "type": "integer", "enum": numbers, "description": described })
}

/// One of the kinds of a submission: its word, and the schema of what its `Params` hold.
fn kind(word: &str, params: &str) -> Value {
    let params = json!({ "$ref": format!("#/components/schemas/{params}") });
    json!({
        "type": "object",
        "required": ["Type", "Params"],
        "properties": { "Type": { "type": "string", "enum": [word] }, "Params": params },
    })
}

/// A kind whose `Params` are not read.
fn kind_alone(word: &str) -> Value {
    json!({
        "type": "object",
        "required": ["Type"],
        "properties": { "Type": { "type": "string", "enum": [word] }, "Params": any_params() },
    })
}

fn any_params() -> Value {
    json!({ "oneOf": [{ "type": "null" }, { "$ref": "#/components/schemas/AnyParams" }] })
}

schemas! {
    JobId, "JobID" => id('j', "A job ID");
    ExecutionId, "ExecutionID" => id('e', "An execution ID");
    NodeId, "NodeID" => id('n', "A node ID");
    GraphId, "GraphID" => id('g', "A graph ID");
    EvaluationId, "EvaluationID" => id('v', "An evaluation ID");
    JobIdOrEmpty, "JobIDOrEmpty" => id_or_empty('j', "A job ID");
    ExecutionIdOrEmpty, "ExecutionIDOrEmpty" => id_or_empty('e', "An execution ID");
    EvaluationIdOrEmpty, "EvaluationIDOrEmpty" => id_or_empty('v', "An evaluation ID");
    NodeIdOrEmpty, "NodeIDOrEmpty" => id_or_empty('n', "A node ID");
    Timestamp, "Timestamp" => json!({
        "type": "integer",
        "format": "int64",
        "description": "Unix nanoseconds, UTC.",
    });
    ComputeState, "ComputeStateNumber" => states(
        "What the node observed: 0 Undefined, 1 New, 2 AskForBid, 3 AskForBidAccepted, \
         4 AskForBidRejected, 5 BidAccepted (starting or running), 6 BidRejected, 7 Completed, \
         8 Failed, 9 Cancelled; 4, 6, 7, 8 and 9 are terminal.",
        &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9],
    );
    ReportedState, "ReportedState" => states(
        "What a node observes: 3 AskForBidAccepted, 4 AskForBidRejected, 5 BidAccepted (the \
         process started), 7 Completed, 8 Failed, 9 Cancelled.",
        &[3, 4, 5, 7, 8, 9],
    );
    DesiredState, "DesiredStateNumber" => states(
        "What the orchestrator decided: 0 Pending, 1 Running, 2 Stopped.",
        &[0, 1, 2],
    );
    ConstraintOperator, "ConstraintOperator" => json!({
        "type": "string",
        "enum": crate::job::OPERATORS,
    });
    AnyParams, "AnyParams" => json!({ "type": "object", "additionalProperties": true });
    EngineSubmission, "EngineSubmission" [DockerParams, WasmParams, NoopParams] => json!({
        "description": "What runs the task. Only agents of tests and benchmarks offer `noop`.",
        "oneOf": [
            kind("docker", "DockerParams"),
            kind("wasm", "WasmParams"),
            kind("noop", "NoopParams"),
        ],
    });
    PublisherSubmission, "PublisherSubmission" [S3PublisherParams, AnyParams] => json!({
        "description": "Where the results go; nowhere when absent or empty.",
        "oneOf": [
            {
                "type": "object",
                "properties": {
                    "Type": { "type": ["string", "null"], "enum": ["", null] },
                    "Params": any_params(),
                },
            },
            kind_alone("noop"),
            kind_alone("local"),
            kind("s3", "S3PublisherParams"),
            kind_alone("ipfs"),
        ],
    });
    SourceSubmission, "SourceSubmission" [
        InlineParams, UrlParams, LocalDirectoryParams, S3SourceParams, RepositoryParams, IpfsParams,
        JobSourceParams
    ] => json!({
        "description": "Where an input comes from.",
        "oneOf": [
            kind("inline", "InlineParams"),
            kind("urldownload", "UrlParams"),
            kind("localdirectory", "LocalDirectoryParams"),
            kind("s3", "S3SourceParams"),
            kind("repoclone", "RepositoryParams"),
            kind("repoclonelfs", "RepositoryParams"),
            kind("ipfs", "IpfsParams"),
            kind("job", "JobSourceParams"),
        ],
    });
}
