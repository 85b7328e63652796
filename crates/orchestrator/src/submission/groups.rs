//! Checks of the concurrency groups that a job names, as far as they need no record.

use api_types::group::MAX_GROUPS_OF_JOB;
use api_types::job::{JobType, OnConflict};

use super::findings::Findings;
use crate::names;

/// The groups, and what the job does to those before it.
pub(super) fn check(
    (names, on_conflict): (Vec<String>, Option<&str>),
    job_type: Option<JobType>,
    findings: &mut Findings,
) -> (Vec<String>, OnConflict) {
    let word = on_conflict.filter(|word| !word.is_empty());
    let on_conflict = word.and_then(|word| findings.take("OnConflict", word.parse()));
    let on_conflict = on_conflict.unwrap_or_default();
    if names.len() > MAX_GROUPS_OF_JOB {
        let reason = format!("must not be more than {MAX_GROUPS_OF_JOB}, got {}", names.len());
        findings.refuse("ConcurrencyGroups", reason);
    } else if let Some(job_type) = job_type.filter(|it| !it.is_finite() && !names.is_empty()) {
        let reason =
            format!("is for batch and ops jobs; the executions of a {job_type} job do not end");
        findings.refuse("ConcurrencyGroups", reason);
    }
    for (index, name) in names.iter().enumerate().take(MAX_GROUPS_OF_JOB) {
        let path = format!("ConcurrencyGroups[{index}]");
        if !names::is_name(name) {
            findings.refuse(path, format!("the name of a group {}", names::RULE));
        } else if names.iter().take(index).any(|before| before == name) {
            findings.refuse(path, format!("'{name}' is listed twice"));
        }
    }
    if on_conflict == OnConflict::Replace && names.len() != 1 {
        let reason = format!("Replace needs exactly one concurrency group, got {}", names.len());
        findings.refuse("OnConflict", reason);
    }
    (names, on_conflict)
}
