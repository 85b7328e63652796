//! Schedules: put, list, describe, trigger and delete them, and list their runs.

use std::sync::Arc;

use api_types::error::FieldError;
use api_types::job::CreateJob;
use api_types::schedule::{
    CatchUp, DescribeSchedule, ListScheduleRuns, ListSchedules, Overlap, PutSchedule, Schedule,
    ScheduleRun,
};
use api_types::{Code, Timestamp, routes};
use axum::body::Bytes;
use axum::extract::State;
use control_plane::records::{Expected, Record, RecordKey, RecordKind, RecordWrite};
use control_plane::schedule::{self as stored, Definition, MAX_SCHEDULE_BYTES, Plan, Run};
use control_plane::step::{Submission, Trigger};
use control_plane::store::Namespaces;
use daemon::collect;
use daemon::http::Operations;
use http::HeaderMap;

use super::jobs::create::idempotency_key;
use super::sealed::{self, ListQuery, OneQuery};
use crate::http::api::{Api, Handled, Parameter};
use crate::http::edge::authenticate::Access;
use crate::http::edge::body::JsonBody;
use crate::http::error::{BadRequest, Failure, Kind};
use crate::http::lookup;
use crate::http::openapi::{BODY, CALL, QUERY, examples, params, refusals};
use crate::http::respond::{blocking, json};
use crate::schedules::{self, ScheduledJob};
use crate::submission::{Accepted, Rejected};
use crate::{clock, names};

/// The longest bound of lateness: a year.
const MAX_CATCH_UP_SECONDS: u32 = 365 * 86_400;

/// The longest jitter: an hour.
const MAX_JITTER_SECONDS: u32 = 3600;

/// Next times in an answer.
const NEXT_TIMES: usize = 5;

pub(super) fn router() -> Operations<Arc<Api>> {
    Operations::default()
        .merge(collect!(list))
        .merge(collect!(describe, put, delete))
        .merge(collect!(trigger))
        .merge(collect!(runs))
}

/// List Schedules
///
/// The schedules, in order of namespace and name, without their jobs.
#[utoipa::path(
    get,
    path = routes::SCHEDULES,
    operation_id = "listSchedules",
    tag = "Schedules",
    params(ListQuery),
    responses((status = 200, description = "The schedules.", body = ListSchedules, example = json!(examples::list_schedules()))),
    extensions(("x-error-codes" = json!(refusals(&[QUERY, &[Code::NamespaceNotFound]])))),
)]
async fn list(State(api): State<Arc<Api>>, access: Access, query: ListQuery) -> Handled {
    let wanted = sealed::wanted(&access, query)?;
    let listed = blocking(move || {
        let mut records = api.view.records().of_kind(RecordKind::Schedule);
        records.retain(|record| match &wanted {
            Namespaces::All => true,
            Namespaces::Only(names) => names.contains(stored::names(&record.key.key).0),
        });
        let shown = |record: &Record| {
            let schedule = shown(&api, record)?;
            Some(Schedule { job: None, ..schedule })
        };
        ListSchedules { schedules: records.iter().filter_map(shown).collect() }
    });
    json(&listed.await?)
}

/// Describe Schedule
///
/// One schedule. Viewers do not see its job.
#[utoipa::path(
    get,
    path = routes::SCHEDULE,
    operation_id = "describeSchedule",
    tag = "Schedules",
    params(params::SchedulePath, OneQuery),
    responses((status = 200, description = "The schedule.", body = DescribeSchedule, example = json!(examples::describe_schedule()))),
    extensions(("x-error-codes" = json!(refusals(&[QUERY, &[Code::ScheduleNotFound, Code::NamespaceNotFound, Code::PathNotFound]])))),
)]
async fn describe(
    State(api): State<Arc<Api>>,
    access: Access,
    query: OneQuery,
    Parameter(name): Parameter,
) -> Handled {
    let record = find(&api, &access, query, &name)?;
    answer(&api, &access, &record, Vec::new())
}

