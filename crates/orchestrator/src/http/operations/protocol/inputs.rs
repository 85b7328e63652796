//! Inputs that are results of other jobs, for the node that is about to start what has them, and
//! which archives a node still has to keep.
//!
//! A node gets the results of another job only through an execution that it may run: the job of the
//! execution names them.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api_types::dependency::{Condition, Dependency};
use api_types::engine::{Params, PublisherType, S3PublisherParams};
use api_types::error::FieldError;
use api_types::execution::{ComputeState, PublishedResult, S3ResultParams};
use api_types::job::JobSpec;
use api_types::job_input::{
    Archives, InputArchiveRequest, InputResult, InputResults, InputResultsRequest,
    MAX_ARCHIVES_PER_REQUEST, MAX_RESULTS,
};
use api_types::log::ArchiveRequest;
use api_types::source::{JobSourceParams, S3SourceParams, SourceSpec, SourceType};
use api_types::{Code, ExecutionId, JobId, NodeId, routes};
use axum::extract::State;
use axum::response::IntoResponse;
use control_plane::store::{CompletedResult, Reads, StoreError};
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use scheduler::slots::Slots;
use serde_json::Value;

use super::sealed::{self, Recipient};
use super::specification::{Placed, placed};
use crate::credentials::CredentialScope;
use crate::http::api::{Api, Handled, Parameter};
use crate::http::edge::body::JsonBody;
use crate::http::error::{Absent, BadRequest, Busy, Failure};
use crate::http::lookup;
use crate::http::openapi::{BODY, CALL, OWN_NODE_ID, QUERY, READ, examples, params, refusals};
use crate::http::operations::archives;
use crate::http::query::Query;
use crate::http::respond::json;
use crate::logs::NoArchive;
use crate::shares::Owner;

/// Bytes of a list of indexes in a message.
const SHOWN_INDEXES_BYTES: usize = 200;

/// An input of an execution that its node may run.
struct Input {
    spec: Arc<JobSpec>,
    params: JobSourceParams,
    dependency: Dependency,
    /// The one index whose results it has; none for all.
    index: Option<u32>,
}

/// What a job published, as far as an input has it.
struct Found {
    /// The indexes that the input should have.
    wanted: Slots,
    results: Vec<InputResult>,
}

// === Operations ===

/// Input Results
///
/// The results of another job that are an input of an execution, only for an execution that the node
/// has accepted and that has not ended. If the input requires what was not published, this is a 404.
#[utoipa::path(
    post,
    path = routes::NODE_INPUTS,
    operation_id = "readInputResults",
    tag = "Agent protocol",
    params(params::OwnNodePath),
    request_body(content = InputResultsRequest, example = json!(examples::input_results_request())),
    responses((status = 200, description = "The results, by index.", body = InputResults, example = json!(examples::input_results()))),
    extensions(("x-error-codes" = json!(refusals(&[OWN_NODE_ID, QUERY, BODY, READ, CALL, &[Code::ExecutionNotFound, Code::ResultNotFound, Code::CredentialNotFound]])))),
)]
pub(super) async fn results(
    State(api): State<Arc<Api>>,
    recipient: Result<Recipient, Failure>,
    _: Query,
    Parameter(node): Parameter,
    body: JsonBody,
) -> Handled {
    let InputResultsRequest { execution_id, input } = body.read_exactly()?;
    let Input { spec, params, dependency, index } =
        self::input(&api, &node, execution_id, input).await?;
    let id = dependency.job_id;
    let found = api.read_for_agent(move |reads| Ok(find(reads, id, index)?)).await?;
    let Found { wanted, results } = found;
    let required = dependency.condition == Condition::Completed;
    let have: Slots = results.iter().map(|result| result.index).collect();
    let missing: Slots = wanted.iter().filter(|index| !have.contains(*index)).collect();
    let none = |reason| Err(Absent::Archive { execution: execution_id, reason }.into());
    if results.len() > MAX_RESULTS as usize {
        return none(format!(
            "job '{}' has more than {MAX_RESULTS} indexes; give the input an Index",
            params.job
        ));
    }
    if required && !missing.is_empty() {
        let indexes = missing.shortened(SHOWN_INDEXES_BYTES);
        let which = if missing.len() == 1 { "index" } else { "indexes" };
        return none(format!("job '{}' has published none for {which} {indexes}", params.job));
    }
    let names: BTreeSet<String> = results
        .iter()
        .filter_map(|result| result.source.as_ref()?.params.get("Credentials")?.as_str())
        .map(str::to_owned)
        .collect();
    let credentials = match names.is_empty() {
        true => Vec::new(),
        false => {
            let (recipient, names) = (recipient?, names.into_iter().collect());
            let of = (execution_id, spec.namespace.as_str());
            sealed::reveal_named::<CredentialScope>(&api, recipient, of, names).await?
        }
    };
    json(&InputResults { job: params.job, required, results, credentials })
}

