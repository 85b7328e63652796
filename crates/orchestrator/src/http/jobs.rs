//! Jobs: list and stop; [`create`] submits them, [`describe`] tells of one.

mod create;
mod describe;

use std::sync::Arc;

use api_types::job::{
    DEFAULT_NAMESPACE, Job, JobSpec, JobState, JobStateType, JobType, ListJobs, StopJob,
};
use api_types::routes;
use api_types::{Code, JobId};
use axum::extract::State;
use serde::Deserialize;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes as collect;

use super::body::{JsonBody, OptionalBody};
use super::edge::json;
use super::error::{Failure, Kind};
use super::openapi::{BODY, CALL, JOB, PAGE, QUERY, READ, examples, params, refusals};
use super::paging::{List, Listing};
use super::query::Query;
use super::{Api, Handled, Parameter, lookup};
use crate::driver::CallError;
use crate::engine::demand::Demand;
use crate::engine::input::{Answer, Input, Refusal};
use crate::store::{JobOrder, JobPosition, JobQuery, StoreError, StoredJob};
use crate::view::View;

const DEFAULT_LIMIT: u32 = 10;

/// Characters of a reason that are kept; more is cut off, since it is only for people.
const MAX_REASON_CHARS: usize = 1024;

const ORDERS: &[(&str, JobOrder)] = &[("create_time", JobOrder::CreateTime), ("id", JobOrder::Id)];

/// Why a job is stopped.
#[derive(Default, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "PascalCase", default)]
struct StopRequest {
    reason: String,
}

pub(super) fn router() -> OpenApiRouter<Arc<Api>> {
    OpenApiRouter::default()
        .routes(collect!(list, create::create, create::create_by_post))
        .routes(collect!(describe::describe, stop))
}

/// List Jobs
///
/// The jobs of a namespace that match, page by page.
#[utoipa::path(
    get,
    path = routes::JOBS,
    operation_id = "listJobs",
    tag = "Jobs",
    params(params::JobFilters, params::Labels, params::TenAPage, params::JobOrder, params::Reverse),
    responses((status = 200, description = "A page of jobs.", body = ListJobs, example = json!(examples::list_jobs()))),
    extensions(("x-error-codes" = json!(refusals(&[PAGE, READ])))),
)]
async fn list(State(api): State<Arc<Api>>, query: Query) -> Handled {
    let order = query.choice("order_by", ORDERS, JobOrder::default())?;
    let reverse = query.flag("reverse")?;
    let listing = Listing { list: List::Jobs, order: order as u8, reverse, job: None };
    let namespace = match query.text("namespace")? {
        Some("*") => None,
        namespace => Some(namespace.unwrap_or(DEFAULT_NAMESPACE).to_owned()),
    };
    let types = JobType::ALL.iter().map(|job_type| job_type.as_str());
    let job_type: Vec<JobType> = query.words("type", types)?;
    if job_type.len() > 1 {
        return Err(super::query::invalid("type: one job type at a time".to_owned()));
    }
    let states = JobStateType::ALL.iter().map(|state| state.as_str());
    let question = JobQuery {
        namespace,
        selector: query.selector()?,
        states: query.words("state", states)?,
        job_type: job_type.first().copied(),
        name: query.text("name")?.map(str::to_owned),
        created_after: query.moment("created_after")?,
        created_before: query.moment("created_before")?,
        order,
        reverse,
        after: listing.position(query.text("next_token")?)?,
        limit: query.limit(DEFAULT_LIMIT)?,
    };
    let page = api.reader.run(move |reads| Ok(reads.jobs(&question)?)).await?;
    let last =
        page.items.last().map(|job| JobPosition { create_time: job.create_time, id: job.id });
    let next_token = listing.token(last, page.more);
    let jobs: Result<Vec<Job>, StoreError> =
        page.items.into_iter().map(|stored| record(stored, &api.view)).collect();
    json(&ListJobs { jobs: jobs?, next_token })
}

/// Stop Job
///
/// The job is stopped at once, its processes soon after. Stopping a stopped job answers with an
/// empty `EvaluationID`.
#[utoipa::path(
    delete,
    path = routes::JOB,
    operation_id = "stopJob",
    tag = "Jobs",
    params(params::JobPath, params::Reason),
    request_body = Option<StopRequest>,
    responses((status = 200, description = "The job is stopped.", body = StopJob, example = json!(examples::stop_job()))),
    extensions(("x-error-codes" = json!(refusals(&[JOB, QUERY, BODY, READ, CALL, &[Code::JobFinished]])))),
)]
async fn stop(
    State(api): State<Arc<Api>>,
    query: Query,
    Parameter(text): Parameter,
    OptionalBody(body): OptionalBody,
) -> Handled {
    let asked: StopRequest = body.as_ref().map(JsonBody::read).transpose()?.unwrap_or_default();
    let reason = query.text("reason")?.unwrap_or(&asked.reason);
    let reason: String = reason.chars().take(MAX_REASON_CHARS).collect();

    let stored = api.reader.run(move |reads| lookup::job(reads, &text)).await?;
    if stored.state.is_terminal() {
        return already_over(stored.id, stored.state);
    }
    match api.handle.call(Input::Stop { job: stored.id, reason }).await {
        Ok(Answer::Stopped { evaluation }) => json(&StopJob { evaluation_id: Some(evaluation) }),
        Ok(other) => Err(Failure::Internal { cause: format!("stop was answered by {other:?}") }),
        Err(CallError::Refused(Refusal::JobFinished { job, state })) => already_over(job, state),
        // It ended between the look and the stop; the store knows how.
        Err(CallError::Refused(Refusal::JobNotLive(job))) => {
            let stored = api.reader.run(move |reads| Ok(reads.job(job)?)).await?;
            let stored = stored.ok_or_else(|| lookup::absent(Kind::Job, &job.to_string()))?;
            already_over(job, stored.state)
        }
        Err(error) => Err(error.into()),
    }
}

fn already_over(job: JobId, state: JobStateType) -> Handled {
    match state {
        JobStateType::Stopped => json(&StopJob { evaluation_id: None }),
        JobStateType::Completed | JobStateType::Failed => Err(Failure::JobFinished { job, state }),
        JobStateType::Pending | JobStateType::Queued | JobStateType::Running => {
            let cause = format!("job {job} is {state} in the store and unknown to the engine");
            Err(Failure::Internal { cause })
        }
    }
}

/// A job as answers carry it. What a queued job waits for changes without the job changing, so
/// that it is not in the store. Slots of ops and daemon jobs wait for nodes of their own, which is
/// what their stored message is about.
fn record(stored: StoredJob, view: &View) -> Result<Job, StoreError> {
    let spec = specification(&stored.spec_json)?;
    let waits = match stored.state {
        JobStateType::Queued if matches!(spec.job_type, JobType::Batch | JobType::Service) => {
            Demand::of(&spec).ok().and_then(|demand| view.explanation(&demand))
        }
        _ => None,
    };
    let message = waits.map_or(stored.message, |waits| waits.as_ref().to_owned());
    Ok(Job {
        id: stored.id,
        spec,
        state: JobState { state_type: stored.state, message },
        version: stored.version,
        revision: stored.revision,
        create_time: stored.create_time,
        modify_time: stored.modify_time,
    })
}

pub(super) fn specification(json: &str) -> Result<JobSpec, StoreError> {
    serde_json::from_str(json).map_err(|error| StoreError::Record {
        detail: format!("the specification of a job: {error}"),
    })
}