/// Put Schedule
///
/// Creates the schedule, or replaces it from this moment on: nothing that fell due before is caught
/// up. Its job is checked as a submission now, and again for each run.
#[utoipa::path(
    put,
    path = routes::SCHEDULE,
    operation_id = "putSchedule",
    tag = "Schedules",
    params(params::SchedulePath, OneQuery),
    request_body(content = PutSchedule, example = json!(examples::put_schedule())),
    responses((status = 200, description = "The schedule.", body = DescribeSchedule, example = json!(examples::describe_schedule()))),
    extensions(("x-error-codes" = json!(refusals(&[QUERY, BODY, CALL, &[Code::InvalidJob, Code::NamespaceNotFound, Code::PathNotFound, Code::Conflict]])))),
)]
async fn put(
    State(api): State<Arc<Api>>,
    access: Access,
    query: OneQuery,
    Parameter(name): Parameter,
    body: JsonBody,
) -> Handled {
    let namespace = sealed::own_namespace(&api, &access, query)?;
    let body: PutSchedule = body.read_known()?;
    let now = clock::now();
    let plan = checked(&name, &body, now)?;
    let job = body.job.unwrap_or_default();
    let key = key(&namespace, &name);
    let (definition, warnings) = {
        let (api, namespace, name) = (api.scheduling(), namespace.clone(), name.clone());
        let check = move || {
            let scheduled =
                ScheduledJob { namespace: &namespace, schedule: &name, job: &job, due: None };
            let warnings = schedules::check(&api, &scheduled)?.warnings;
            Ok((Definition { plan, job, create_time: now }, warnings))
        };
        blocking(check).await?.map_err(of_job)?
    };
    let record = api.view.records().get(&key);
    let before = record.as_ref().and_then(Definition::from_record);
    let create_time = before.map_or(now, |before| before.create_time);
    let definition = Definition { create_time, ..definition };
    let write = RecordWrite::json(key.clone(), Expected::as_read(record.as_ref()), &definition);
    if write.value.as_ref().is_some_and(|value| value.len() > MAX_SCHEDULE_BYTES) {
        let reason = "must be smaller: a schedule has at most 60 KiB".to_owned();
        return Err(BadRequest::Body(vec![FieldError { path: "Job".to_owned(), reason }]).into());
    }
    let audit = access.audit_of(&key.key);
    api.handle.on_behalf(audit).change_records(vec![write.clone()]).await?;
    let value = write.value.unwrap_or_default();
    answer(&api, &access, &Record { key, version: 0, value }, warnings)
}

/// Delete Schedule
///
/// Its runs are forgotten; jobs that it started go on.
#[utoipa::path(
    delete,
    path = routes::SCHEDULE,
    operation_id = "deleteSchedule",
    tag = "Schedules",
    params(params::SchedulePath, OneQuery),
    responses((status = 200, description = "The schedule as it was.", body = DescribeSchedule, example = json!(examples::describe_schedule()))),
    extensions(("x-error-codes" = json!(refusals(&[QUERY, CALL, &[Code::ScheduleNotFound, Code::NamespaceNotFound, Code::PathNotFound, Code::Conflict]])))),
)]
async fn delete(
    State(api): State<Arc<Api>>,
    access: Access,
    query: OneQuery,
    Parameter(name): Parameter,
) -> Handled {
    let record = find(&api, &access, query, &name)?;
    let answer = answer(&api, &access, &record, Vec::new())?;
    let audit = access.audit_of(&record.key.key);
    let state = RecordKind::ScheduleState.key(&*record.key.key);
    let writes = vec![RecordWrite::removal(record.key), RecordWrite::removal(state)];
    api.handle.on_behalf(audit).change_records(writes).await?;
    Ok(answer)
}

