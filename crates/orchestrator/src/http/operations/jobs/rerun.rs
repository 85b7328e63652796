//! Rerun Job: a new job for indexes of one that has ended.

use std::collections::BTreeMap;
use std::sync::Arc;

use api_types::error::FieldError;
use api_types::graph::CreateGraph;
use api_types::job::{CreateJob, DryRun, JobType};
use api_types::rerun::RerunJobRequest;
use api_types::{Code, JobId, MAX_BODY_BYTES, NodeId, routes};
use axum::extract::State;
use control_plane::store::{Reads, StoredJob, StoredOutcomes};
use http::HeaderMap;
use scheduler::rerun::{Rerun, select};
use scheduler::slots::Slots;
use serde_json::Value;

use super::create::{self, CreateQuery};
use super::dependencies;
use super::downstream;
use crate::admission;
use crate::http::api::{Api, Handled, Parameter};
use crate::http::edge::authenticate::Access;
use crate::http::edge::body::{JobBody, Language};
use crate::http::error::{BadRequest, Conflict, Failure, Kind};
use crate::http::lookup;
use crate::http::openapi::{BODY, CALL, JOB, QUERY, READ, examples, params, refusals};
use crate::http::respond::blocking;
use crate::submission::rerun::{Choice, Patched};
use crate::submission::{self, Accepted, Regexes, Rejected, mint};

/// A specification is stored with every default and a patch comes on top, so the new one may be
/// larger than a body.
pub(super) const MAX_PATCHED_BYTES: usize = 2 * MAX_BODY_BYTES;

/// The three responses of Rerun Job.
#[expect(dead_code, reason = "only its schema is used; the responses are written separately")]
#[derive(serde::Serialize, utoipa::ToSchema)]
#[serde(untagged)]
enum Again {
    Job(CreateJob),
    /// With `Downstream`.
    Graph(CreateGraph),
    DryRun(Box<DryRun>),
}

/// What is stored of the job whose indexes run again.
pub(super) struct Original {
    pub(super) job: StoredJob,
    pub(super) outcomes: StoredOutcomes,
    /// The nodes of an ops job's indexes.
    nodes: Vec<(u32, NodeId)>,
}

/// Rerun Job
///
/// A new job that runs indexes of one that has ended, under the same indexes; those of an ops job on
/// their nodes. `Patch` may change everything except `Type`, `Namespace`, `Count` and `ID`. With
/// `Downstream`, a graph of this job and of everything that did not run because of the first one.
#[utoipa::path(
    post,
    path = routes::JOB_RERUN,
    operation_id = "rerunJob",
    tag = "Jobs",
    params(params::JobPath, CreateQuery, params::IdempotencyKey),
    request_body(content = RerunJobRequest, example = json!(examples::rerun_job())),
    responses((
        status = 200,
        description = "The new job is on disk, or the outcome of a dry run.",
        body = inline(Again),
        example = json!(examples::create_job()),
    )),
    extensions(("x-error-codes" = json!(refusals(&[JOB, QUERY, BODY, READ, CALL, &[Code::InvalidJob, Code::InvalidRequest, Code::JobNotFinished, Code::Conflict, Code::NodeConflict, Code::IdempotencyConflict, Code::NamespaceNotFound, Code::QuotaExceeded]])))),
)]
pub(super) async fn rerun(
    State(api): State<Arc<Api>>,
    access: Access,
    headers: HeaderMap,
    query: CreateQuery,
    Parameter(text): Parameter,
    mut body: JobBody,
) -> Handled {
    if body.language != Language::Json {
        return Err(BadRequest::MediaType { found: Some("application/yaml".to_owned()) }.into());
    }
    // Before the job is read, because many specifications would fill the memory.
    let turn = create::turn(&api, body.owner()).await?;
    let asks = access.clone();
    let original = api.read(move |reads| original(reads, &asks, &text)).await?;
    let of = original.job.id;
    let key = create::idempotency_key(&headers, &body.body.bytes, &format!("rerun {of}\n")).await?;
    let (with, bytes, id) = (Arc::clone(&api), body.body.bytes.clone(), mint());
    let prepare = move || {
        let prepared = prepare(&with, &original, &bytes, id);
        prepared.map(|prepared| (prepared, original))
    };
    let ((accepted, rerun, is_all), original) = blocking(prepare).await??;
    if is_all {
        lookup::namespace(&api, &access, &accepted.spec.namespace)?;
        let run = downstream::family(&api, original, accepted, rerun, &mut body).await?;
        drop(turn);
        return match query.dry_run {
            true => downstream::preview(&api, run).await,
            false => downstream::submit(&api, &access, run, key).await,
        };
    }
    body.expand(accepted.spec_json.len(), &api).await?;
    drop(turn);
    lookup::namespace(&api, &access, &accepted.spec.namespace)?;
    let accepted = dependencies::resolve(&api, accepted, rerun.slots.clone()).await?;
    if !rerun.nodes.is_empty() {
        dependencies::check_ended(&api, &accepted).await?;
    }
    let admission = admission::admit(&api.view, &accepted.spec, accepted.priority_given)
        .map_err(BadRequest::Job)?;
    let accepted = blocking(move || accepted.admitted(admission)).await?;
    let rerun = Some(Arc::new(rerun));
    if query.dry_run {
        return create::preview(&api, accepted, rerun, Vec::new()).await;
    }
    create::submit(&api, &access, &headers, accepted, key, rerun).await
}

