//! Jobs whose image, module or input cannot be fetched, or that name what does not exist.
//!
//! Such a job waits as a whole and is probed with one execution at a time, so that a misspelt name
//! does not occupy every node with failing fetches.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::time::Duration;

use api_types::{ExecutionId, JobId, NodeId};

use crate::change::ExecutionRow;
use crate::fetch::{FetchTrouble, Hold, Of};
use crate::rules::outcome::Extent;
use crate::rules::retry;
use crate::rules::retry::backoff;
use crate::state::State;
use crate::state::node::LiveNode;
use crate::time::Moment;
use crate::timer::Timer;
use crate::turn::Turn;

/// Nodes on which fetching must fail before the whole job waits; a single node may itself be at
/// fault.
const NODES: usize = 2;

/// The shortest delay of a job that waits for something which does not exist, whatever its policy:
/// each probe asks a node.
const LEAST_DELAY: Duration = Duration::from_secs(1);

/// How often a server says that something does not exist or is not allowed until it is believed.
const DEFINITE_ANSWERS: u32 = 2;

/// How often it is asked if there are other nodes, which have no room to ask it.
const MOST_DEFINITE_ANSWERS: u32 = 3;

/// Why such an execution is not tried again.
const DEFINITE: &str = "the answer is definite, so it is not tried again";

// === Fetching ===

/// The node of this execution could not provide its image or inputs.
pub(crate) fn fetch_failed(state: &mut State, turn: &mut Turn<'_>, failed: &ExecutionRow) {
    let id = failed.job;
    let Some(job) = state.jobs.get_mut(&id) else { return };
    let trouble = &mut job.extras.to_mut().fetch;
    trouble.nodes.insert(failed.node);
    let was_probe = trouble.is_probe(failed.id);
    let is_held = !matches!(trouble.hold, Hold::Open | Hold::ProbeWanted(Of::Tried));
    let is_first = !is_held && trouble.nodes.len() >= NODES;
    if !was_probe && !is_first {
        return;
    }
    trouble.delays = trouble.delays.saturating_add(1);
    trouble.hold = Hold::Delayed;
    let policy = job.plan.retry;
    let delay = backoff(policy.delay, policy.max_delay, trouble.delays);
    let tries = job.extras.pending().get(failed.index).map(|slot| slot.tries.clone());
    state.timers.set(turn.now + delay, Timer::FetchDelay(id));
    state.withdraw_from_queue(id);
    let Some(tries) = tries else { return };
    let next = retry::next_try(state, failed, &tries, turn.now + delay, turn.now);
    let message = retry::retry_message(state, turn, failed, next);
    if let Some(job) = state.jobs.get_mut(&id) {
        job.extras.to_mut().retry = Some(message);
    }
}

/// The node of this execution heard from a server that something does not exist or is not
/// allowed.
pub(crate) fn note_definite(state: &mut State, id: ExecutionId) {
    let Some(row) = state.executions.get(&id) else { return };
    let (key, job) = ((row.node, row.index), row.job);
    let Some(job) = state.jobs.get_mut(&job) else { return };
    if job.plan.job_type.is_finite() {
        let answers = job.extras.to_mut().fetch.definite.entry(key).or_default();
        *answers = answers.saturating_add(1);
    }
}

/// Whether what it needs is known not to exist: two tries heard so, on different nodes where
/// there are two. The slots of a batch job need the same, so each counts for all; one of an ops
/// job has its own node.
pub(crate) fn is_definite(state: &State, row: &ExecutionRow) -> bool {
    let Some(job) = state.jobs.get(&row.job) else { return false };
    let definite = &job.extras.fetch.definite;
    if !definite.contains_key(&(row.node, row.index)) {
        return false;
    }
    if job.plan.is_per_node() {
        return definite[&(row.node, row.index)] >= DEFINITE_ANSWERS;
    }
    let answers: u32 = definite.values().sum();
    let heard: BTreeSet<NodeId> = definite.keys().map(|(node, _)| *node).collect();
    let is_to_ask = |node: &NodeId| {
        !heard.contains(node) && state.nodes.get(node).is_some_and(LiveNode::takes_work)
    };
    let others = job.class().is_some_and(|class| {
        let pool = state.queue.class(class).pool;
        state.queue.nodes_of(pool).any(|node| is_to_ask(&node))
    });
    answers >= DEFINITE_ANSWERS
        && (heard.len() >= NODES || !others || answers >= MOST_DEFINITE_ANSWERS)
}

/// Gives up a slot that needs what is known not to exist. All slots of a batch job need the same.
pub(crate) fn give_up_definite(state: &mut State, turn: &mut Turn<'_>, row: &ExecutionRow) {
    let is_per_node = state.jobs.get(&row.job).is_some_and(|job| job.plan.is_per_node());
    let extent = if is_per_node { Extent::Slot } else { Extent::Job };
    retry::give_up_to(state, turn, row, DEFINITE, extent);
}

