//! The jobs after which another one starts: from `--after`, and those whose results it reads.

use anyhow::Result;
use api_types::dependency::{Condition, Indexes};
use api_types::source::SourceType;
use api_types::submission::{DependencySubmission, JobSubmission, TaskSubmission};
use serde_json::{Map, Value};

use crate::handles;
use crate::session::Session;

/// What follows the name of a job: a condition, or that each index waits for the same one there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Suffix {
    Of(Condition),
    Same,
}

/// What `JOB[:CONDITION]` means for each of the arguments, and the jobs that the inputs name, whose
/// IDs they get; none without any.
pub(crate) async fn after(
    session: &Session,
    namespace: Option<&str>,
    arguments: &[String],
    job: &mut JobSubmission,
) -> Result<Option<Vec<DependencySubmission>>> {
    let mut dependencies = Vec::with_capacity(arguments.len());
    for argument in arguments {
        let (job, suffix) = split(argument);
        let (condition, indexes) = match suffix {
            None => (None, None),
            Some(Suffix::Of(condition)) => (Some(condition), None),
            Some(Suffix::Same) => (None, Some(Indexes::Same)),
        };
        let id = handles::job(session, namespace, job).await?;
        dependencies.push(DependencySubmission {
            job_id: Some(id.to_string()),
            job: None,
            condition: condition.map(|condition| condition.as_str().to_owned()),
            indexes: indexes.map(|indexes| indexes.as_str().to_owned()),
        });
    }
    for params in job.tasks.iter_mut().flatten().flat_map(results) {
        let Some(Value::String(name)) = params.remove("Job") else { continue };
        let id = handles::job(session, namespace, &name).await?.to_string();
        if !dependencies.iter().any(|other| other.job_id.as_ref() == Some(&id)) {
            let job_id = Some(id.clone());
            dependencies.push(DependencySubmission { job_id, ..DependencySubmission::default() });
        }
        params.insert("JobID".to_owned(), id.into());
    }
    Ok((!dependencies.is_empty()).then_some(dependencies))
}

/// The `Params` of inputs that are results of jobs.
fn results(task: &mut TaskSubmission) -> impl Iterator<Item = &mut Map<String, Value>> {
    let sources = task.input_sources.iter_mut().flatten().filter_map(|it| it.source.as_mut());
    let of_jobs = sources.filter(|it| it.kind.as_deref() == Some(SourceType::Job.as_str()));
    of_jobs.filter_map(|source| source.params.as_mut())
}

/// The name of a job may have a colon too: what follows the last one counts if it is a suffix.
fn split(argument: &str) -> (&str, Option<Suffix>) {
    let split = argument.rsplit_once(':');
    let found = split.and_then(|(job, word)| Some((job, Suffix::of(word)?)));
    found.map_or((argument, None), |(job, suffix)| (job, Some(suffix)))
}

impl Suffix {
    fn of(word: &str) -> Option<Self> {
        match word.parse() {
            Ok(Indexes::Same) => Some(Self::Same),
            Ok(Indexes::All) | Err(_) => word.parse().ok().map(Self::Of),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_follows_the_last_colon() {
        assert_eq!(split("build"), ("build", None));
        assert_eq!(split("build:failed"), ("build", Some(Suffix::Of(Condition::Failed))));
        assert_eq!(split("a:b:Ended"), ("a:b", Some(Suffix::Of(Condition::Ended))));
        assert_eq!(split("shards:same"), ("shards", Some(Suffix::Same)));
        assert_eq!(split("registry:5000"), ("registry:5000", None));
    }
}
