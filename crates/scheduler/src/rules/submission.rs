//! Submissions: a job begins.

use alloc::boxed::Box;
use alloc::format;
use alloc::sync::Arc;

use api_types::JobId;
use api_types::job::{JobStateType, JobType};

use crate::change::{FIRST_VERSION, JobRow, NewJobRow};
use crate::input::{Answer, Refusal, Submit};
use crate::plan::JobPlan;
use crate::rules::{covers, group, health, job_end, quota};
use crate::slots::Slots;
use crate::state::State;
use crate::state::job::LiveJob;
use crate::text::Text;
use crate::timer::Timer;
use crate::turn::Turn;
use crate::views::explain;

// === Jobs ===

pub(crate) fn submit(state: &mut State, turn: &mut Turn<'_>, submit: Submit) -> Answer {
    let Submit { id, spec, spec_json } = submit;
    if state.jobs.contains_key(&id) {
        return Answer::Refused(Refusal::JobExists(id));
    }
    let job_plan =
        JobPlan::from_spec(&spec).expect("validation lets only readable demands through");
    let refusal = group::refuses(state, &job_plan);
    if let Some(refusal) = refusal.or_else(|| quota::refuses(state, &job_plan, spec.count)) {
        return Answer::Refused(refusal);
    }
    let (stored, evaluation) = (job_plan.to_text().into(), state.mint.evaluation());
    let max_running = job_plan.max_running;
    let max_failed = job_plan.max_failed;
    let JobPlan { namespace, groups, replaces, .. } = &job_plan;
    let replaces = *replaces;
    let (groups, number) = state.queue.groups.add_job(namespace, groups, id, replaces);
    let (plan, class) = state.enter_queue(job_plan, id, turn.wall, turn.now, Arc::clone(&groups));
    let row = JobRow {
        id,
        state: JobStateType::Pending,
        message: Text::Constant(""),
        version: FIRST_VERSION,
        // The creation event increments it to 1.
        revision: 0,
        modify_time: turn.wall,
        last_event_time: turn.wall,
        waiting_since: None,
        ended_at: None,
        start_time: None,
        running: 0,
        failed: 0,
        slots: if plan.is_per_node() { Slots::default() } else { Slots::below(spec.count) },
        fresh: 0,
        completed: 0,
        failed_slots: 0,
        evaluation,
        live: true,
    };
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
        plan: stored,
    });
    if let Some(bound) = plan.total_timeout() {
        state.timers.set(turn.now + bound, Timer::TotalTimeout(id));
    }
    let mut job = LiveJob::new(row, plan, Some(class));
    job.limit_to(max_running, max_failed);
    job.name_groups(Arc::clone(&groups), number);
    state.queue.quotas.queued(&job.plan.namespace, job.queued_slots());
    state.jobs.put(Box::new(job));
    if let Some(group) = groups.first().filter(|_| replaces) {
        group::replace(state, *group);
    }
    state.note_job(turn, id, JobStateType::Pending, Text::Constant("submitted"));
    health::hear_witness(state, turn, id);
    place_new(state, turn, id);
    Answer::Submitted { job: id, evaluation }
}

fn place_new(state: &mut State, turn: &mut Turn<'_>, id: JobId) {
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
