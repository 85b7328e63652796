//! Jobs: list and stop; [`create`] submits them, [`rerun`] again, [`describe`] reads one.

pub(super) mod create;
pub(super) mod dependencies;
mod describe;
mod downstream;
mod explain;
mod rerun;
mod summary;

use std::collections::BTreeMap;
use std::sync::Arc;

use api_types::job::{
    DEFAULT_NAMESPACE, Job, JobSpec, JobState, JobStateType, JobType, ListJobs, RetryPolicy,
    StopJob,
};
use api_types::routes;
use api_types::summary::{JobSummary, ListJobSummaries};
use api_types::{Code, JobId, Timestamp};
use axum::extract::State;
use control_plane::store::{JobOrder, JobQuery, Reads, StoreError, StoredJob};
use daemon::collect;
use daemon::http::Operations;
use scheduler::demand::Demand;
use scheduler::input::{Answer, Input, Refusal};
use serde::Deserialize;

use crate::access::masking;
use crate::driver::CallError;
use crate::http::api::{Api, Handled, Parameter};
use crate::http::edge::authenticate::Access;
use crate::http::edge::body::{JsonBody, OptionalBody};
use crate::http::error::{Conflict, Failure, Kind};
use crate::http::lookup;
use crate::http::openapi::{BODY, CALL, JOB, PAGE, QUERY, READ, examples, params, refusals};
use crate::http::paging::{List, Listing};
use crate::http::query::{
    Choice, JobStates, Labels, Moment, Namespace, OneJobType, Reverse, TenAPage, Text, query,
};
use crate::http::respond::json;
use crate::view::View;

pub(super) use self::summary::summary;

/// Longest stored reason, in characters; the rest is cut off, because only people read it.
const MAX_REASON_CHARS: usize = 1024;

const ORDERS: Choice<JobOrder> = Choice {
    permitted: &[
        ("create_time", JobOrder::CreateTime),
        ("modify_time", JobOrder::ModifyTime),
        ("id", JobOrder::Id),
        // What a published client of an earlier API sends.
        ("created_at", JobOrder::CreateTime),
        ("modified_at", JobOrder::ModifyTime),
    ],
    default: JobOrder::CreateTime,
};

/// How much of each job a list contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Detail {
    Full,
    Summary,
}

const VIEWS: Choice<Detail> = Choice {
    permitted: &[("full", Detail::Full), ("summary", Detail::Summary)],
    default: Detail::Full,
};

query! {
    /// Filters and order of a job list.
    struct ListQuery {
        namespace: Option<String> = (
            "namespace",
            Namespace { default: DEFAULT_NAMESPACE },
            "The jobs of one namespace, or `*` for all."
        );
        states: Vec<JobStateType> = ("state", JobStates, "Job states, separated by commas.");
        job_type: Option<JobType> = ("type", OneJobType, "One job type.");
        name: Option<String> = ("name", Text, "The exact name.");
        name_prefix: Option<String> = ("name_prefix", Text, "The beginning of the name.");
        created_after: Option<Timestamp> = (
            "created_after",
            Moment,
            "At or after: Unix seconds, optionally with a fraction, RFC 3339, a date, or a duration \
             back from now, like `2h`."
        );
        created_before: Option<Timestamp> = (
            "created_before",
            Moment,
            "Before: Unix seconds, optionally with a fraction, RFC 3339, a date, or a duration back \
             from now, like `2h`."
        );
        labels: Labels = part;
        page: TenAPage = part;
        order: JobOrder =
            ("order_by", ORDERS, "The sort key; ties are broken by ID. `created_at` and `modified_at` are other words for `create_time` and `modify_time`.");
        view: Detail = (
            "view",
            VIEWS,
            "`summary` leaves out the specification of each job, and counts its executions."
        );
        direction: Reverse = part;
    }

    struct StopQuery {
        reason: Option<String> = (
            "reason",
            Text,
            "Recorded in the history; takes precedence over the body's, and is cut off after 1,024 characters."
        );
    }
}

