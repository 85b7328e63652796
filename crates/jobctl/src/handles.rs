//! Names in place of IDs: which job, execution or node a user means.
//!
//! The API knows IDs alone. A name of a job means the one live job that has it, else the newest one,
//! in the namespace of the command. What has the form of an ID is an ID first.

use anyhow::Result;
use api_client::{ClientError, ExecutionsQuery, JobsQuery};
use api_types::execution::Execution;
use api_types::id::IdPrefix;
use api_types::job::{DEFAULT_NAMESPACE, JobStateType};
use api_types::summary::JobSummary;
use api_types::words::job_word;
use api_types::{Code, ExecutionId, JobId, NodeId};

use crate::clock;
use crate::exit::Unresolved;
use crate::output::age;
use crate::pages::collect;
use crate::session::Session;

/// Stands for all namespaces in a query.
pub(crate) const ALL_NAMESPACES: &str = "*";

/// Jobs of one name that an error lists.
const LISTED: usize = 10;

/// Ended jobs of one name that are searched for other namespaces.
const SEARCHED: u32 = 500;

/// Requests at most this many jobs of a name: one more than an error lists.
const LIVE: u32 = 11;

/// A job, or one of its executions.
#[derive(Debug)]
pub(crate) enum Handle {
    Job(JobId),
    Execution(Box<Execution>),
}

// === impl Handle ===

impl Handle {
    pub(crate) fn job(&self) -> JobId {
        match self {
            Self::Job(id) => *id,
            Self::Execution(execution) => execution.job_id,
        }
    }

    pub(crate) fn execution(&self) -> Option<ExecutionId> {
        match self {
            Self::Job(_) => None,
            Self::Execution(execution) => Some(execution.id),
        }
    }
}

/// What `text` means: `job`, `job[3]`, `namespace/job`, an ID or the beginning of one. With an
/// index, the execution of that job with this index.
pub(crate) async fn resolve(
    session: &Session,
    namespace: Option<&str>,
    text: &str,
    index: Option<u64>,
) -> Result<Handle> {
    if IdPrefix::parse(text, ExecutionId::LETTER).is_some() && index.is_none() {
        match session.client.describe_execution(text).await {
            Ok(execution) => return Ok(Handle::Execution(Box::new(execution))),
            Err(error) if error.code() != Some(Code::ExecutionNotFound) => return Err(error.into()),
            // A job may have such a name.
            Err(error) => {
                let named = named(session, namespace, text).await?;
                return named.map(Handle::Job).ok_or_else(|| error.into());
            }
        }
    }
    let id = match (index, split_index(text)) {
        (None, Some((name, within))) => match find(session, namespace, text).await {
            // A name may end with brackets.
            Ok(id) => return Ok(Handle::Job(id)),
            Err(error) if is_unknown(&error) => {
                let id = find(session, namespace, name).await?;
                return slot(session, id, name, within).await;
            }
            Err(error) => return Err(error),
        },
        _ => find(session, namespace, text).await?,
    };
    match index {
        Some(index) => slot(session, id, text, index).await,
        None => Ok(Handle::Job(id)),
    }
}

/// The job that is meant; an execution is refused.
pub(crate) async fn job(session: &Session, namespace: Option<&str>, text: &str) -> Result<JobId> {
    match resolve(session, namespace, text, None).await? {
        Handle::Job(id) => Ok(id),
        Handle::Execution(execution) => Err(Unresolved {
            message: format!("'{text}' is an execution, and this command is for whole jobs"),
            is_unknown: false,
            details: vec![format!("its job: {}", execution.job_id)],
            hint: "",
        }
        .into()),
    }
}

/// The node with this ID or name.
pub(crate) async fn node(session: &Session, text: &str) -> Result<NodeId> {
    let unknown = if IdPrefix::parse(text, NodeId::LETTER).is_some() {
        match session.client.describe_node(text).await {
            Ok(node) => return Ok(node.peer_info.id),
            Err(error) if error.code() == Some(Code::NodeNotFound) => Some(error),
            Err(error) => return Err(error.into()),
        }
    } else {
        None
    };
    let nodes = session.nodes().await?;
    match (nodes.iter().find(|node| node.name == text), unknown) {
        (Some(node), _) => Ok(node.peer_info.id),
        (None, Some(error)) => Err(error.into()),
        (None, None) => Err(Unresolved {
            message: format!("no node has the name '{text}'"),
            is_unknown: true,
            details: Vec::new(),
            hint: "'jobctl node list' shows all nodes",
        }
        .into()),
    }
}

/// Whether an error says that nothing has this ID or name.
pub(crate) fn is_unknown(error: &anyhow::Error) -> bool {
    let code = error.downcast_ref::<ClientError>().and_then(ClientError::code);
    matches!(code, Some(Code::JobNotFound | Code::NodeNotFound | Code::ExecutionNotFound))
        || error.downcast_ref::<Unresolved>().is_some_and(|found| found.is_unknown)
}

/// Splits `job[3]`.
fn split_index(text: &str) -> Option<(&str, u64)> {
    let (name, index) = text.strip_suffix(']')?.rsplit_once('[')?;
    Some((name, index.parse().ok()?)).filter(|(name, _)| !name.is_empty())
}

/// The index of an execution, which its name ends with.
pub(crate) fn index_of(execution: &Execution) -> Option<u64> {
    split_index(&execution.name).map(|(_, index)| index)
}

