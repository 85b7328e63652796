//! Changes of executions, with their rows, their history, and what their nodes and jobs count of them.

use alloc::boxed::Box;
use alloc::format;
use core::time::Duration;

use api_types::execution::{ComputeState, DesiredState};
use api_types::job::JobType;
use api_types::{ExecutionId, JobId, NodeId, Timestamp};

use crate::change::{Effect, EventRow, EventSubject, ExecutionRow, Fact, WorkOrder};
use crate::state::job::{LiveJob, Slot};
use crate::state::{State, execution, gate, holders, idle};
use crate::text::Text;
use crate::time::Moment;
use crate::timer::{Timer, Timers};
use crate::turn::Turn;

/// How long a connected node may take to answer an offer; after that the slot is placed elsewhere.
/// The node cannot have started anything, because it never received a go-ahead.
pub(crate) const OFFER_TIMEOUT: Duration = Duration::from_secs(15);

/// A service that ran at least this long had a good run: the next retry delay is short again.
pub(crate) const GOOD_RUN: Duration = Duration::from_secs(60);

/// Short runs in a row after which a service or daemon is expected to fail again.
const REPEATED_RUNS: u32 = 2;

/// A stored execution that belongs to nothing.
pub(crate) enum Orphan {
    Job(JobId),
    Node(NodeId),
}

/// Creates an execution on a node that has room for it, and offers it to that node.
pub(crate) fn occupy(
    state: &mut State,
    turn: &mut Turn<'_>,
    job_id: JobId,
    slot: Slot,
    node_id: NodeId,
) {
    let id = state.mint.execution();
    let job = state.jobs.get_mut(&job_id).expect("slots are taken from live jobs");
    let node = state.nodes.get_mut(&node_id).expect("slots are placed on known nodes");
    let class = job.class.expect("a job that is not terminal has a class");
    let demand = &state.queue.class(class).demand;
    let resources = demand.need.on(&node.defaults);
    let row = ExecutionRow {
        id,
        job: job_id,
        version: job.row.version,
        index: slot.index,
        node: node_id,
        session: node.row.session,
        evaluation: slot.evaluation,
        resources,
        desired: DesiredState::Pending,
        desired_message: Text::Constant(""),
        compute: ComputeState::New,
        compute_message: Text::Constant(""),
        tries: slot.tries,
        previous: slot.previous,
        followup: None,
        // The creation event increments it to 1.
        revision: 0,
        create_time: turn.wall.max(job.row.last_event_time),
        // Set by the creation event.
        modify_time: Timestamp::ZERO,
        offered_at: turn.now,
        accepted_at: None,
        started_at: None,
        process_ended_at: None,
    };
    turn.out.facts.push(Fact::Placed {
        execution: id,
        job: job_id,
        index: row.index,
        at: row.create_time,
        submitted: job.plan.create_time,
        is_first: row.previous.is_none() && job.plan.job_type != JobType::Daemon,
    });
    job.executions.insert(id);
    state.queue.groups.take(job.extras.groups(), job_id);
    state.queue.take(&job.plan.namespace, &resources);
    if is_unproven(job, &row) {
        job.extras.to_mut().unproven.insert(id);
    }
    node.executions.insert(id);
    node.take(&resources, job.plan.job_type.is_finite());
    idle::occupied(node, turn, job.plan.job_type);
    node.reload(&mut state.queue);
    state.touched.insert(node_id);
    if let Some(previous) = row.previous {
        turn.out.changes.successors.push((previous, id));
    }
    let created = match row.previous {
        None => Text::Constant("created for its node"),
        Some(_) => Text::from(format!("created to retry [{}]", row.index)),
    };
    let work = execution::work_order(&row, job.told_count());
    state.executions.put(Box::new(row));
    observe(state, turn, id, ComputeState::New, created);
    observe(state, turn, id, ComputeState::AskForBid, Text::Constant("offered to its node"));
    assign(state, turn, id, Some(work));
    await_answer(state, id, turn.now);
    note_placed(state, job_id, id, node_id);
}

