//! What a job depends on, as far as its own fields say it.

use api_types::dependency::{Condition, Dependency, MAX_DEPENDENCIES};
use api_types::submission::DependencySubmission;
use api_types::{GraphId, JobId};

use super::findings::Findings;

/// The graph that a job belongs to.
pub(super) trait Members {
    fn id(&self) -> GraphId;

    /// The job of the graph with this name.
    fn find(&self, name: &str) -> Option<JobId>;
}

pub(super) fn check(
    submitted: Vec<DependencySubmission>,
    graph: Option<&dyn Members>,
    findings: &mut Findings,
) -> Vec<Dependency> {
    if submitted.len() > MAX_DEPENDENCIES {
        let reason = format!("must not be more than {MAX_DEPENDENCIES}");
        findings.refuse("DependsOn", reason);
        return Vec::new();
    }
    let mut dependencies: Vec<Dependency> = Vec::with_capacity(submitted.len());
    for (index, submitted) in submitted.into_iter().enumerate() {
        let path = format!("DependsOn[{index}]");
        let DependencySubmission { job_id, job, condition } = submitted;
        let job = job.unwrap_or_default();
        let id = match (job_id.filter(|id| !id.is_empty()), graph) {
            (Some(id), _) => findings.take(&format!("{path}.JobID"), id.parse()),
            (None, Some(graph)) if !job.is_empty() => member(graph, &job, &path, findings),
            (None, Some(_)) => {
                findings.refuse(&path, "needs Job, a job of the graph, or JobID, another one");
                None
            }
            (None, None) => {
                findings.refuse(format!("{path}.JobID"), "is required: the ID of another job");
                None
            }
        };
        let condition = match condition.filter(|word| !word.is_empty()) {
            Some(word) => findings.take(&format!("{path}.Condition"), word.parse()),
            None => Some(Condition::Completed),
        };
        let (Some(job_id), Some(condition)) = (id, condition) else { continue };
        if dependencies.iter().any(|other| other.job_id == job_id) {
            findings.refuse(&path, "names a job that another dependency names");
            continue;
        }
        dependencies.push(Dependency { job_id, job, condition });
    }
    dependencies
}

fn member(graph: &dyn Members, name: &str, path: &str, findings: &mut Findings) -> Option<JobId> {
    let found = graph.find(name);
    if found.is_none() {
        findings.refuse(format!("{path}.Job"), format!("the graph has no job '{name}'"));
    }
    found
}
