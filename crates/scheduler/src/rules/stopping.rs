//! Executions that are no longer wanted: of a job that is over, or on a node that is drained.

use alloc::format;
use core::ops::Bound;

use api_types::execution::DesiredState;
use api_types::{ExecutionId, JobId, NodeId};

use crate::budget::Walk;
use crate::end::End;
use crate::rules::ending;
use crate::state::{State, executions};
use crate::text;
use crate::text::Text;
use crate::turn::Turn;

const DRAINED: &str = "its node is drained";

/// Decides that an execution must stop; its node reports when it has ended.
pub(crate) fn stop_execution(state: &mut State, turn: &mut Turn<'_>, id: ExecutionId, why: &Text) {
    let wanted = state.executions.get(&id).is_some_and(|row| row.desired != DesiredState::Stopped);
    if wanted {
        executions::decide(state, turn, id, DesiredState::Stopped, why.clone());
        let node = state.executions.get(&id).and_then(|row| state.nodes.get(&row.node));
        if node.is_some_and(|node| node.row().silent_since.is_some()) {
            // A silent node cannot confirm the stop, so the scheduler does not wait for it.
            ending::end(state, turn, id, End::Cancelled, why.clone());
        }
    }
}

/// Asks the executions of a job that is over to stop, from the one after this on.
pub(crate) fn stop_executions(
    state: &mut State,
    turn: &mut Turn<'_>,
    id: JobId,
    mut after: Option<ExecutionId>,
) -> Walk {
    loop {
        let Some(job) = state.jobs.get(&id) else { return Walk::Done };
        let bound = after.map_or(Bound::Unbounded, Bound::Excluded);
        let next = job.executions().range((bound, Bound::Unbounded)).next().copied();
        let Some(execution) = next else { break };
        if turn.budget.is_spent() {
            return Walk::Left { after };
        }
        let why = job.row().message.clone();
        turn.budget.spend();
        stop_execution(state, turn, execution, &why);
        after = Some(execution);
    }
    state.marks.ended.push(id);
    Walk::Done
}

/// Stops what a draining node runs, so that its slots are placed elsewhere: services and daemons
/// at once, the rest at the deadline. Returns whether the turn left something over.
pub(crate) fn move_work(state: &mut State, turn: &mut Turn<'_>, id: NodeId) -> bool {
    let Some(node) = state.nodes.get(&id) else { return false };
    let Some(deadline) = node.row().drain_deadline else { return false };
    let is_late = deadline <= turn.now;
    let why = Text::from(match is_late {
        true => format!("{DRAINED}, and the deadline has passed"),
        false => text::with_reason(DRAINED, &node.row().message),
    });
    for execution in state.executions_on(id) {
        let Some(row) = state.executions.get(&execution) else { continue };
        let job = state.jobs.get(&row.job);
        let moves = job.is_some_and(|job| is_late || !job.plan.job_type.is_finite());
        if !moves || row.desired == DesiredState::Stopped {
            continue;
        }
        if turn.budget.is_spent() {
            return true;
        }
        turn.budget.spend();
        stop_execution(state, turn, execution, &why);
    }
    false
}