/// Changes the desired state and records an event with equal compute states.
pub(crate) fn decide(
    state: &mut State,
    turn: &mut Turn<'_>,
    id: ExecutionId,
    desired: DesiredState,
    why: Text,
) {
    let row = state.executions.get_mut(&id).expect("decisions are about live executions");
    row.desired = desired;
    row.desired_message = match desired {
        DesiredState::Pending | DesiredState::Running => Text::Constant(""),
        DesiredState::Stopped => why.clone(),
    };
    let compute = row.compute;
    observe(state, turn, id, compute, why);
    assign(state, turn, id, None);
}

/// Records the compute state, which may be unchanged.
pub(crate) fn observe(
    state: &mut State,
    turn: &mut Turn<'_>,
    id: ExecutionId,
    new: ComputeState,
    comment: Text,
) {
    let seq = state.next_seq();
    let time = event_time(state, turn, state.executions[&id].job);
    let row = state.executions.get_mut(&id).expect("observations are about live executions");
    let previous = row.compute;
    assert!(previous <= new, "execution {id} would go back from {previous:?} to {new:?}");
    row.compute = new;
    row.revision += 1;
    row.modify_time = time;
    turn.out.changes.events.push(EventRow {
        seq,
        time,
        revision: row.revision,
        comment,
        subject: EventSubject::Execution { job: row.job, id, node: row.node, previous, new },
    });
    turn.out.changes.executions.insert(id, row.clone());
    let job_id = row.job;
    if let Some(job) = state.jobs.get_mut(&job_id)
        && job.row.count(previous, new, time)
    {
        turn.out.changes.jobs.insert(job_id, job.row.clone());
    }
}

/// The time that a job's event shows: the wall clock, but never earlier than the last event.
pub(crate) fn event_time(state: &mut State, turn: &Turn<'_>, id: JobId) -> Timestamp {
    let Some(job) = state.jobs.get_mut(&id) else { return turn.wall };
    job.row.last_event_time = job.row.last_event_time.max(turn.wall);
    job.row.last_event_time
}

pub(crate) fn assign(
    state: &mut State,
    turn: &mut Turn<'_>,
    id: ExecutionId,
    work: Option<WorkOrder>,
) {
    let row = &state.executions[&id];
    let change = execution::assignment(row, work);
    turn.out.effects.push(Effect::Assign { node: row.node, change });
}

pub(crate) fn tell_stop(turn: &mut Turn<'_>, row: &ExecutionRow) {
    let change = execution::assignment(row, None);
    turn.out.effects.push(Effect::Assign { node: row.node, change });
}

/// Records a placement: the job may have reached its limit, on a probed node the execution is the node's probe, and for a job whose
/// image cannot be fetched it is the job's probe.
fn note_placed(state: &mut State, job: JobId, execution: ExecutionId, id: NodeId) {
    let Some(placed) = state.jobs.get_mut(&job) else { return };
    let is_probe = placed.extras.existing().is_some_and(|extra| extra.fetch.placed(execution));
    if is_probe || placed.is_at_limit() {
        state.withdraw_from_queue(job);
    }
    holders::follow(state, job);
    let Some(node) = state.nodes.get_mut(&id) else { return };
    if !node.row.health.is_well() {
        node.row.health.placed(execution);
        state.follow_node(id);
        state.marks.reservations.push(id);
    }
}

/// Takes the offer back unless it is answered in time.
pub(crate) fn await_answer(state: &mut State, id: ExecutionId, now: Moment) {
    state.timers.set(now + OFFER_TIMEOUT, Timer::Offer(id));
}

/// Whether its slot failed repeatedly, and this run has to show that it is not the same again. The
/// executions of other jobs end anyway.
fn is_unproven(job: &LiveJob, row: &ExecutionRow) -> bool {
    !job.plan.job_type.is_finite() && row.tries.short_runs >= REPEATED_RUNS
}

/// A run that has started lasts if it does not end in time.
pub(crate) fn await_good_run(timers: &mut Timers, row: &ExecutionRow) {
    if let Some(started) = row.started_at {
        timers.set(started + GOOD_RUN, Timer::GoodRun(row.id));
    }
}

