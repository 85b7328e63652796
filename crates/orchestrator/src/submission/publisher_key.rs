//! The keys under which executions publish: each execution needs a separate one, or all but the
//! last one would be lost.

use api_types::engine::{PublisherSpec, PublisherType, S3_PLACEHOLDERS};
use api_types::job::JobType;
use serde_json::Value;

use super::findings::Findings;
use super::task::of_task;

/// Checks the key of a job with this many executions.
pub(super) fn check(
    publisher: &PublisherSpec,
    job_type: JobType,
    count: u32,
    findings: &mut Findings,
) {
    match publisher.publisher_type {
        PublisherType::S3 => {}
        PublisherType::None | PublisherType::Noop | PublisherType::Local | PublisherType::Ipfs => {
            return;
        }
    }
    let Some(key) = publisher.params.get("Key").and_then(Value::as_str) else { return };
    let place = of_task!("Publisher.Params.Key");
    if let Some(reason) = names_no_object(key) {
        findings.refuse(place, format!("does not name an object: {reason}"));
    }
    let known = S3_PLACEHOLDERS.join(", ");
    for unknown in placeholders(key).filter(|found| !S3_PLACEHOLDERS.contains(found)) {
        findings.refuse(place, format!("'{unknown}' is no placeholder; known: {known}"));
    }
    let own = match job_type {
        JobType::Batch | JobType::Service if count <= 1 => return,
        JobType::Batch | JobType::Service => &["{executionID}", "{index}"][..],
        // One on each node.
        JobType::Ops | JobType::Daemon => &["{executionID}", "{index}", "{nodeID}"],
    };
    if !own.iter().any(|placeholder| key.contains(placeholder)) {
        let own = own.join(" or ");
        let reason = format!(
            "would be the same for several executions, whose results would replace each other: it \
             needs {own}"
        );
        findings.refuse(place, reason);
    }
}

/// Why no object can have such a key. Placeholders are never empty and have no slashes.
fn names_no_object(key: &str) -> Option<&'static str> {
    if key.is_empty() {
        // It is required.
        return None;
    }
    if key.ends_with('/') {
        return Some("it ends with '/'; add the name of the archive");
    }
    // A slash at the beginning is ignored.
    let mut parts = key.strip_prefix('/').unwrap_or(key).split('/');
    match parts.find(|part| matches!(*part, "" | "." | "..")) {
        Some("") => Some("it has an empty part between slashes"),
        Some(_) => Some("it has '.' or '..' as a part"),
        None => None,
    }
}

/// Everything in braces that could be meant as a placeholder.
fn placeholders(key: &str) -> impl Iterator<Item = &str> {
    let opened = key.match_indices('{').filter_map(|(at, _)| {
        let length = key[at + 1..].find(['{', '}', '/'])?;
        key.get(at..at + length + 2)
    });
    opened.filter(|text| text.ends_with('}') && text.len() > "{}".len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_names_an_object() {
        for key in ["a", "a/b.tar.gz", "/a", "{jobID}/x", "...", "a b", ""] {
            assert_eq!(names_no_object(key), None, "{key}");
        }
        for key in ["a/", "/", "a//b", "//a", ".", "a/../b"] {
            assert!(names_no_object(key).is_some(), "{key}");
        }
    }

    #[test]
    fn placeholders_are_what_is_in_braces() {
        let found: Vec<_> = placeholders("a/{jobID}/{x y}{}{b/c}{{index}}{").collect();
        assert_eq!(found, ["{jobID}", "{x y}", "{index}"]);
        assert_eq!(placeholders("{ü}").collect::<Vec<_>>(), ["{ü}"]);
    }
}
