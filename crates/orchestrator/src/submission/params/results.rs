//! Which part of published results an input has.

use api_types::source::ResultIndex;
use serde_json::Value;

use crate::submission::findings::Findings;

/// The longest path, in bytes and in names: no agent creates a longer one.
const MAX_PATH_BYTES: usize = 3_000;
const MAX_PATH_NAMES: usize = 128;

/// The path without what means nothing; none for all of the results.
pub(super) fn check_result_path(text: &str, place: &str, findings: &mut Findings) -> Option<Value> {
    let names: Vec<&str> = text.split('/').filter(|name| !matches!(*name, "" | ".")).collect();
    if text.starts_with('/') || names.contains(&"..") {
        let reason = format!("must be a path inside the results, without '..', got '{text}'");
        findings.refuse(place, reason);
        return None;
    }
    if text.len() > MAX_PATH_BYTES || names.len() > MAX_PATH_NAMES {
        let reason =
            format!("must not be longer than {MAX_PATH_BYTES} bytes or {MAX_PATH_NAMES} names");
        findings.refuse(place, reason);
        return None;
    }
    (!names.is_empty()).then(|| names.join("/").into())
}

pub(super) fn check_index(value: &Value, place: &str, findings: &mut Findings) -> Option<Value> {
    let Some(index) = ResultIndex::read(value) else {
        findings.refuse(place, format!("must be an index or 'Same', got {value}"));
        return None;
    };
    serde_json::to_value(index).ok()
}