/// Trigger Schedule
///
/// Starts a job of the schedule now, whatever `Overlap` says and even while it is paused.
#[utoipa::path(
    post,
    path = routes::SCHEDULE_TRIGGER,
    operation_id = "triggerSchedule",
    tag = "Schedules",
    params(params::SchedulePath, OneQuery, params::IdempotencyKey),
    responses((status = 200, description = "The job is on disk.", body = CreateJob, example = json!(examples::create_job()))),
    extensions(("x-error-codes" = json!(refusals(&[QUERY, CALL, &[Code::InvalidJob, Code::InvalidRequest, Code::IdempotencyConflict, Code::ScheduleNotFound, Code::NamespaceNotFound, Code::PathNotFound, Code::QuotaExceeded, Code::Conflict]])))),
)]
async fn trigger(
    State(api): State<Arc<Api>>,
    access: Access,
    headers: HeaderMap,
    query: OneQuery,
    Parameter(name): Parameter,
) -> Handled {
    let record = find(&api, &access, query, &name)?;
    let key = record.key.key.clone();
    let asked = Bytes::from(key.to_string());
    let request = idempotency_key(&headers, &asked, "POST schedules/trigger\n").await?;
    let due = clock::now();
    let checked = {
        let (api, key) = (api.scheduling(), key.clone());
        let check = move || {
            let (namespace, schedule) = stored::names(&key);
            let job = Definition::from_record(&record).map(|it| it.job).unwrap_or_default();
            let due = Some(due);
            let scheduled = ScheduledJob { namespace, schedule, job: &job, due };
            schedules::check(&api, &scheduled)
        };
        blocking(check).await?
    };
    let accepted: Accepted = checked.map_err(of_job)?;
    let submission = schedules::submission_of(&api.scheduling(), accepted);
    let submission = Submission { key: request, ..submission };
    let trigger = Trigger { key, due, submission };
    let created = api.handle.on_behalf(access.audit()).trigger(trigger).await?;
    lookup::note("job", created.job_id);
    json(&created)
}

/// List Schedule Runs
///
/// What became of the newest due times, newest first.
#[utoipa::path(
    get,
    path = routes::SCHEDULE_RUNS,
    operation_id = "listScheduleRuns",
    tag = "Schedules",
    params(params::SchedulePath, OneQuery),
    responses((status = 200, description = "The runs.", body = ListScheduleRuns, example = json!(examples::list_schedule_runs()))),
    extensions(("x-error-codes" = json!(refusals(&[QUERY, &[Code::ScheduleNotFound, Code::NamespaceNotFound, Code::PathNotFound]])))),
)]
async fn runs(
    State(api): State<Arc<Api>>,
    access: Access,
    query: OneQuery,
    Parameter(name): Parameter,
) -> Handled {
    let record = find(&api, &access, query, &name)?;
    let position = schedules::position(&api.view, &record.key);
    let shows_content = access.shows_content(stored::names(&record.key.key).0);
    let shown = |run: &Run| {
        let run = wire(run);
        // What is wrong with a job says what is in it.
        let reason = if shows_content { run.reason } else { String::new() };
        ScheduleRun { reason, ..run }
    };
    json(&ListScheduleRuns { runs: position.runs.iter().rev().map(shown).collect() })
}

/// The plan of a body without a problem.
fn checked(name: &str, body: &PutSchedule, now: Timestamp) -> Result<Plan, Failure> {
    let mut problems = Vec::new();
    let mut problem = |path: &str, reason: String| {
        problems.push(FieldError { path: path.to_owned(), reason });
    };
    if !names::is_name(name) {
        problem("", format!("the name of a schedule {}", names::RULE));
    }
    if body.cron.trim().is_empty() {
        problem("Cron", "is required: five fields, like '30 2 * * *'".to_owned());
    }
    if body.job.is_none() {
        problem("Job", "is required: a batch or ops job".to_owned());
    }
    let most = [
        ("CatchUpSeconds", body.catch_up_seconds, MAX_CATCH_UP_SECONDS),
        ("JitterSeconds", body.jitter_seconds, MAX_JITTER_SECONDS),
    ];
    for (path, value, most) in most {
        if let Some(value) = value.filter(|value| *value > most) {
            problem(path, format!("must be between 0 and {most}, got {value}"));
        }
    }
    let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    let overlap = given(&body.overlap).map_or(Ok(Overlap::Skip), |text| text.parse());
    let catch_up = given(&body.catch_up).map_or(Ok(CatchUp::Latest), |text| text.parse());
    if let Err(error) = &overlap {
        problem("Overlap", error.to_string());
    }
    if let Err(error) = &catch_up {
        problem("CatchUp", error.to_string());
    }
    let plan = Plan {
        cron: body.cron.trim().to_owned(),
        time_zone: given(&body.time_zone).unwrap_or_else(|| "UTC".to_owned()),
        overlap: overlap.unwrap_or(Overlap::Skip),
        catch_up: catch_up.unwrap_or(CatchUp::Latest),
        catch_up_seconds: body.catch_up_seconds.unwrap_or(0),
        jitter_seconds: body.jitter_seconds.unwrap_or(0),
        paused: body.paused.unwrap_or(false),
        since: now,
    };
    if !plan.cron.is_empty()
        && let Err((path, reason)) = plan.times()
    {
        problem(path, reason);
    }
    if problems.is_empty() { Ok(plan) } else { Err(BadRequest::Body(problems).into()) }
}

