//! Resolves an identifier in a path to the one record it names.

use api_types::id::IdPrefix;
use api_types::{ExecutionId, JobId, NodeId};
use control_plane::store::{Reads, StoredExecution, StoredJob};

use super::api::Api;
use super::edge::authenticate::Access;
use super::error::{Absent, Failure, Kind, NotFoundCause};
use crate::namespaces;

/// Candidates listed for an ambiguous prefix.
const MAX_CANDIDATES: u32 = 5;

/// The job that a full ID or a unique prefix names.
pub(super) fn job(reads: &dyn Reads, access: &Access, text: &str) -> Result<StoredJob, Failure> {
    let id = job_id(reads, access, text)?;
    reads.job(id)?.ok_or_else(|| absent(Kind::Job, text))
}

/// The ID itself, or the only one with this prefix; of a full ID, a job need not exist for a caller
/// who sees everything.
pub(super) fn job_id(reads: &dyn Reads, access: &Access, text: &str) -> Result<JobId, Failure> {
    let prefix = prefix(text, JobId::LETTER, Kind::Job)?;
    let id = if prefix.low == prefix.high {
        JobId::from_uuid(prefix.low)
    } else {
        let visible = access.caller().visible();
        only(Kind::Job, text, reads.find_jobs(prefix, &visible, MAX_CANDIDATES + 1)?)?
    };
    check(reads, access, id, || absent(Kind::Job, text))?;
    note("job", id);
    Ok(id)
}

/// The execution that a full ID or a unique prefix names.
pub(super) fn execution(
    reads: &dyn Reads,
    access: &Access,
    text: &str,
) -> Result<StoredExecution, Failure> {
    let prefix = prefix(text, ExecutionId::LETTER, Kind::Execution)?;
    let id = if prefix.low == prefix.high {
        ExecutionId::from_uuid(prefix.low)
    } else {
        let visible = access.caller().visible();
        let found = reads.find_executions(prefix, &visible, MAX_CANDIDATES + 1)?;
        only(Kind::Execution, text, found)?
    };
    let execution = reads.execution(id)?.ok_or_else(|| absent(Kind::Execution, text))?;
    check(reads, access, execution.row.job, || absent(Kind::Execution, text))?;
    note("execution", id);
    Ok(execution)
}

/// Whether the caller sees the job, and may do there what the operation does.
fn check(
    reads: &dyn Reads,
    access: &Access,
    job: JobId,
    absent: impl Fn() -> Failure,
) -> Result<(), Failure> {
    if access.is_unbounded() {
        return Ok(());
    }
    let namespace = reads.namespace_of(job)?.ok_or_else(&absent)?;
    access.check(&namespace, absent)
}

/// The namespace of a request, if it exists and the caller may do there what the operation does.
///
/// Where no one is asked for credentials, any name is a namespace.
pub(super) fn namespace(api: &Api, access: &Access, name: &str) -> Result<(), Failure> {
    access.check(name, || access.no_namespace(name))?;
    if api.asks_for_credentials && !namespaces::exists(api.view.records(), name) {
        return Err(access.no_namespace(name));
    }
    Ok(())
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
    let node = text.parse().map_err(|_| Absent::Record {
        kind: Kind::Node,
        text: text.to_owned(),
        cause: NotFoundCause::Malformed,
    })?;
    note("node", node);
    Ok(node)
}

pub(super) fn absent(kind: Kind, text: &str) -> Failure {
    Absent::Record { kind, text: text.to_owned(), cause: NotFoundCause::Absent }.into()
}

fn prefix(text: &str, letter: char, kind: Kind) -> Result<IdPrefix, Failure> {
    let malformed =
        || Absent::Record { kind, text: text.to_owned(), cause: NotFoundCause::Malformed };
    Ok(IdPrefix::parse(text, letter).ok_or_else(malformed)?)
}

fn only<T: Copy + ToString>(kind: Kind, text: &str, found: Vec<T>) -> Result<T, Failure> {
    match found.as_slice() {
        [] => Err(absent(kind, text)),
        [one] => Ok(*one),
        several => Err(Absent::Ambiguous {
            kind,
            text: text.to_owned(),
            candidates: several
                .iter()
                .take(MAX_CANDIDATES as usize)
                .map(ToString::to_string)
                .collect(),
        }
        .into()),
    }
}