/// The job with this ID or else this name.
async fn find(session: &Session, namespace: Option<&str>, text: &str) -> Result<JobId> {
    let unknown = if IdPrefix::parse(text, JobId::LETTER).is_some() {
        match session.client.describe_job(text).await {
            Ok(job) => return Ok(job.id),
            Err(error) if error.code() == Some(Code::JobNotFound) => Some(error),
            Err(error) => return Err(error.into()),
        }
    } else {
        None
    };
    if let Some(id) = named(session, namespace, text).await? {
        return Ok(id);
    }
    if let Some((within, name)) = text.split_once('/')
        && let Some(id) = named(session, Some(within), name).await?
    {
        return Ok(id);
    }
    if let Some(error) = unknown {
        return Err(error.into());
    }
    let place = match namespace {
        Some(ALL_NAMESPACES) => String::new(),
        namespace => format!(" in the namespace {}", namespace.unwrap_or(DEFAULT_NAMESPACE)),
    };
    Err(Unresolved {
        message: format!("no job has the name '{text}'{place}"),
        is_unknown: true,
        details: Vec::new(),
        hint: "'jobctl list -A' shows all jobs; --namespace selects another namespace",
    }
    .into())
}

/// The one live job with this name, else the newest; `None` if there is none.
async fn named(session: &Session, namespace: Option<&str>, name: &str) -> Result<Option<JobId>> {
    let client = &session.client;
    let query = JobsQuery {
        namespace: namespace.map(str::to_owned),
        name: Some(name.to_owned()),
        reverse: true,
        ..JobsQuery::default()
    };
    let states = [JobStateType::Pending, JobStateType::Queued, JobStateType::Running];
    let live = JobsQuery {
        state: Some(states.map(JobStateType::as_str).join(",")),
        limit: Some(LIVE),
        ..query.clone()
    };
    let live = client.summarise_jobs(&live).await?.jobs;
    let everywhere = namespace == Some(ALL_NAMESPACES);
    if live.len() > 1 {
        return Err(ambiguous(name, &live, everywhere).into());
    }
    if let ([only], false) = (live.as_slice(), everywhere) {
        return Ok(Some(only.id));
    }
    let limit = if everywhere { SEARCHED } else { 1 };
    let newest = client.summarise_jobs(&JobsQuery { limit: Some(limit), ..query }).await?.jobs;
    if everywhere && newest.iter().any(|job| job.namespace != newest[0].namespace) {
        // The newest of each namespace.
        let mut one_each: Vec<JobSummary> = Vec::new();
        for job in live.into_iter().chain(newest) {
            if one_each.iter().all(|found| found.namespace != job.namespace) {
                one_each.push(job);
            }
        }
        return Err(ambiguous(name, &one_each, everywhere).into());
    }
    Ok(live.first().or(newest.first()).map(|job| job.id))
}

fn ambiguous(name: &str, jobs: &[JobSummary], everywhere: bool) -> Unresolved {
    let now = clock::now();
    let line = |job: &JobSummary| {
        let (id, state) = (job.id.short(), job_word(job.state.state_type));
        let age = age(now, job.create_time);
        format!("{id}  {}/{}  {state}, created {age} ago", job.namespace, job.name)
    };
    let mut details: Vec<_> = jobs.iter().take(LISTED).map(line).collect();
    if jobs.len() > LISTED {
        details.push("and more".to_owned());
    }
    let places: std::collections::BTreeSet<_> = jobs.iter().map(|job| &job.namespace).collect();
    match everywhere && places.len() > 1 {
        true => Unresolved {
            message: format!("several namespaces have a job with the name '{name}'"),
            is_unknown: false,
            details,
            hint: "give NAMESPACE/NAME, or the ID",
        },
        false => Unresolved {
            message: format!("several live jobs have the name '{name}'"),
            is_unknown: false,
            details,
            hint: "give the ID of one",
        },
    }
}

/// The execution with this index, the last one if it was retried.
async fn slot(session: &Session, id: JobId, name: &str, index: u64) -> Result<Handle> {
    let mut last: Option<Execution> = None;
    collect(None, async |rows, token| {
        let query = ExecutionsQuery {
            limit: Some(rows),
            next_token: token,
            order_by: Some("create_time".to_owned()),
            ..ExecutionsQuery::default()
        };
        let page = session.client.job_executions(id, &query).await?;
        let mut found = page.executions.into_iter().filter(|found| index_of(found) == Some(index));
        if let Some(later) = found.next_back() {
            last = Some(later);
        }
        Ok((Vec::<()>::new(), page.next_token))
    })
    .await?;
    last.map(|found| Handle::Execution(Box::new(found))).ok_or_else(|| {
        Unresolved {
            message: format!("job '{name}' has no execution with the index {index} yet"),
            is_unknown: true,
            details: vec![format!("its ID: {id}")],
            hint: "'jobctl executions JOB' shows those that it has",
        }
        .into()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_is_a_number_in_brackets_at_the_end() {
        assert_eq!(split_index("train[3]"), Some(("train", 3)));
        assert_eq!(split_index("j-12ab34cd[0]"), Some(("j-12ab34cd", 0)));
        assert_eq!(split_index("a[1][2]"), Some(("a[1]", 2)));
        for text in ["train", "train[]", "train[x]", "[3]", "train[3", "train[-1]"] {
            assert_eq!(split_index(text), None, "{text}");
        }
    }
}
