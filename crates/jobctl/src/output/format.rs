//! Records for programs: JSON and YAML with the names of the API.

use anyhow::{Context, Result};
use serde::Serialize;

pub(super) fn json<T: Serialize>(value: &T) -> Result<String> {
    let mut text = serde_json::to_string_pretty(value).context("write JSON")?;
    text.push('\n');
    Ok(text)
}

/// One record on one line, for a stream of records.
pub(super) fn json_line<T: Serialize>(value: &T) -> Result<String> {
    let mut text = serde_json::to_string(value).context("write JSON")?;
    text.push('\n');
    Ok(text)
}

pub(super) fn yaml<T: Serialize>(value: &T) -> Result<String> {
    yaml_serde::to_string(value).context("write YAML")
}
