//! Jobs on their way to the service: from files, from the arguments of `run`, from a record.

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

/// Keys of `Meta` that the service sets itself, and warns of when they come in.
pub(crate) const SERVICE_META: &str = "service.org/";

/// The body that would submit the same job once more.
pub(crate) fn again(spec: &JobSpec) -> Result<Bytes> {
    let mut spec = spec.clone();
    spec.meta.retain(|key, _| !key.starts_with(SERVICE_META));
    Ok(serde_json::to_vec(&json!({ "Job": spec })).context("write JSON")?.into())
}