/// Input Archive
///
/// One of these archives, relayed from the node that keeps it.
#[utoipa::path(
    post,
    path = routes::NODE_INPUT_ARCHIVE,
    operation_id = "readInputArchive",
    tag = "Agent protocol",
    params(params::OwnNodePath),
    request_body(content = InputArchiveRequest, example = json!(examples::input_archive_request())),
    responses((
        status = 200,
        description = "A gzip'd tar.",
        body = Vec<u8>,
        content_type = "application/octet-stream",
    )),
    extensions(("x-error-codes" = json!(refusals(&[OWN_NODE_ID, QUERY, BODY, READ, CALL, &[Code::ExecutionNotFound, Code::ResultNotFound, Code::NodeUnavailable]])))),
)]
pub(super) async fn archive(
    State(api): State<Arc<Api>>,
    _: Query,
    Parameter(node): Parameter,
    body: JsonBody,
) -> Handled {
    let InputArchiveRequest { execution_id, input, published_by } = body.read_exactly()?;
    let place = api.pools.relayed_inputs.take(&Owner::current(), 1)?;
    let Input { dependency, index, .. } = self::input(&api, &node, execution_id, input).await?;
    let read = move |reads: &dyn Reads| {
        let found = reads.execution(published_by)?;
        Ok(found.filter(|found| {
            let row = &found.row;
            row.job == dependency.job_id
                && index.is_none_or(|index| row.index == index)
                && row.compute == ComputeState::Completed
                && is_kept_by_its_node(found.published_result.as_ref())
        }))
    };
    let none =
        |reason: &str| Absent::Archive { execution: published_by, reason: reason.to_owned() };
    let found = api.read_for_agent(read).await?;
    let found = found.ok_or_else(|| none("the input of the execution does not have them"))?;
    let keeper = found.row.node;
    let archive = api.logs.archive(keeper, published_by, ArchiveRequest::default()).await;
    let archive = archive.map_err(|missing| -> Failure {
        match missing {
            NoArchive::Unreachable => Busy::NodeAway(keeper).into(),
            NoArchive::Absent => none("its node no longer has the archive").into(),
            NoArchive::Failed(reason) => Busy::NodeFailed { node: keeper, reason }.into(),
            NoArchive::Refused(refused) => refused.into(),
        }
    })?;
    let described = [
        (CONTENT_TYPE, "application/octet-stream".to_owned()),
        (CONTENT_LENGTH, archive.head.length.to_string()),
    ];
    Ok((described, archives::body(archive, place)).into_response())
}

/// Needed Archives
///
/// Of the archives that a node keeps, those of jobs on which live jobs depend.
#[utoipa::path(
    post,
    path = routes::NODE_NEEDED_ARCHIVES,
    operation_id = "listNeededArchives",
    tag = "Agent protocol",
    params(params::OwnNodePath),
    request_body(content = Archives, example = json!(examples::archives())),
    responses((status = 200, description = "Those that have to stay.", body = Archives, example = json!(examples::archives()))),
    extensions(("x-error-codes" = json!(refusals(&[OWN_NODE_ID, QUERY, BODY, READ])))),
)]
pub(super) async fn needed(
    State(api): State<Arc<Api>>,
    _: Query,
    Parameter(node): Parameter,
    body: JsonBody,
) -> Handled {
    let node: NodeId = lookup::full_node(&node)?;
    let Archives { executions } = body.read_exactly()?;
    if executions.len() > MAX_ARCHIVES_PER_REQUEST {
        let reason = format!("must not be more than {MAX_ARCHIVES_PER_REQUEST}");
        let problem = FieldError { path: "Executions".to_owned(), reason };
        return Err(BadRequest::Body(vec![problem]).into());
    }
    let executions = api.read_for_agent(move |reads| Ok(reads.needed(node, &executions)?)).await?;
    json(&Archives { executions })
}

