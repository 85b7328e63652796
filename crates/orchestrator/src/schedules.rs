//! Runs of schedules: a due time is checked as a submission, and sent back to the step.
//!
//! The step says what is due ([`Action::Due`](control_plane::step::Action)), and accepts what comes
//! back once. Whatever gets lost here comes again.

use std::sync::Arc;

use api_types::Timestamp;
use api_types::error::FieldError;
use api_types::job::JobSpec;
use control_plane::records::{Record, RecordKey, RecordKind};
use control_plane::schedule::{self, Definition};
use control_plane::step::{DueRun, DueTime, Submission};
use futures_util::future::join_all;
use scheduler::change::FIRST_VERSION;
use scheduler::input::Submit;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use crate::driver::Handle;
use crate::submission::{self, Accepted, Regexes, Rejected, Requester, mint};
use crate::view::View;
use crate::{admission, namespaces};

/// What a check of a schedule's job needs.
#[derive(Clone)]
pub(crate) struct Scheduling {
    pub(crate) handle: Handle,
    pub(crate) view: Arc<View>,
    pub(crate) requester: Requester,
    /// Whether a namespace must have been created.
    pub(crate) asks_for_credentials: bool,
}

/// The job of a schedule, and what is known of its run.
pub(crate) struct ScheduledJob<'a> {
    pub(crate) namespace: &'a str,
    pub(crate) schedule: &'a str,
    /// As it was put.
    pub(crate) job: &'a Value,
    /// None for a check without a run.
    pub(crate) due: Option<Timestamp>,
}

/// Checks the runs that are due, until the service stops.
pub(crate) async fn run(api: Scheduling, stopping: CancellationToken) {
    while let Some(due) = stopping.run_until_cancelled(api.view.due().take()).await {
        failpoint::reach("schedule.due").await;
        let checking = api.clone();
        let checked = tokio::task::spawn_blocking(move || {
            due.into_iter().filter_map(|time| check_due(&checking, time)).collect::<Vec<_>>()
        });
        let Ok(runs) = checked.await else {
            tracing::error!("the check of due schedules ended early; it is repeated");
            continue;
        };
        failpoint::reach("schedule.checked").await;
        // Together, so that they share a commit.
        let sent = join_all(runs.into_iter().map(|run| api.handle.run_due(run))).await;
        for error in sent.into_iter().filter_map(Result::err) {
            tracing::warn!(%error, "a due run was not stored; it is repeated");
        }
    }
}

/// None for a schedule that has changed since: then something else is due.
fn check_due(api: &Scheduling, time: DueTime) -> Option<DueRun> {
    let record = api.view.records().get(&RecordKind::Schedule.key(&*time.key))?;
    if record.version != time.version {
        return None;
    }
    let definition = Definition::from_record(&record)?;
    let (namespace, schedule) = schedule::names(&time.key);
    let job = ScheduledJob { namespace, schedule, job: &definition.job, due: Some(time.due) };
    let checked = check(api, &job).map(|accepted| Box::new(submission_of(api, accepted)));
    Some(DueRun { time, checked: checked.map_err(why) })
}

/// A job that is about to be stored, which its node may ask for immediately afterwards.
pub(crate) fn submission_of(api: &Scheduling, accepted: Accepted) -> Submission {
    let Accepted { id, spec, spec_json, warnings, .. } = accepted;
    api.view.specs().insert(id, FIRST_VERSION, Arc::clone(&spec), spec_json.len());
    let submit = Submit::new(id, spec, spec_json);
    Submission { submit, id_given: false, warnings, key: None }
}

/// Checks the job as a submission of now, with what its namespace permits now.
pub(crate) fn check(api: &Scheduling, scheduled: &ScheduledJob<'_>) -> Result<Accepted, Rejected> {
    let ScheduledJob { namespace, schedule, job, due } = scheduled;
    let refused = |path: &str, reason: String| {
        Rejected::Invalid(vec![FieldError { path: path.to_owned(), reason }])
    };
    if api.asks_for_credentials && !namespaces::exists(api.view.records(), namespace) {
        return Err(refused("Namespace", format!("there is no namespace '{namespace}'")));
    }
    let mut job = (*job).clone();
    let Some(fields) = job.as_object_mut() else {
        return Err(refused(
            "",
            "must be a job, like the one in the body of Create Job".to_owned(),
        ));
    };
    fill_in(fields, "Namespace", namespace);
    fill_in(fields, "Name", schedule);
    let body = serde_json::json!({ "Job": job }).to_string();
    let accepted = submission::accept(body.as_bytes(), mint(), &api.requester, Regexes::Compile)?;
    let spec: &JobSpec = &accepted.spec;
    if spec.namespace != *namespace {
        let reason = format!("must be that of the schedule, '{namespace}', or absent");
        return Err(refused("Namespace", reason));
    }
    if !spec.job_type.is_finite() {
        let reason = format!("must be batch or ops: a {} job does not end", spec.job_type);
        return Err(refused("Type", reason));
    }
    if !spec.depends_on.is_empty() {
        let reason = "must be absent: the jobs of the next runs do not exist yet".to_owned();
        return Err(refused("DependsOn", reason));
    }
    let admission = admission::admit(&api.view, spec, accepted.priority_given);
    let accepted = accepted.admitted(admission.map_err(Rejected::Invalid)?);
    Ok(match due {
        Some(due) => accepted.scheduled(schedule, *due),
        None => accepted,
    })
}

/// A field that the job leaves out, or leaves empty.
fn fill_in(fields: &mut Map<String, Value>, name: &str, text: &str) {
    let is_empty = |value: &Value| value.is_null() || value.as_str() == Some("");
    fields.retain(|key, value| !key.eq_ignore_ascii_case(name) || !is_empty(value));
    if !fields.keys().any(|key| key.eq_ignore_ascii_case(name)) {
        fields.insert(name.to_owned(), text.into());
    }
}

/// Everything that is wrong with a job, in one text.
fn why(rejected: Rejected) -> String {
    match rejected {
        Rejected::Malformed(reason) => reason,
        Rejected::Invalid(problems) => {
            let problem = |FieldError { path, reason }: FieldError| format!("{path}: {reason}");
            problems.into_iter().map(problem).collect::<Vec<_>>().join("; ")
        }
        Rejected::HasRegexes => "its regular expressions were not checked".to_owned(),
    }
}

/// How far a schedule is, as far as it has come.
pub(crate) fn position(view: &View, key: &RecordKey) -> schedule::Position {
    let record: Option<Record> = view.records().get(&RecordKind::ScheduleState.key(&*key.key));
    record.as_ref().and_then(schedule::Position::from_record).unwrap_or_default()
}
