//! The state of a job and its message.
//!
//! The message names failures being retried, silent nodes, the gate that holds slots, why the job
//! waits for room, the first slot that failed, and what may fail again, in this order.

use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Bound;

use api_types::JobId;
use api_types::gate::GateType;
use api_types::job::{JobStateType, JobType};

use crate::demand::Want;
use crate::rank::{ClassId, Rank};
use crate::rules::outcome::{self, FIRST};
use crate::settle::leftover::Settle;
use crate::state::job::LiveJob;
use crate::state::{State, gate};
use crate::text::Text;
use crate::turn::Turn;
use crate::views::explain;
use crate::views::explain::Explanation;

/// Node checks per refresh, one per class and node; they take well below a millisecond in total.
const CHECKS_PER_REFRESH: usize = 4096;

/// Conditions on labels, and values that they list, that take as long as the rest of a node check.
const CONDITIONS_PER_CHECK: usize = 8;

// === Where a job stands ===

/// Derives the job's state from its slots, and records it when it changed.
pub(crate) fn refresh_job(state: &mut State, turn: &mut Turn<'_>, id: JobId) {
    let Some(job) = state.jobs.get(&id) else { return };
    if job.is_terminal() {
        return;
    }
    if job.plan.job_type.is_finite() && job.is_finished() {
        return outcome::finish(state, turn, id);
    }
    let waits = is_blocked(state, job);
    let busy = !job.executions().is_empty() || job.is_delayed();
    let notice = job.notice();
    let silence_changed = notice.silence.is_empty() != job.extras.shown.silence.is_empty();
    let (former_gate, gate) = (job.extras.gate(), gate::current(state, job, waits));
    // Its slots come one by one, each of which would be an event if it finds no room.
    let is_matched = job.awaits_counterparts();
    let next = match (busy, waits, job.row().start_time.is_some()) {
        _ if job.waits_for_others() => JobStateType::Queued,
        (_, _, true) if is_matched => JobStateType::Running,
        (false, true, _) => JobStateType::Queued,
        (true, _, true) | (false, false, true) => JobStateType::Running,
        (false, false, false) if gate.is_some() => JobStateType::Queued,
        (true, _, false) | (false, false, false) => JobStateType::Pending,
    };
    let gate_changed = gate != former_gate.map(|gate| gate.gate_type);
    let waits_changed = waits != job.row().waiting_since.is_some();
    let is_event =
        next != job.row().state || waits_changed && !is_matched || silence_changed || gate_changed;
    if !is_event && !waits_changed && notice == job.extras.shown {
        return;
    }
    let held = gate.filter(|_| !(is_matched && waits));
    let held = held.map(|gate| gate::message(state, job, gate));
    state.note_waiting(turn, id, waits);
    gate::set(state, id, gate, turn.wall);
    if is_matched && !waits || matches!(gate, Some(GateType::ConcurrencyGroup | GateType::Quota)) {
        forget_annotation(state, id);
    }
    let message = match (&notice.retry, &notice.silence) {
        (retry, _) if !retry.is_empty() => retry.clone(),
        (_, silence) if !silence.is_empty() => silence.clone(),
        _ if let Some(held) = &held => held.clone(),
        _ if waits => explain_and_share(state, id),
        _ if !notice.failure.is_empty() => format!("{FIRST}{}", notice.failure).into(),
        _ => notice.trial.clone(),
    };
    let comment = match next {
        _ if silence_changed && !notice.silence.is_empty() => notice.silence.clone(),
        _ if silence_changed => Text::Constant("all of its nodes are reachable again"),
        _ if gate_changed && let Some(held) = &held => Text::from(format!("waits: {held}")),
        _ if waits && notice.retry.is_empty() => Text::from(format!("waits for room: {message}")),
        _ if waits => Text::from(format!("waits: {message}")),
        _ if let Some(left) = former_gate.filter(|_| gate_changed) => {
            Text::from(format!("no slot waits for {} any more", left.gate_type))
        }
        JobStateType::Running => Text::Constant("an execution runs"),
        _ => Text::Constant("placed"),
    };
    state.set_message(turn, id, message);
    let Some(job) = state.jobs.get_mut(&id) else { return };
    if notice != job.extras.shown {
        job.extras.to_mut().shown = notice;
    }
    // Otherwise, the history already has the failures of the executions.
    if is_event {
        state.note_job(turn, id, next, comment);
    }
}

/// The job does not say that it waits for room any more, as the others of its class may.
fn forget_annotation(state: &mut State, id: JobId) {
    if let Some(class) = state.jobs.get(&id).and_then(|job| job.class()) {
        state.queue.class_mut(class).annotated = false;
    }
}

/// The first job of a class checks every node; later ones share its explanation.
fn explain_and_share(state: &mut State, id: JobId) -> Text {
    let Explanation { text, class } = explain::explain_job(state, id);
    match class {
        None => text,
        Some(class) => state.queue.explain(class, text.into()).into(),
    }
}

/// Whether slots wait for which no node has room.
fn is_blocked(state: &State, job: &LiveJob) -> bool {
    if job.waits_for_others() {
        return false;
    }
    let daemon_without_node = job.plan.job_type == JobType::Daemon && job.row().slots.is_empty();
    let has_waited = job.row().waiting_since.is_some();
    let anywhere = job.classes().into_iter().any(|id| {
        let class = state.queue.class(id);
        job.has_ready_slot(id) && (class.blocked || (class.restored && has_waited))
    });
    let is_offered = !gate::lacks(state, job) && !job.extras.is_offering();
    (job.extras.pending().has_pinned() && is_offered) || anywhere || daemon_without_node
}

/// Updates the state of the jobs of a class that turned out to be blocked.
pub(crate) fn refresh_waiting(
    settle: &mut Settle,
    state: &mut State,
    turn: &mut Turn<'_>,
    id: ClassId,
    mut after: Option<Rank>,
) {
    loop {
        let Some(class) = state.queue.find_class(id) else { return };
        let bound = after.map_or(Bound::Unbounded, Bound::Excluded);
        let Some(rank) = class.waiting.range((bound, Bound::Unbounded)).next().copied() else {
            return;
        };
        if turn.budget.is_spent() {
            settle.backlog.refreshes.insert(id, after);
            return;
        }
        turn.budget.spend();
        refresh_job(state, turn, rank.job);
        after = Some(rank);
    }
}

/// Explanations that changed since the last call; `None` where no job waits any more.
///
/// Checks every node for each class in which jobs wait, up to [`CHECKS_PER_REFRESH`] in total,
/// where one with many constraints counts for several; beyond that, successive calls cover the
/// classes in rotation. The driver calls it at intervals, not for each input.
pub(crate) fn refresh_explanations(state: &mut State) -> Vec<(Want, Option<Arc<str>>)> {
    let nodes = state.nodes.len().max(1);
    let classes = state.queue.next_waiting_classes(CHECKS_PER_REFRESH, |class| {
        nodes * (1 + class.demand.fit.conditions() / CONDITIONS_PER_CHECK)
    });
    for id in classes {
        let text = explain::explain_class(state, id);
        state.queue.explain(id, text.into());
    }
    core::mem::take(&mut state.queue.unreported)
}