/// The two responses of List Jobs.
#[expect(dead_code, reason = "only its schema is used; the two responses are written separately")]
#[derive(serde::Serialize, utoipa::ToSchema)]
#[serde(untagged)]
enum Listed {
    Full(ListJobs),
    Summary(ListJobSummaries),
}

/// Why a user stops a job.
#[derive(Default, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "PascalCase", default)]
struct StopRequest {
    reason: String,
}

pub(super) fn router() -> Operations<Arc<Api>> {
    Operations::default()
        .merge(collect!(list, create::create, create::create_by_post))
        .merge(collect!(describe::describe, stop))
        .merge(collect!(explain::explain, rerun::rerun))
}

/// List Jobs
///
/// The matching jobs of a namespace, page by page; with `view=summary` without their specifications.
#[utoipa::path(
    get,
    path = routes::JOBS,
    operation_id = "listJobs",
    tag = "Jobs",
    params(ListQuery),
    responses((status = 200, description = "A page of jobs.", body = inline(Listed), example = json!(examples::list_jobs()))),
    extensions(("x-error-codes" = json!(refusals(&[PAGE, READ, &[Code::NamespaceNotFound]])))),
)]
async fn list(State(api): State<Arc<Api>>, access: Access, query: ListQuery) -> Handled {
    let (order, reverse) = (query.order, query.direction.reverse);
    let listing = Listing { list: List::Jobs, order: order as u8, reverse, of: None };
    let question = JobQuery {
        namespaces: access.within(query.namespace)?,
        selector: query.labels.selector,
        states: query.states,
        job_type: query.job_type,
        name: query.name,
        name_prefix: query.name_prefix,
        created_after: query.created_after,
        created_before: query.created_before,
        order,
        reverse,
        after: listing.position(query.page.next_token.as_deref())?,
        limit: query.page.limit,
    };
    match query.view {
        Detail::Full => {
            let view = Arc::clone(&api.view);
            // Rendered there too: a page may have 16 MB.
            let read = move |reads: &dyn Reads| {
                let page = reads.jobs(&question)?;
                let last = page.items.last();
                let last = last.map(|job| order.position(job.id, job.create_time, job.modify_time));
                let next_token = listing.token(last, page.more);
                let jobs = page.items.into_iter();
                let jobs = jobs.map(|stored| record(stored, &view, &access)).collect();
                json(&ListJobs { jobs, next_token })
            };
            api.read(read).await
        }
        Detail::Summary => {
            let view = Arc::clone(&api.view);
            let read = move |reads: &dyn Reads| {
                let page = reads.summaries(&question)?;
                // Here, because explaining queued jobs may read their specifications.
                let items = page.items.into_iter();
                let jobs: Vec<JobSummary> =
                    items.map(|stored| summary::summary(stored, &view)).collect();
                let last = jobs.last();
                let last = last.map(|job| order.position(job.id, job.create_time, job.modify_time));
                let next_token = listing.token(last, page.more);
                json(&ListJobSummaries { jobs, next_token })
            };
            api.read(read).await
        }
    }
}