fn key(namespace: &str, name: &str) -> RecordKey {
    RecordKind::Schedule.key(stored::key(namespace, name))
}

/// The schedule that the request names.
fn find(api: &Api, access: &Access, query: OneQuery, name: &str) -> Result<Record, Failure> {
    let key = key(&sealed::own_namespace(api, access, query)?, name);
    let record = api.view.records().get(&key);
    record.ok_or_else(|| lookup::absent(Kind::Schedule, name))
}

fn answer(api: &Api, access: &Access, record: &Record, warnings: Vec<String>) -> Handled {
    let name = stored::names(&record.key.key).1;
    let schedule = shown(api, record).ok_or_else(|| lookup::absent(Kind::Schedule, name))?;
    let schedule = match access.shows_content(&schedule.namespace) {
        true => schedule,
        false => masked(schedule),
    };
    json(&DescribeSchedule { schedule, warnings })
}

/// What a viewer sees: when it runs, and what became of that.
fn masked(schedule: Schedule) -> Schedule {
    let last_run = schedule.last_run.map(|run| ScheduleRun { reason: String::new(), ..run });
    Schedule { job: None, masked: true, last_run, ..schedule }
}

fn shown(api: &Api, record: &Record) -> Option<Schedule> {
    let Definition { plan, job, create_time } = Definition::from_record(record)?;
    let (namespace, name) = stored::names(&record.key.key);
    let position = schedules::position(&api.view, &record.key);
    let times = plan.times().ok().filter(|_| !plan.paused);
    let from = clock::now().max(position.last_due.unwrap_or(plan.since));
    let next = times.map(|times| times.following(from, NEXT_TIMES)).unwrap_or_default();
    Some(Schedule {
        name: name.to_owned(),
        namespace: namespace.to_owned(),
        cron: plan.cron,
        time_zone: plan.time_zone,
        overlap: plan.overlap,
        catch_up: plan.catch_up,
        catch_up_seconds: plan.catch_up_seconds,
        jitter_seconds: plan.jitter_seconds,
        paused: plan.paused,
        job: Some(job),
        masked: false,
        next_times: next.into_iter().map(Timestamp::rfc3339_seconds).collect(),
        queued: u32::try_from(position.queued.len()).unwrap_or(u32::MAX),
        last_run: position.runs.last().map(wire),
        create_time: create_time.rfc3339(),
        modify_time: plan.since.rfc3339(),
    })
}

fn wire(run: &Run) -> ScheduleRun {
    ScheduleRun {
        scheduled_time: run.due.rfc3339_seconds(),
        time: run.time.rfc3339(),
        outcome: run.outcome,
        reason: run.reason.clone(),
        job_id: run.job.map(|job| job.to_string()).unwrap_or_default(),
        triggered: run.triggered,
    }
}

/// What is wrong with the job, below its field.
fn of_job(rejected: Rejected) -> Failure {
    match rejected {
        Rejected::Malformed(reason) => BadRequest::MalformedBody { reason }.into(),
        Rejected::Invalid(problems) => {
            let below = |FieldError { path, reason }: FieldError| {
                let path = if path.is_empty() { "Job".to_owned() } else { format!("Job.{path}") };
                FieldError { path, reason }
            };
            BadRequest::Job(problems.into_iter().map(below).collect()).into()
        }
        Rejected::HasRegexes => {
            Failure::Internal { cause: "regular expressions were left unchecked".to_owned() }
        }
    }
}
