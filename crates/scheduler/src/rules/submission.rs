//! Submissions: a job begins.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;

use api_types::dependency::Dependency;
use api_types::job::{JobSpec, JobStateType, JobType};
use api_types::{EvaluationId, JobId, Timestamp};

use crate::change::{FIRST_VERSION, JobRow, NamedJob, NewJobRow};
use crate::dependency::Known;
use crate::input::{Answer, Refusal, Submit};
use crate::plan::JobPlan;
use crate::rules::{covers, dependency, group, health, job_end, quota, rerun};
use crate::slots::Slots;
use crate::state::job::LiveJob;
use crate::state::{State, dependants};
use crate::text::Text;
use crate::timer::Timer;
use crate::turn::Turn;
use crate::views::explain;

/// When a job begins whose conditions hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Begins {
    Now,
    /// With one of the next ticks.
    Later,
}

// === Jobs ===

pub(crate) fn submit(state: &mut State, turn: &mut Turn<'_>, submit: Submit) -> Answer {
    let id = submit.id;
    if state.jobs.contains_key(&id) {
        return Answer::Refused(Refusal::JobExists(id));
    }
    let refusal = group::refuses(state, &submit.spec);
    let jobs = core::slice::from_ref(&submit);
    if let Some(refusal) = refusal.or_else(|| quota::refuses(state, &submit.spec.namespace, jobs)) {
        return Answer::Refused(refusal);
    }
    if let Some(rerun) = &submit.rerun
        && let Err(refusal) = rerun::check(state, &plan_of(&submit.spec), rerun)
    {
        return Answer::Refused(refusal);
    }
    match named_jobs(state, turn, &submit.spec, &submit.named, &BTreeSet::new()) {
        Ok(named) => {
            let evaluation = record(state, turn, submit, named, Begins::Now);
            Answer::Submitted { job: id, evaluation }
        }
        Err(refusal) => Answer::Refused(refusal),
    }
}

/// Records a job that depends on these.
pub(crate) fn record(
    state: &mut State,
    turn: &mut Turn<'_>,
    submit: Submit,
    named: Vec<Known>,
    begins: Begins,
) -> EvaluationId {
    let Submit { id, spec, spec_json, rerun, .. } = submit;
    let job_plan = plan_of(&spec);
    let (stored, evaluation) = (job_plan.to_text().into(), state.mint.evaluation());
    let JobPlan { max_running, max_failed, told_count, replaces, .. } = job_plan;
    let JobPlan { namespace, groups, .. } = &job_plan;
    let (groups, number) = state.queue.groups.add_job(namespace, groups, id, replaces);
    let (plan, class) = state.enter_queue(job_plan, id, turn.wall, turn.now, Arc::clone(&groups));
    let slots = match &rerun {
        Some(rerun) => rerun.slots.clone(),
        None if plan.is_per_node() => Slots::default(),
        None => Slots::below(spec.count),
    };
    let row = new_row(id, slots, evaluation, turn.wall);
    turn.out.changes.new_jobs.push(NewJobRow {
        id,
        namespace: spec.namespace.clone(),
        name: spec.name.clone(),
        job_type: spec.job_type,
        priority: spec.priority,
        labels: spec.labels.clone(),
        create_time: turn.wall,
        created_at: turn.now,
        spec_json,
        depends_on: spec.depends_on.clone(),
        plan: stored,
    });
    let bound = plan.total_timeout();
    let mut job = LiveJob::new(row, plan, Some(class));
    job.limit_to(max_running, max_failed);
    job.name_groups(Arc::clone(&groups), number);
    let waits = !spec.depends_on.is_empty() || begins == Begins::Later;
    if waits {
        let conditions = dependants::conditions(state, &spec.depends_on, job.row().slots.len());
        dependants::enter(state, id, &conditions.list, named);
        job.extras.to_mut().conditions = Some(Box::new(conditions));
    }
    job.tell_count(told_count);
    let ranges = job.row().slots.scattered_ranges();
    state.namespaces.add_ranges(&job.plan.namespace, ranges);
    if rerun.as_ref().is_none_or(|rerun| rerun.nodes.is_empty()) {
        // Others are counted one by one, as they are bound to their nodes.
        state.queue.quotas.queued(&job.plan.namespace, job.queued_slots());
    }
    state.jobs.put(Box::new(job));
    if let Some(group) = groups.first().filter(|_| replaces) {
        group::replace(state, *group);
    }
    state.note_job(turn, id, JobStateType::Pending, Text::Constant("submitted"));
    health::hear_witness(state, turn, id);
    if let Some(rerun) = &rerun {
        rerun::record(turn, id, rerun);
    }
    let bound_to = rerun.filter(|rerun| !rerun.nodes.is_empty());
    match (waits, begins) {
        (true, Begins::Later) => state.marks.begins.push(id),
        // Its slots have their nodes: it cannot begin later, as a job that covers all nodes.
        (true, Begins::Now) if bound_to.is_none() || !dependency::hold_now(state, turn, id) => {
            dependency::review(state, turn, id);
        }
        (true, Begins::Now) | (false, _) => {
            if let Some(bound) = bound {
                state.timers.set(turn.now + bound, Timer::TotalTimeout(id));
            }
            match &bound_to {
                Some(rerun) => rerun::bind(state, turn, id, rerun),
                None => place_new(state, turn, id),
            }
        }
    }
    evaluation
}

pub(crate) fn plan_of(spec: &JobSpec) -> JobPlan {
    JobPlan::from_spec(spec).expect("validation lets only readable demands through")
}

fn new_row(id: JobId, slots: Slots, evaluation: EvaluationId, now: Timestamp) -> JobRow {
    JobRow {
        id,
        state: JobStateType::Pending,
        message: Text::Constant(""),
        version: FIRST_VERSION,
        // The creation event increments it to 1.
        revision: 0,
        modify_time: now,
        last_event_time: now,
        waiting_since: None,
        ended_at: None,
        start_time: None,
        running: 0,
        failed: 0,
        slots,
        fresh: 0,
        completed: 0,
        failed_slots: 0,
        evaluation,
        live: true,
    }
}

/// What became of the jobs on which this one depends, all of which must exist, or be recorded together
/// with it.
pub(crate) fn named_jobs(
    state: &State,
    turn: &Turn<'_>,
    spec: &JobSpec,
    stored: &[NamedJob],
    members: &BTreeSet<JobId>,
) -> Result<Vec<Known>, Refusal> {
    let look_up = |dependency: &Dependency| {
        let Dependency { job_id: job, job: name, .. } = dependency;
        let found = match members.contains(job) {
            true => Some(Known::default()),
            false => dependants::look_up(state, turn, *job, stored),
        };
        let missing = || Refusal::DependencyMissing { job: *job, name: name.clone() };
        found.ok_or_else(missing)
    };
    spec.depends_on.iter().map(look_up).collect()
}

/// Begins to place a job that waits for no other.
pub(crate) fn place_new(state: &mut State, turn: &mut Turn<'_>, id: JobId) {
    let job_type = state.jobs[&id].plan.job_type;
    match job_type {
        JobType::Batch | JobType::Service => state.mark_ready(id),
        JobType::Daemon => {
            state.daemons.insert(id);
            covers::cover_nodes(state, turn, id);
        }
        JobType::Ops => {
            covers::cover_nodes(state, turn, id);
            if state.jobs[&id].row().slots.is_empty() {
                let why = explain::explain_job(state, id).text;
                let message = format!("no node matches when the job is placed: {why}");
                job_end::end_job(state, turn, id, JobStateType::Failed, message.into());
                return;
            }
        }
    }
    state.marks.jobs.push(id);
}
