//! Create Job, and its dry run.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use api_types::job::{CreateJob, DryRun, Job, JobState, JobStateType, JobType};
use api_types::rerun::DownstreamJob;
use api_types::submission::CreateJobRequest;
use api_types::{Code, GraphId, routes};
use axum::body::Bytes;
use axum::extract::State;
use control_plane::step::{IdempotencyKey, Submission};
use http::HeaderMap;
use ring::digest;
use scheduler::change::FIRST_VERSION;
use scheduler::input::{Refusal, Submit};
use scheduler::plan::JobPlan;
use scheduler::rerun::Rerun;
use scheduler::slots::Slots;
use scheduler::{Preview, Reasons, Scheduler};

use super::dependencies;
use crate::driver::CallError;
use crate::http::api::{Api, Handled};
use crate::http::edge::authenticate::Access;
use crate::http::edge::body::{JobBody, Language, READ_ON_THE_SPOT_BYTES};
use crate::http::error::{BadRequest, Failure};
use crate::http::lookup;
use crate::http::openapi::{BODY, CALL, QUERY, examples, params, refusals};
use crate::http::operations::{slots::MAX_LIST_BYTES, survey};
use crate::http::query::{Flag, query};
use crate::http::respond::{blocking, json, rendered};
use crate::json::yaml;
use crate::shares::Owner;
use crate::shares::permit_queue::QueuedPermit;
use crate::spans::{self, Submitted};
use crate::submission::graph::{AcceptedGraph, accept_graph as accept_jobs};
use crate::submission::{self, Accepted, Regexes, Rejected, mint};
use crate::{admission, clock};

const IDEMPOTENCY_KEY: &str = "Idempotency-Key";

/// The W3C Trace Context header that names the caller's trace.
const TRACEPARENT: &str = "traceparent";

/// Longest idempotency key, in characters; a key is kept for a day.
const MAX_KEY_CHARS: usize = 255;

/// How long such a body waits for its turn before its sender is asked to come again.
const TURN_TIMEOUT: Duration = Duration::from_secs(10);

query! {
    pub(super) struct CreateQuery {
        pub(super) dry_run: bool = (
            "dry_run",
            Flag,
            "Validates the job and reports what would happen; nothing is stored."
        );
    }
}

/// The two responses of Create Job.
#[expect(dead_code, reason = "only its schema is used; the two responses are written separately")]
#[derive(serde::Serialize, utoipa::ToSchema)]
#[serde(untagged)]
pub(super) enum Created {
    Job(CreateJob),
    DryRun(Box<DryRun>),
}

/// Create Job
///
/// The response holds the ID of the job and of the evaluation that places it; placement continues
/// afterwards. With `dry_run` nothing is stored, and the response reports what would happen. The
/// body may be YAML as well, with the content type `application/yaml`.
#[utoipa::path(
    put,
    path = routes::JOBS,
    operation_id = "createJob",
    tag = "Jobs",
    params(CreateQuery, params::IdempotencyKey),
    request_body(content = CreateJobRequest, example = json!(examples::submission())),
    responses((
        status = 200,
        description = "The job is on disk, or the outcome of a dry run.",
        body = inline(Created),
        example = json!(examples::create_job()),
    )),
    extensions(("x-error-codes" = json!(refusals(&[QUERY, BODY, CALL, &[Code::InvalidJob, Code::JobExists, Code::IdempotencyConflict, Code::NamespaceNotFound, Code::QuotaExceeded]])))),
)]
pub(super) async fn create(
    State(api): State<Arc<Api>>,
    access: Access,
    headers: HeaderMap,
    query: CreateQuery,
    mut body: JobBody,
) -> Handled {
    let key = idempotency_key(&headers, &body.body.bytes, "").await?;
    let accepted = match body.language {
        Language::Json => accept(&api, body.owner(), body.body.bytes.clone()).await?,
        Language::Yaml => accept_yaml(&api, &mut body).await?,
    };
    lookup::namespace(&api, &access, &accepted.spec.namespace)?;
    let slots = Slots::below(accepted.spec.count);
    let accepted = dependencies::resolve(&api, accepted, slots).await?;
    let admission = admission::admit(&api.view, &accepted.spec, accepted.priority_given)
        .map_err(BadRequest::Job)?;
    let accepted = match accepted.spec_json.len() {
        ..=READ_ON_THE_SPOT_BYTES => accepted.admitted(admission),
        _ => blocking(move || accepted.admitted(admission)).await?,
    };
    if query.dry_run {
        return preview(&api, accepted, None, Vec::new()).await;
    }
    submit(&api, &access, &headers, accepted, key, None).await
}

