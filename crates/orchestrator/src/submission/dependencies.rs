//! What a job depends on, as far as its own fields say it.

use api_types::dependency::{Condition, Dependency, Indexes, MAX_DEPENDENCIES};
use api_types::job::JobType;
use api_types::submission::DependencySubmission;
use api_types::{GraphId, JobId};

use scheduler::slots::Slots;

use super::findings::Findings;

/// Bytes of each list of indexes that a refusal shows.
const SHOWN_BYTES: usize = 100;

/// The graph that a job belongs to.
pub(super) trait Members {
    fn id(&self) -> GraphId;

    /// The job of the graph with this name.
    fn find(&self, name: &str) -> Option<JobId>;
}

pub(super) fn check(
    submitted: Vec<DependencySubmission>,
    job_type: Option<JobType>,
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
        let DependencySubmission { job_id, job, condition, indexes } = submitted;
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
        let indexes = match indexes.filter(|word| !word.is_empty()) {
            Some(word) => findings.take(&format!("{path}.Indexes"), word.parse()),
            None => Some(Indexes::All),
        };
        let (Some(job_id), Some(condition), Some(indexes)) = (id, condition, indexes) else {
            continue;
        };
        if indexes == Indexes::Same {
            check_same(&path, condition, job_type, findings);
        }
        if dependencies.iter().any(|other| other.job_id == job_id) {
            findings.refuse(&path, "names a job that another dependency names");
            continue;
        }
        dependencies.push(Dependency { job_id, job, condition, indexes });
    }
    dependencies
}

fn check_same(
    path: &str,
    condition: Condition,
    job_type: Option<JobType>,
    findings: &mut Findings,
) {
    if condition != Condition::Completed {
        let reason = format!("must be All with the condition {condition}: Same needs Completed");
        findings.refuse(format!("{path}.Indexes"), reason);
    }
    if let Some(job_type) = job_type.filter(|job_type| *job_type != JobType::Batch) {
        let reason = format!("must be All for a {job_type} job: Same is for batch jobs");
        findings.refuse(format!("{path}.Indexes"), reason);
    }
}

/// Why the indexes of a job do not wait for the same ones of this other job.
pub(crate) fn refuse_same(
    indexes: &Slots,
    name: &str,
    job_type: JobType,
    others: &Slots,
) -> Option<String> {
    if job_type != JobType::Batch {
        return Some(format!(
            "must be All: Same is for batch jobs, and the type of '{name}' is {job_type}"
        ));
    }
    (indexes != others).then(|| {
        format!(
            "must be All: the job has the indexes {}, and '{name}' has {}",
            indexes.shortened(SHOWN_BYTES),
            others.shortened(SHOWN_BYTES)
        )
    })
}

fn member(graph: &dyn Members, name: &str, path: &str, findings: &mut Findings) -> Option<JobId> {
    let found = graph.find(name);
    if found.is_none() {
        findings.refuse(format!("{path}.Job"), format!("the graph has no job '{name}'"));
    }
    found
}