/// The execution has ended: it leaves its node and its job, which what it held is given back to.
/// Returns its last row.
pub(crate) fn release(
    state: &mut State,
    turn: &mut Turn<'_>,
    id: ExecutionId,
    was_running: bool,
) -> ExecutionRow {
    let row = *state.executions.take(&id).expect("live executions are released");
    let job_type = state.jobs.get(&row.job).map(|job| job.plan.job_type);
    if let Some(node) = state.nodes.get_mut(&row.node) {
        node.executions.remove(&id);
        node.give_back(&row.held(), job_type.is_none_or(JobType::is_finite));
        node.running -= u64::from(was_running);
        if let Some(job_type) = job_type {
            idle::vacated(node, turn, job_type);
        }
        node.reload(&mut state.queue);
        state.touched.insert(row.node);
    }
    state.note_drained(turn, row.node);
    if let Some(job) = state.jobs.get_mut(&row.job) {
        let was_at_limit = job.is_at_limit();
        job.executions.remove(&id);
        state.queue.groups.give_back(job.extras.groups(), row.job);
        state.queue.give_back(&job.plan.namespace, &row.held(), true);
        if let Some(extra) = job.extras.existing() {
            extra.unproven.remove(&id);
        }
        job.silent_execution_ended(row.node);
        // From here on, a restart can no longer read the time of the last event from this
        // execution.
        turn.out.changes.jobs.insert(row.job, job.row.clone());
        match job.is_terminal() {
            true => state.marks.ended.push(row.job),
            false => {
                state.marks.jobs.push(row.job);
                if was_at_limit {
                    gate::opened(state, row.job);
                }
            }
        }
    }
    holders::follow(state, row.job);
    state.timers.cancel(Timer::Offer(id));
    state.timers.cancel(Timer::GoodRun(id));
    row
}

/// The process of an execution has ended: of what it held, only the disk is still in use.
pub(crate) fn release_process(
    state: &mut State,
    turn: &mut Turn<'_>,
    id: ExecutionId,
    message: Text,
) {
    let Some(row) = state.executions.get_mut(&id) else { return };
    let (node_id, job_id, held) = (row.node, row.job, row.held());
    row.process_ended_at = Some(turn.now);
    row.compute_message = message;
    turn.out.changes.executions.insert(id, row.clone());
    let freed = held.minus(&row.held());
    let job = state.jobs.get(&job_id);
    let is_finite = job.is_some_and(|job| job.plan.job_type.is_finite());
    if let Some(job) = job {
        state.queue.give_back(&job.plan.namespace, &freed, false);
    }
    holders::follow(state, job_id);
    if let Some(node) = state.nodes.get_mut(&node_id) {
        node.give_back(&freed, is_finite);
        node.reload(&mut state.queue);
        state.touched.insert(node_id);
    }
    state.marks.reservations.push(node_id);
    state.marks.nodes.push(node_id);
}

/// Its node has started the execution.
pub(crate) fn count_running(state: &mut State, node: NodeId) {
    if let Some(running) = state.nodes.get_mut(&node) {
        running.running += 1;
        state.touched.insert(node);
    }
}

/// Adds an execution that was loaded from the store.
pub(crate) fn restore(state: &mut State, row: ExecutionRow, now: Moment) -> Result<(), Orphan> {
    let Some(job) = state.jobs.get_mut(&row.job) else { return Err(Orphan::Job(row.job)) };
    let Some(node) = state.nodes.get_mut(&row.node) else { return Err(Orphan::Node(row.node)) };
    job.row.last_event_time = job.row.last_event_time.max(row.modify_time);
    job.executions.insert(row.id);
    state.queue.groups.take(job.extras.groups(), row.job);
    state.queue.take(&job.plan.namespace, &row.held());
    node.executions.insert(row.id);
    node.take(&row.held(), job.plan.job_type.is_finite());
    node.running += u64::from(row.compute == ComputeState::BidAccepted);
    idle::restored(node, job.plan.job_type);
    if is_unproven(job, &row) {
        job.extras.to_mut().unproven.insert(row.id);
        await_good_run(&mut state.timers, &row);
    }
    if row.compute <= ComputeState::AskForBid {
        await_answer(state, row.id, now);
    }
    state.executions.put(Box::new(row));
    Ok(())
}