/// Stop Job
///
/// The job stops immediately, its processes soon after. Stopping a stopped job returns an empty
/// `EvaluationID`.
#[utoipa::path(
    delete,
    path = routes::JOB,
    operation_id = "stopJob",
    tag = "Jobs",
    params(params::JobPath, StopQuery),
    request_body = Option<StopRequest>,
    responses((status = 200, description = "The job is stopped.", body = StopJob, example = json!(examples::stop_job()))),
    extensions(("x-error-codes" = json!(refusals(&[JOB, QUERY, BODY, READ, CALL, &[Code::JobFinished]])))),
)]
async fn stop(
    State(api): State<Arc<Api>>,
    access: Access,
    query: StopQuery,
    Parameter(text): Parameter,
    OptionalBody(body): OptionalBody,
) -> Handled {
    let requested: StopRequest = body.as_ref().map(JsonBody::read).transpose()?.unwrap_or_default();
    let reason = query.reason.as_deref().unwrap_or(&requested.reason);
    let reason: String = reason.chars().take(MAX_REASON_CHARS).collect();

    let audit = access.audit();
    let stored = api.read(move |reads| lookup::job(reads, &access, &text)).await?;
    if stored.state.is_terminal() {
        return already_over(stored.id, stored.state);
    }
    match api.handle.on_behalf(audit).call(Input::Stop { job: stored.id, reason }).await {
        Ok(Answer::Stopped { evaluation }) => json(&StopJob { evaluation_id: Some(evaluation) }),
        Ok(other) => Err(Failure::Internal { cause: format!("stop was answered by {other:?}") }),
        Err(CallError::Refused(Refusal::JobFinished { job, state })) => already_over(job, state),
        // The job ended between the lookup and the stop; the store has its final state.
        Err(CallError::Refused(Refusal::JobNotLive(job))) => {
            let stored = api.read(move |reads| Ok(reads.job(job)?)).await?;
            let stored = stored.ok_or_else(|| lookup::absent(Kind::Job, &job.to_string()))?;
            already_over(job, stored.state)
        }
        Err(error) => Err(error.into()),
    }
}

fn already_over(job: JobId, state: JobStateType) -> Handled {
    match state {
        JobStateType::Stopped => json(&StopJob { evaluation_id: None }),
        JobStateType::Completed | JobStateType::Failed => {
            Err(Conflict::JobFinished { job, state }.into())
        }
        JobStateType::Pending | JobStateType::Queued | JobStateType::Running => {
            let cause = format!("job {job} is {state} in the store and unknown to the scheduler");
            Err(Failure::Internal { cause })
        }
    }
}

/// A job as responses render it. Why a queued job waits changes without the job changing, so the
/// store does not hold it. Slots of ops and daemon jobs wait for nodes of their own, which their
/// stored message describes.
fn record(stored: StoredJob, view: &View, access: &Access) -> Job {
    let spec = specification_of(&stored);
    let waits = match stored.state {
        JobStateType::Queued
            if stored.waits && matches!(spec.job_type, JobType::Batch | JobType::Service) =>
        {
            Demand::from_spec(&spec)
                .ok()
                .and_then(|demand| view.explanation(&spec.namespace, demand))
        }
        _ => None,
    };
    let message = waits.map_or(stored.message, |waits| waits.as_ref().to_owned());
    let shows_content = access.shows_content(&spec.namespace);
    let spec = if shows_content { spec } else { masking::specification(spec) };
    Job {
        id: stored.id,
        spec,
        state: JobState {
            failed_count: stored.failed_slots,
            ..JobState::new(stored.state, message)
        },
        version: stored.version,
        revision: stored.revision,
        create_time: stored.create_time,
        modify_time: stored.modify_time,
    }
}

/// What is known of a job's specification. Of a damaged one its task is not: the record still says
/// how the job ended and why, and other jobs are listed with it.
pub(super) fn specification_of(stored: &StoredJob) -> JobSpec {
    specification(&stored.spec_json).unwrap_or_else(|error| {
        tracing::error!(job = %stored.id, %error, "the state database is damaged");
        JobSpec {
            name: stored.name.clone(),
            namespace: stored.namespace.clone(),
            job_type: stored.job_type,
            priority: stored.priority,
            count: 0,
            max_running: 0,
            constraints: Vec::new(),
            meta: BTreeMap::new(),
            labels: BTreeMap::new(),
            retry_policy: RetryPolicy::default_for(stored.job_type),
            max_failed: 0,
            concurrency_groups: Vec::new(),
            on_conflict: api_types::job::OnConflict::Queue,
            depends_on: Vec::new(),
            tasks: Vec::new(),
        }
    })
}

pub(super) fn specification(json: &str) -> Result<JobSpec, StoreError> {
    serde_json::from_str(json).map_err(|error| StoreError::Record {
        detail: format!("the specification of a job: {error}"),
    })
}
