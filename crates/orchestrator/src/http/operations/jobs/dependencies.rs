//! The jobs on which a submitted one depends, as the store knows them.

use api_types::dependency::Dependency;
use api_types::error::FieldError;
use control_plane::store::{Reads, StoreError};

use crate::http::api::Api;
use crate::http::error::{BadRequest, Failure};
use crate::submission::Accepted;

/// Checks that the jobs are there, in the namespace of the job and of a type that ends by itself,
/// and adds their names. The turn checks again that they are there.
pub(in crate::http::operations) async fn resolve(
    api: &Api,
    mut accepted: Accepted,
) -> Result<Accepted, Failure> {
    if accepted.spec.depends_on.is_empty() {
        return Ok(accepted);
    }
    let spec = std::sync::Arc::clone(&accepted.spec);
    let read =
        move |reads: &dyn Reads| Ok(name(reads, &spec.namespace, &spec.depends_on, |_| false)?);
    let named = api.read(read).await?;
    accepted.set_dependencies(named.map_err(BadRequest::Job)?);
    Ok(accepted)
}

/// The same for one job of several; those that `is_new` knows are submitted together with it.
pub(in crate::http::operations) fn name(
    reads: &dyn Reads,
    namespace: &str,
    dependencies: &[Dependency],
    is_new: impl Fn(&Dependency) -> bool,
) -> Result<Result<Vec<Dependency>, Vec<FieldError>>, StoreError> {
    let (mut named, mut problems) = (Vec::with_capacity(dependencies.len()), Vec::new());
    for (index, dependency) in dependencies.iter().enumerate() {
        if is_new(dependency) {
            named.push(dependency.clone());
            continue;
        }
        let id = dependency.job_id;
        // A job of another namespace is none for the caller.
        let found = reads.summary(id)?.filter(|found| found.namespace == namespace);
        let reason = match found {
            Some(found) if found.job_type.is_finite() => {
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
        problems.push(FieldError { path: format!("DependsOn[{index}].JobID"), reason });
    }
    Ok(if problems.is_empty() { Ok(named) } else { Err(problems) })
}