/// Stores a job that may be stored.
pub(super) async fn submit(
    api: &Arc<Api>,
    access: &Access,
    headers: &HeaderMap,
    accepted: Accepted,
    key: Option<IdempotencyKey>,
    rerun: Option<Arc<Rerun>>,
) -> Handled {
    let Accepted { id, id_given, spec, spec_json, warnings, .. } = accepted;
    // A node may receive the job as soon as it is on disk. An ID chosen by the client may belong to
    // another job, which keeps it, or have belonged to one that was removed.
    if id_given {
        api.view.specs().forget(id, FIRST_VERSION);
    } else {
        api.view.specs().insert(id, FIRST_VERSION, Arc::clone(&spec), spec_json.len());
    }
    let from = clock::now();
    let submit = Submit { id, spec, spec_json, named: Vec::new(), rerun };
    let submission = Submission { submit, id_given, warnings, key };
    let answer = api.handle.on_behalf(access.audit()).submit(submission).await?;
    lookup::note("job", answer.job_id);
    // A repeat of an earlier request is no submission.
    if answer.job_id == id {
        let traceparent = headers.get(TRACEPARENT).and_then(|value| value.to_str().ok());
        let submitted = Submitted { job: id, from, to: clock::now(), traceparent };
        spans::submitted(&api.observer.tracer, &submitted);
    }
    json(&answer)
}

/// Create Job by POST
///
/// The same as PUT.
#[utoipa::path(
    post,
    path = routes::JOBS,
    operation_id = "createJobByPost",
    tag = "Jobs",
    params(CreateQuery, params::IdempotencyKey),
    request_body(content = CreateJobRequest, example = json!(examples::submission())),
    responses((
        status = 200,
        description = "The job is on disk, or the outcome of a dry run.",
        body = inline(Created),
        example = json!(examples::create_job()),
    )),
    extensions(("x-error-codes" = json!(refusals(&[QUERY, BODY, CALL, &[Code::InvalidJob, Code::JobExists, Code::IdempotencyConflict, Code::NamespaceNotFound, Code::QuotaExceeded]])))),
)]
pub(super) async fn create_by_post(
    state: State<Arc<Api>>,
    access: Access,
    headers: HeaderMap,
    query: CreateQuery,
    body: JobBody,
) -> Handled {
    create(state, access, headers, query, body).await
}

/// JSON, on a blocking thread if it is long or has regular expressions.
async fn accept(api: &Arc<Api>, owner: &Owner, body: Bytes) -> Result<Accepted, Failure> {
    let id = mint();
    if body.len() <= READ_ON_THE_SPOT_BYTES {
        match submission::accept(&body, id, &api.own.requester, Regexes::Leave) {
            Err(Rejected::HasRegexes) => {}
            read => return read.map_err(refusal),
        }
    }
    let turn = turn(api, owner).await?;
    let api = Arc::clone(api);
    let read = move || {
        let read = submission::accept(&body, id, &api.own.requester, Regexes::Compile);
        drop(turn);
        read
    };
    blocking(read).await?.map_err(refusal)
}

/// YAML, always on a blocking thread: aliases can expand a short document enormously. One is
/// expanded at a time, so that many senders of short documents cannot fill the memory.
async fn accept_yaml(api: &Arc<Api>, body: &mut JobBody) -> Result<Accepted, Failure> {
    let turn = turn(api, body.owner()).await?;
    let (id, yaml, with) = (mint(), body.body.bytes.clone(), Arc::clone(api));
    let read = move || {
        let json = yaml::to_json(&yaml).map_err(|reason| BadRequest::MalformedBody { reason })?;
        let read = submission::accept(&json, id, &with.own.requester, Regexes::Compile);
        Ok::<_, Failure>((read.map_err(refusal)?, json.len(), turn))
    };
    let (accepted, bytes, turn) = blocking(read).await??;
    body.expand(bytes, api).await?;
    drop(turn);
    Ok(accepted)
}

/// A graph in JSON or YAML, always on a blocking thread.
pub(in crate::http::operations) async fn accept_graph(
    api: &Arc<Api>,
    body: &mut JobBody,
) -> Result<AcceptedGraph, Failure> {
    let turn = turn(api, body.owner()).await?;
    let (bytes, language, with) = (body.body.bytes.clone(), body.language, Arc::clone(api));
    let read = move || {
        let json = match language {
            Language::Json => bytes,
            Language::Yaml => {
                yaml::to_json(&bytes).map_err(|reason| BadRequest::MalformedBody { reason })?.into()
            }
        };
        let read = accept_jobs(&json, mint_graph(), mint, &with.own.requester);
        Ok::<_, Failure>((read.map_err(refusal)?, json.len(), turn))
    };
    let (accepted, bytes, turn) = blocking(read).await??;
    if language == Language::Yaml {
        body.expand(bytes, api).await?;
    }
    drop(turn);
    Ok(accepted)
}