fn original(reads: &dyn Reads, access: &Access, text: &str) -> Result<Original, Failure> {
    let job = lookup::job(reads, access, text)?;
    let (id, job_type) = (job.id, job.job_type);
    if !job_type.is_finite() {
        return Err(BadRequest::NoRerunForType { job: id, job_type }.into());
    }
    // Retention may have removed it in between.
    let outcomes = reads.outcomes(id)?.ok_or_else(|| lookup::absent(Kind::Job, &id.to_string()))?;
    let (state, running) = (outcomes.state, outcomes.running);
    if !state.is_terminal() {
        return Err(Conflict::JobNotFinished { job: id, state, running: 0 }.into());
    }
    // The same index must not run twice at the same time.
    if running > 0 {
        return Err(Conflict::JobNotFinished { job: id, state, running }.into());
    }
    let nodes = if job_type == JobType::Ops { reads.slot_nodes(id)? } else { Vec::new() };
    Ok(Original { job, outcomes, nodes })
}

/// Checks the request, and the job as it is patched. Returns whether more than the job runs again.
fn prepare(
    api: &Api,
    original: &Original,
    body: &[u8],
    id: JobId,
) -> Result<(Accepted, Rerun, bool), Failure> {
    let Choice { only, indexes, patch, downstream } =
        submission::rerun::read(body).map_err(|rejected| match rejected {
            Rejected::Invalid(problems) => BadRequest::Body(problems).into(),
            other => create::refusal(other),
        })?;
    let Original { job, outcomes, nodes } = original;
    let all = &outcomes.slots;
    if let Some(indexes) = &indexes
        && !all.includes(indexes)
    {
        let reason = match all.at_or_above(0) {
            Some(first) => format!(
                "names an index that the job does not have; it has {}, from {first} to {}",
                all.len(),
                all.end() - 1
            ),
            None => "names an index, and the job has none".to_owned(),
        };
        return Err(problem("Indexes", reason));
    }
    let slots = select(all, &outcomes.outcomes, only, indexes.as_ref());
    if slots.is_empty() {
        let among = if indexes.is_some() { "of the Indexes" } else { "of the job's indexes" };
        let what = only.said();
        return Err(problem("Only", format!("no index would run: none {among} {what}")));
    }
    let nodes = bound(job.job_type, &slots, nodes)?;
    let accepted = patched(api, job, patch, (slots.len(), all.len()), id)?;
    Ok((accepted, Rerun::new(slots, nodes), downstream))
}

/// The job as it runs again, with `count` of `all` indexes.
pub(super) fn patched(
    api: &Api,
    job: &StoredJob,
    patch: Option<Value>,
    (count, all): (u32, u32),
    id: JobId,
) -> Result<Accepted, Failure> {
    let patched = Patched { job, patch, count };
    let told = |meta: &BTreeMap<String, String>| match api_types::rerun::told_count(meta) {
        0 => all,
        count => count,
    };
    let (json, priority_given, told_count) =
        patched.json(told).map_err(|problems| match problems {
            Some(problems) => Failure::from(BadRequest::Job(problems)),
            None => Conflict::NoSpecification(job.id).into(),
        })?;
    if json.len() > MAX_PATCHED_BYTES {
        return Err(BadRequest::BodyTooLarge { limit_bytes: MAX_PATCHED_BYTES }.into());
    }
    let accepted = submission::accept(&json, id, &api.own.requester, Regexes::Compile)
        .map_err(create::refusal)?;
    Ok(accepted.into_rerun(job.id, told_count, priority_given))
}

/// Where each of these indexes of an ops job runs.
fn bound(
    job_type: JobType,
    slots: &Slots,
    nodes: &[(u32, NodeId)],
) -> Result<BTreeMap<u32, NodeId>, Failure> {
    if job_type != JobType::Ops {
        return Ok(BTreeMap::new());
    }
    let known: BTreeMap<u32, NodeId> = nodes.iter().copied().collect();
    let mut bound = BTreeMap::new();
    for index in slots.iter() {
        let Some(node) = known.get(&index) else {
            let reason =
                format!("index {index} never ran, and its node is not known; leave it out");
            return Err(problem("Indexes", reason));
        };
        bound.insert(index, *node);
    }
    Ok(bound)
}

pub(super) fn problem(path: &str, reason: String) -> Failure {
    BadRequest::Body(vec![FieldError { path: path.to_owned(), reason }]).into()
}
