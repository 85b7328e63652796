//! The contract of a publisher: from the collected results of a run to their published location.

use api_types::credential::CredentialValue;
use api_types::engine::{Params, PublisherType};
use api_types::execution::PublishedResult;
use api_types::protocol::{MAX_RESULT_BYTES, Work};
use api_types::{ExecutionId, NodeId};
use futures_util::future::BoxFuture;
use serde::Serialize;

use super::archive::Archive;
use crate::data::credentials::Grantor;
use crate::data::retry::AttemptError;
use crate::host::data_dir::ExecutionDir;

pub(crate) trait Publisher: Send + Sync {
    /// Why this node cannot publish this task's results, judging by its specification alone.
    fn admit(&self, work: &Work) -> Result<(), String>;

    /// Makes one attempt to publish the archive. It is repeatable, after a crash too.
    fn publish<'a>(
        &'a self,
        run: &'a Publication<'a>,
        archive: &'a Archive,
    ) -> BoxFuture<'a, Result<PublishedResult, AttemptError>>;
}

/// A run with collected results.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Publication<'a> {
    pub(crate) id: ExecutionId,
    pub(crate) node_id: NodeId,
    pub(crate) work: &'a Work,
    pub(crate) exit_code: i32,
    /// The location of the results.
    pub(crate) dir: &'a ExecutionDir,
    pub(crate) grantor: &'a Grantor,
}

// === impl Publication ===

impl Publication<'_> {
    /// The credentials that the publisher's `Params` name.
    pub(super) async fn credential(&self) -> Result<Option<CredentialValue>, AttemptError> {
        self.grantor.of_publisher(self.id, &self.work.task).await
    }
}

/// Builds a result with the `Params` of its type.
pub(super) fn published<T: Serialize>(
    publisher_type: PublisherType,
    params: &T,
) -> Result<PublishedResult, AttemptError> {
    match serde_json::to_value(params) {
        // A server that says more is not honest, and no report could hold it.
        Ok(serde_json::Value::Object(params)) if bytes_of(&params) > MAX_RESULT_BYTES => {
            Err(AttemptError::permanent(format!(
                "its location is longer than {MAX_RESULT_BYTES} bytes"
            )))
        }
        Ok(serde_json::Value::Object(params)) => Ok(PublishedResult { publisher_type, params }),
        _ => Err(AttemptError::permanent("its location has no fields, so it cannot be written")),
    }
}

fn bytes_of(params: &Params) -> usize {
    serde_json::to_vec(params).map_or(usize::MAX, |json| json.len())
}
