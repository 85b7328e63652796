//! The jobs after which another one starts, from `--after`.

use anyhow::Result;
use api_types::dependency::Condition;
use api_types::submission::DependencySubmission;

use crate::handles;
use crate::session::Session;

/// What `JOB[:CONDITION]` means for each of the arguments; none without arguments.
pub(crate) async fn after(
    session: &Session,
    namespace: Option<&str>,
    arguments: &[String],
) -> Result<Option<Vec<DependencySubmission>>> {
    let mut dependencies = Vec::with_capacity(arguments.len());
    for argument in arguments {
        let (job, condition) = split(argument);
        let id = handles::job(session, namespace, job).await?;
        dependencies.push(DependencySubmission {
            job_id: Some(id.to_string()),
            job: None,
            condition: condition.map(|condition| condition.as_str().to_owned()),
        });
    }
    Ok((!dependencies.is_empty()).then_some(dependencies))
}

/// The name of a job may have a colon too: what follows the last one counts if it is a condition.
fn split(argument: &str) -> (&str, Option<Condition>) {
    let split = argument.rsplit_once(':');
    let found = split.and_then(|(job, word)| Some((job, word.parse().ok()?)));
    found.map_or((argument, None), |(job, condition)| (job, Some(condition)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_follows_the_last_colon() {
        assert_eq!(split("build"), ("build", None));
        assert_eq!(split("build:failed"), ("build", Some(Condition::Failed)));
        assert_eq!(split("a:b:Ended"), ("a:b", Some(Condition::Ended)));
        assert_eq!(split("registry:5000"), ("registry:5000", None));
    }
}
