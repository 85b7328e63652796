//! What the namespace of a checked job allows, and what it adds.
//!
//! Whatever makes a specification asks [`admit`] before anything is stored. It knows no caller,
//! because a job may have none; whether a caller may submit to the namespace is checked where the
//! caller is known.

use api_types::error::FieldError;
use api_types::job::{Constraint, JobSpec};

use crate::json::MAX_PROBLEMS;
use crate::view::View;
use crate::{credentials, groups, namespaces, quotas, secrets};

/// What becomes of a job that its namespace allows.
#[derive(Debug)]
pub(crate) struct Admission {
    /// Its nodes meet these too.
    pub(crate) constraints: Vec<Constraint>,
    /// What it asks for, or else the usual one if its namespace allows that.
    pub(crate) priority: u32,
    pub(crate) warnings: Vec<String>,
}

/// Lets a job into its namespace, or says everything that keeps it out. Only a priority that was
/// given can be too high.
pub(crate) fn admit(
    view: &View,
    spec: &JobSpec,
    priority_given: bool,
) -> Result<Admission, Vec<FieldError>> {
    let records = view.records();
    let namespace = namespaces::settings(records, &spec.namespace);
    let mut problems = namespace.unpermitted(spec);
    let most = namespace.max_priority();
    if priority_given && spec.priority > most {
        let reason = format!(
            "must be at most {most} in namespace '{}', got {}",
            spec.namespace, spec.priority
        );
        problems.push(FieldError { path: "Priority".to_owned(), reason });
    }
    let credentials = credentials::check(records, spec);
    problems.extend(credentials.refused);
    problems.extend(groups::check(records, spec));
    problems.extend(quotas::check(&namespace, spec));
    problems.truncate(MAX_PROBLEMS);
    if !problems.is_empty() {
        return Err(problems);
    }
    let secrets = secrets::missing(records, spec).into_iter().map(|name| {
        format!(
            "secret '{name}' does not exist in namespace '{}'; the job waits until it does",
            spec.namespace
        )
    });
    let credentials = credentials.missing.into_iter().map(|name| {
        format!(
            "credentials '{name}' do not exist in namespace '{}'; the job waits until they do",
            spec.namespace
        )
    });
    Ok(Admission {
        constraints: namespace.constraints(),
        priority: spec.priority.min(most),
        warnings: secrets.chain(credentials).collect(),
    })
}