/// The job names something that does not exist, so no node can run it: it waits as a whole.
pub(crate) fn wait_for_missing(state: &mut State, turn: &mut Turn<'_>, row: ExecutionRow) {
    let id = row.job;
    let Some(job) = state.jobs.get_mut(&id) else { return };
    let (policy, trouble) = (job.plan.retry, &mut job.extras.to_mut().fetch);
    // Executions that were under way already may find the same.
    let is_first = trouble.hold != Hold::Delayed;
    if is_first {
        trouble.delays = trouble.delays.saturating_add(1);
        trouble.hold = Hold::Delayed;
    }
    let mut delay = backoff(policy.delay, policy.max_delay, trouble.delays).max(LEAST_DELAY);
    if job.plan.names_secrets {
        let namespace = &*job.plan.namespace;
        // It may have asked before it appeared, and nothing else would start it.
        if state.missing.has_appeared_since(namespace, row.offered_at) {
            delay = LEAST_DELAY;
        }
        state.missing.jobs.entry(namespace.into()).or_default().insert(id);
    }
    if is_first {
        state.timers.set(turn.now + delay, Timer::FetchDelay(id));
    }
    state.withdraw_from_queue(id);
    retry::hold_slot(state, turn, row, delay);
}

/// The jobs of the namespace that wait for something: they try again, with the next ticks.
pub(crate) fn provided(state: &mut State, namespace: &str, now: Moment) -> BTreeSet<JobId> {
    state.missing.provided(namespace, now)
}

pub(crate) fn try_provided(state: &mut State, turn: &mut Turn<'_>, id: JobId) {
    turn.budget.spend();
    let Some(job) = state.jobs.get_mut(&id) else { return };
    let Some(extra) = job.extras.existing() else { return };
    extra.fetch.delays = 0;
    let is_delayed = extra.fetch.hold == Hold::Delayed;
    // A slot that failed on its node waits for longer, whatever has appeared.
    let pinned =
        job.extras.pending().iter().filter(|slot| slot.pinned.is_some() && slot.due.is_some());
    let pinned = pinned.filter(|slot| !slot.avoids_its_node(turn.now));
    let pinned: Vec<_> = pinned.map(|slot| slot.index).collect();
    if is_delayed {
        state.timers.cancel(Timer::FetchDelay(id));
        fetch_delay_ended(state, id);
    }
    for index in pinned {
        state.timers.cancel(Timer::Retry(id, index));
        retry::retry_due(state, turn, id, index);
    }
}

/// After a restart, a job that may be waiting as a whole begins with one execution. Why its slots
/// were tried again is not stored; one that could fetch everything loses the time of one start.
pub(crate) fn restore_fetch(state: &mut State, id: JobId) {
    let Some(job) = state.jobs.get(&id) else { return };
    let live = || job.executions().iter().filter_map(|execution| state.executions.get(execution));
    if job.is_terminal() || job.plan.is_per_node() || live().any(|row| row.started_at.is_some()) {
        return;
    }
    let waiting = || job.extras.pending().iter();
    let misses = job.plan.names_secrets && waiting().next().is_some();
    let tries = waiting().map(|slot| &slot.tries).chain(live().map(|row| &row.tries));
    let avoided = tries.flat_map(|tries| &tries.exclusions.0);
    let nodes: BTreeSet<_> = avoided.map(|exclusion| exclusion.node).collect();
    let was_refused = waiting().any(|slot| slot.tries.refused_by.is_some())
        || live().any(|row| row.tries.refused_by.is_some());
    let of = if was_refused { Of::Tried } else { Of::Any };
    if nodes.len() < NODES && !misses && !was_refused {
        return;
    }
    let probe = live().next();
    let hold = probe.map_or(Hold::ProbeWanted(of), |probe| Hold::Probing(probe.id, of));
    if let Some(job) = state.jobs.get_mut(&id) {
        job.extras.to_mut().fetch = FetchTrouble { nodes, hold, ..FetchTrouble::NONE };
    }
}

pub(crate) fn fetch_delay_ended(state: &mut State, id: JobId) {
    let Some(job) = state.jobs.get_mut(&id) else { return };
    if job.extras.fetch.hold == Hold::Delayed {
        job.extras.to_mut().fetch.hold = Hold::ProbeWanted(Of::Any);
    }
    state.mark_ready(id);
    state.marks.jobs.push(id);
}

/// An execution of the job obtained its image and inputs, so the other slots may be placed.
pub(crate) fn fetch_worked(state: &mut State, id: JobId, index: u32) {
    let Some(job) = state.jobs.get_mut(&id) else { return };
    let held = job.extras.fetch.hold != Hold::Open;
    if let Some(extra) = job.extras.existing() {
        // What one node hears says nothing of another one that could fetch everything.
        let is_per_node = job.plan.is_per_node();
        let mut definite = core::mem::take(&mut extra.fetch.definite);
        definite.retain(|(_, slot), _| is_per_node && *slot != index);
        extra.fetch = FetchTrouble { definite, ..FetchTrouble::NONE };
    }
    if held {
        state.forget_missing(id);
        state.timers.cancel(Timer::FetchDelay(id));
        state.mark_ready(id);
    }
}

/// An execution of the job ended; if it was an inconclusive probe, another may be placed.
pub(crate) fn fetch_probe_ended(state: &mut State, id: JobId, execution: ExecutionId) {
    let Some(job) = state.jobs.get_mut(&id) else { return };
    if let Hold::Probing(probe, of) = job.extras.fetch.hold
        && probe == execution
    {
        job.extras.to_mut().fetch.hold = Hold::ProbeWanted(of);
        state.mark_ready(id);
    }
}
