//! Resolves an identifier in a path to the one record it names.

use api_types::id::IdPrefix;
use api_types::{ExecutionId, JobId, NodeId};
use control_plane::store::{Reads, StoredExecution, StoredJob};

use super::Api;
use super::error::{Failure, Kind, NotFoundCause};

/// Candidates listed for an ambiguous prefix.
const MAX_CANDIDATES: u32 = 5;

/// The job that a full ID or a unique prefix names.
pub(super) fn job(reads: &dyn Reads, text: &str) -> Result<StoredJob, Failure> {
    let id = job_id(reads, text)?;
    reads.job(id)?.ok_or_else(|| absent(Kind::Job, text))
}

/// The ID itself, or the only one with this prefix; of a full ID, a job need not exist.
pub(super) fn job_id(reads: &dyn Reads, text: &str) -> Result<JobId, Failure> {
    let prefix = prefix(text, JobId::LETTER, Kind::Job)?;
    let id = if prefix.low == prefix.high {
        JobId::from_uuid(prefix.low)
    } else {
        only(Kind::Job, text, reads.find_jobs(prefix, MAX_CANDIDATES + 1)?)?
    };
    note("job", id);
    Ok(id)
}

/// The execution that a full ID or a unique prefix names.
pub(super) fn execution(reads: &dyn Reads, text: &str) -> Result<StoredExecution, Failure> {
    let prefix = prefix(text, ExecutionId::LETTER, Kind::Execution)?;
    let id = if prefix.low == prefix.high {
        ExecutionId::from_uuid(prefix.low)
    } else {
        only(Kind::Execution, text, reads.find_executions(prefix, MAX_CANDIDATES + 1)?)?
    };
    note("execution", id);
    reads.execution(id)?.ok_or_else(|| absent(Kind::Execution, text))
}

/// The node that a full ID or a unique prefix names, the orchestrator itself included.
pub(super) fn node(api: &Api, text: &str) -> Result<NodeId, Failure> {
    let prefix = prefix(text, NodeId::LETTER, Kind::Node)?;
    let found = api
        .view
        .nodes()
        .iter()
        .map(|node| node.peer_info.id)
        .chain([api.own.id])
        .filter(|id| prefix.contains(id.uuid()))
        .collect();
    only(Kind::Node, text, found).inspect(|id| note("node", *id))
}

/// Adds the record to every later log line of this request.
pub(super) fn note(field: &'static str, id: impl std::fmt::Display) {
    tracing::Span::current().record(field, tracing::field::display(id));
}

/// A full node ID: an agent knows its own.
pub(super) fn full_node(text: &str) -> Result<NodeId, Failure> {
    let node = text.parse().map_err(|_| Failure::NotFound {
        kind: Kind::Node,
        text: text.to_owned(),
        cause: NotFoundCause::Malformed,
    })?;
    note("node", node);
    Ok(node)
}

pub(super) fn absent(kind: Kind, text: &str) -> Failure {
    Failure::NotFound { kind, text: text.to_owned(), cause: NotFoundCause::Absent }
}

fn prefix(text: &str, letter: char, kind: Kind) -> Result<IdPrefix, Failure> {
    IdPrefix::parse(text, letter).ok_or_else(|| Failure::NotFound {
        kind,
        text: text.to_owned(),
        cause: NotFoundCause::Malformed,
    })
}

fn only<T: Copy + ToString>(kind: Kind, text: &str, found: Vec<T>) -> Result<T, Failure> {
    match found.as_slice() {
        [] => Err(absent(kind, text)),
        [one] => Ok(*one),
        several => Err(Failure::Ambiguous {
            kind,
            text: text.to_owned(),
            candidates: several
                .iter()
                .take(MAX_CANDIDATES as usize)
                .map(ToString::to_string)
                .collect(),
        }),
    }
}
