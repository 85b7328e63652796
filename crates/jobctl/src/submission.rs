//! Bodies of submissions: from files, from the arguments of `run`, from a record.

mod file;
mod publisher;
mod shorthand;
mod source;

use anyhow::{Context, Result};
use api_types::job::JobSpec;
use bytes::Bytes;
use serde_json::json;

pub(crate) use file::read;
pub(crate) use shorthand::shorthand;

/// Prefix of the `Meta` keys that the service sets, and about which it warns in submissions.
pub(crate) const SERVICE_META: &str = "service.org/";

/// The body that would submit the same job again.
pub(crate) fn resubmission(spec: &JobSpec) -> Result<Bytes> {
    let mut spec = spec.clone();
    spec.meta.retain(|key, _| !key.starts_with(SERVICE_META));
    Ok(serde_json::to_vec(&json!({ "Job": spec })).context("write JSON")?.into())
}