// === Inputs ===

async fn input(
    api: &Arc<Api>,
    node: &str,
    execution: ExecutionId,
    place: u32,
) -> Result<Input, Failure> {
    let Placed { spec, index } = placed(api, lookup::full_node(node)?, execution).await?;
    let inputs = spec.tasks.iter().flat_map(|task| &task.input_sources);
    let params = inputs.clone().nth(place as usize).and_then(|input| input.job_results());
    let found = params.and_then(|params| {
        let id: JobId = params.job_id.parse().ok()?;
        let dependency = spec.depends_on.iter().find(|other| other.job_id == id)?.clone();
        let index = params.index.of_execution(index);
        Some((params, dependency, index))
    });
    let Some((params, dependency, index)) = found else {
        let reason = format!("its input {place} has none of another job");
        return Err(Absent::Archive { execution, reason }.into());
    };
    Ok(Input { params, dependency, index, spec })
}

fn find(reads: &dyn Reads, job: JobId, index: Option<u32>) -> Result<Found, StoreError> {
    let wanted = match index {
        Some(index) => Slots::from_iter([index]),
        None => reads.outcomes(job)?.map(|outcomes| outcomes.slots).unwrap_or_default(),
    };
    let mut publishers = BTreeMap::new();
    let mut results = Vec::new();
    for completed in reads.completed_results(job, index, MAX_RESULTS + 1)? {
        let CompletedResult { index, id, version, result, .. } = completed;
        let of_version = match publishers.entry(version) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(place) => place.insert(publisher(reads, job, version)?),
        };
        let source = match result.publisher_type {
            PublisherType::None | PublisherType::Noop => continue,
            PublisherType::Local => None,
            PublisherType::S3 => Some(of_bucket(result.params, of_version)),
            PublisherType::Ipfs => {
                Some(SourceSpec { source_type: SourceType::Ipfs, params: result.params })
            }
        };
        results.push(InputResult { index, execution_id: id, source });
    }
    Ok(Found { wanted, results })
}

/// Where the results of this version of a job go.
fn publisher(reads: &dyn Reads, job: JobId, version: u64) -> Result<S3PublisherParams, StoreError> {
    let json = reads.specification(job, version)?;
    let spec = json.and_then(|json| serde_json::from_str::<JobSpec>(&json).ok());
    let task = spec.and_then(|spec| spec.tasks.into_iter().next());
    let params = task.map(|task| Value::from(task.publisher.params));
    Ok(params.and_then(|params| serde_json::from_value(params).ok()).unwrap_or_default())
}

/// The object as an input. A result does not say where its bucket is, nor who may read it.
fn of_bucket(result: Params, publisher: &S3PublisherParams) -> SourceSpec {
    let result: S3ResultParams = serde_json::from_value(result.into()).unwrap_or_default();
    let params = S3SourceParams {
        bucket: result.bucket,
        key: result.key,
        region: result.region,
        endpoint: publisher.endpoint.clone(),
        version_id: result.version_id,
        checksum_sha256: result.checksum_sha256,
        credentials: publisher.credentials.clone(),
        ..S3SourceParams::default()
    };
    let params = match serde_json::to_value(params) {
        Ok(Value::Object(mut params)) => {
            params.retain(|_, value| value.as_str() != Some(""));
            params
        }
        _ => Params::new(),
    };
    SourceSpec { source_type: SourceType::S3, params }
}

fn is_kept_by_its_node(result: Option<&PublishedResult>) -> bool {
    result.is_some_and(|result| result.publisher_type == PublisherType::Local)
}
