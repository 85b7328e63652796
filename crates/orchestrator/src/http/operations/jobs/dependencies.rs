//! The jobs on which a submitted one depends, as the store knows them.

use api_types::JobId;
use api_types::dependency::Dependency;
use api_types::error::FieldError;
use api_types::job::JobSpec;
use control_plane::store::{Reads, StoreError, StoredSummary};
use scheduler::slots::Slots;

use crate::http::api::Api;
use crate::http::error::{BadRequest, Failure};
use crate::submission::{Accepted, dependencies, job_inputs};

/// Checks that the jobs are there, in the namespace of the job and of a type that ends by itself,
/// and adds their names. The turn checks again that they are there. The job has these indexes.
pub(in crate::http::operations) async fn resolve(
    api: &Api,
    mut accepted: Accepted,
    slots: Slots,
) -> Result<Accepted, Failure> {
    if accepted.spec.depends_on.is_empty() {
        return Ok(accepted);
    }
    let spec = std::sync::Arc::clone(&accepted.spec);
    let read = move |reads: &dyn Reads| Ok(name(reads, (&spec, &slots), |_| false)?);
    let named = api.read(read).await?;
    accepted.set_dependencies(named.map_err(BadRequest::Job)?);
    Ok(accepted)
}

/// The slots of such a rerun belong to their nodes from the beginning, so it cannot wait.
pub(in crate::http::operations) async fn check_ended(
    api: &Api,
    accepted: &Accepted,
) -> Result<(), Failure> {
    let spec = std::sync::Arc::clone(&accepted.spec);
    let read = move |reads: &dyn Reads| {
        let mut problems = Vec::new();
        for (index, dependency) in spec.depends_on.iter().enumerate() {
            let found = reads.summary(dependency.job_id)?;
            if found.is_some_and(|found| !found.state.is_terminal()) {
                let reason = format!(
                    "job '{}' has not ended, and the rerun of an ops job does not wait",
                    dependency.job
                );
                problems.push(FieldError { path: format!("DependsOn[{index}].JobID"), reason });
            }
        }
        Ok(problems)
    };
    match api.read(read).await? {
        problems if problems.is_empty() => Ok(()),
        problems => Err(BadRequest::Job(problems).into()),
    }
}

/// The same for one job of several; those that `is_new` knows are submitted together with it.
pub(in crate::http::operations) fn name(
    reads: &dyn Reads,
    (spec, slots): (&JobSpec, &Slots),
    is_new: impl Fn(&Dependency) -> bool,
) -> Result<Result<Vec<Dependency>, Vec<FieldError>>, StoreError> {
    let JobSpec { namespace, depends_on, .. } = spec;
    let (mut named, mut problems) = (Vec::with_capacity(depends_on.len()), Vec::new());
    for (index, dependency) in depends_on.iter().enumerate() {
        if is_new(dependency) {
            named.push(dependency.clone());
            continue;
        }
        let id = dependency.job_id;
        // A job of another namespace is none for the caller.
        let found = reads.summary(id)?.filter(|found| found.namespace == *namespace);
        let reason = match found {
            Some(found) if found.job_type.is_finite() => {
                if !dependency.indexes.is_all()
                    && let Some(reason) = refuse_same(reads, slots, &found)?
                {
                    problems.push(problem(index, "Indexes", reason));
                    continue;
                }
                if job_inputs::reads(spec, id) {
                    problems.extend(check_results(reads, (spec, slots), id)?);
                }
                named.push(Dependency { job: found.name, ..dependency.clone() });
                continue;
            }
            Some(found) => format!(
                "job '{}' is a {} job, which does not end by itself: a job can depend on batch and \
                 ops jobs",
                found.name, found.job_type
            ),
            None => format!("namespace '{namespace}' has no job {id}"),
        };
        problems.push(problem(index, "JobID", reason));
    }
    Ok(if problems.is_empty() { Ok(named) } else { Err(problems) })
}

/// Why the indexes of the job cannot wait for the same ones of another.
fn refuse_same(
    reads: &dyn Reads,
    own: &Slots,
    other: &StoredSummary,
) -> Result<Option<String>, StoreError> {
    // Retention may have removed it in between; the turn finds that out.
    let Some(outcomes) = reads.outcomes(other.id)? else { return Ok(None) };
    Ok(dependencies::refuse_same(own, &other.name, other.job_type, &outcomes.slots))
}

fn problem(index: usize, field: &str, reason: String) -> FieldError {
    FieldError { path: format!("DependsOn[{index}].{field}"), reason }
}

/// What keeps the job from reading the results of another one that is stored. One that cannot be read
/// is not judged: it has its results, or the executions say that it has none.
fn check_results(
    reads: &dyn Reads,
    own: (&JobSpec, &Slots),
    id: JobId,
) -> Result<Vec<FieldError>, StoreError> {
    let (job, outcomes) = (reads.job(id)?, reads.outcomes(id)?);
    let other = job.and_then(|job| serde_json::from_str::<JobSpec>(&job.spec_json).ok());
    Ok(match (other, outcomes) {
        (Some(other), Some(outcomes)) => {
            job_inputs::check_published(own, id, (&other, &outcomes.slots))
        }
        _ => Vec::new(),
    })
}