/// Callers take turns, whatever they make of their bodies, and of each namespace one at a time is
/// read.
pub(super) async fn turn(api: &Api, owner: &Owner) -> Result<QueuedPermit, Failure> {
    match tokio::time::timeout(TURN_TIMEOUT, api.pools.parsing.take(owner)).await {
        Ok(turn) => turn.map_err(Failure::from),
        Err(_) => Err(CallError::QueueFull.into()),
    }
}

pub(super) fn refusal(rejected: Rejected) -> Failure {
    match rejected {
        Rejected::Malformed(reason) => BadRequest::MalformedBody { reason }.into(),
        Rejected::Invalid(problems) => BadRequest::Job(problems).into(),
        Rejected::HasRegexes => {
            Failure::Internal { cause: "regular expressions were left unchecked".to_owned() }
        }
    }
}

pub(in crate::http::operations) fn mint_graph() -> GraphId {
    #[expect(clippy::disallowed_methods, reason = "graph ids are minted here and nowhere else")]
    let uuid = uuid::Uuid::new_v4();
    GraphId::from_uuid(uuid)
}

/// The key of the request. Its body means another thing to another operation, which is named, except
/// that a plain creation is as it was before others took keys.
pub(in crate::http::operations) async fn idempotency_key(
    headers: &HeaderMap,
    body: &Bytes,
    operation: &str,
) -> Result<Option<IdempotencyKey>, Failure> {
    let mut values = headers.get_all(IDEMPOTENCY_KEY).iter();
    let Some(value) = values.next() else { return Ok(None) };
    let refused = |reason| Failure::from(BadRequest::Header { name: IDEMPOTENCY_KEY, reason });
    if values.next().is_some() {
        return Err(refused("is given more than once".to_owned()));
    }
    let bytes = value.as_bytes();
    if bytes.is_empty() || bytes.len() > MAX_KEY_CHARS || !bytes.iter().all(u8::is_ascii_graphic) {
        return Err(refused(format!("must be 1 to {MAX_KEY_CHARS} visible ASCII characters")));
    }
    let key = String::from_utf8_lossy(bytes).into_owned();
    let (body, is_large) = (body.clone(), body.len() > READ_ON_THE_SPOT_BYTES);
    let operation = operation.to_owned();
    let hash = move || {
        let mut context = digest::Context::new(&digest::SHA256);
        context.update(operation.as_bytes());
        context.update(&body);
        context.finish()
    };
    let hash = if is_large { blocking(hash).await? } else { hash() };
    let mut body_hash = [0; 32];
    body_hash.copy_from_slice(hash.as_ref());
    Ok(Some(IdempotencyKey { key, body_hash }))
}

pub(super) async fn preview(
    api: &Api,
    accepted: Accepted,
    rerun: Option<Arc<Rerun>>,
    downstream: Vec<DownstreamJob>,
) -> Handled {
    let Accepted { id, id_given, spec, warnings, .. } = accepted;
    if id_given {
        let taken = api.read(move |reads| Ok(reads.job(id)?.is_some())).await?;
        if taken {
            return Err(CallError::Refused(Refusal::JobExists(id)).into());
        }
    }
    let plan = JobPlan::from_spec(&spec)
        .map_err(|error| Failure::Internal { cause: format!("a checked job: {error}") })?;
    let count = spec.count;
    let asked = rerun.clone();
    let question = move |scheduler: &Scheduler| {
        let checked = scheduler.check_submission(&plan, count, asked.as_deref());
        checked.map(|()| scheduler.preview(&plan, count))
    };
    let (preview, _turn) = survey::ask(api, question).await?;
    let preview = preview.map_err(CallError::Refused)?;
    let Preview { mut nodes, reasons: Reasons { groups, hopeless } } = preview;
    let mut indexes = String::new();
    if let Some(rerun) = rerun {
        indexes = rerun.slots.shortened(MAX_LIST_BYTES);
        if spec.job_type == JobType::Ops {
            let bound: HashSet<_> = rerun.nodes.values().collect();
            nodes.retain(|node| bound.contains(&node.node_id));
        }
    }
    let now = clock::now();
    let state = JobState::new(JobStateType::Pending, "dry run: nothing was stored");
    let spec = Arc::unwrap_or_clone(spec);
    let job = Job {
        id,
        spec,
        state,
        version: FIRST_VERSION,
        revision: 1,
        create_time: now,
        modify_time: now,
    };
    rendered(DryRun { job, indexes, downstream, nodes, hopeless, groups, warnings }).await
}
