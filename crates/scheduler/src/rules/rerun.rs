//! Jobs that run slots of another one again.

use alloc::borrow::ToOwned;
use alloc::string::String;

use api_types::JobId;
use api_types::job::JobType;

use crate::input::Refusal;
use crate::plan::JobPlan;
use crate::queue::nodes;
use crate::rerun::{MAX_RANGES, Rerun};
use crate::state::State;
use crate::turn::Turn;

/// Whether the job can begin. A slot of an ops job stays on its node, which may have changed.
pub(crate) fn check(state: &State, plan: &JobPlan, rerun: &Rerun) -> Result<(), Refusal> {
    check_among(state, plan, rerun, &mut 0)
}

/// The same of one of several; `before` counts the ranges of those that were checked.
pub(crate) fn check_among(
    state: &State,
    plan: &JobPlan,
    rerun: &Rerun,
    before: &mut u64,
) -> Result<(), Refusal> {
    let more = rerun.slots.scattered_ranges();
    let ranges = state.namespaces.ranges(&plan.namespace) + *before;
    *before += more;
    if more > 0 && ranges + more > MAX_RANGES {
        let namespace = plan.namespace.clone();
        return Err(Refusal::TooScattered { namespace, ranges, more });
    }
    if plan.job_type == JobType::Ops
        && let Some(index) = rerun.slots.iter().find(|index| !rerun.nodes.contains_key(index))
    {
        let (node, why) = (String::new(), "is not known");
        return Err(Refusal::SlotWithoutNode { index, node, why });
    }
    for (index, id) in &rerun.nodes {
        let node = state.nodes.get(id);
        let why = match node {
            None => "is not known any more",
            Some(node) if !nodes::suits(&plan.demand.fit, &node.row().record) => {
                "does not match the job"
            }
            Some(_) => continue,
        };
        let node = node.map_or_else(|| id.short(), |node| node.row().record.name.to_owned());
        return Err(Refusal::SlotWithoutNode { index: *index, node, why });
    }
    Ok(())
}

/// Stores which slots the job has, if its row does not list them.
pub(crate) fn record(turn: &mut Turn<'_>, id: JobId, rerun: &Rerun) {
    let chunks = rerun.chunks.chunks().map(|(number, chunk)| ((id, number), chunk.clone()));
    turn.out.changes.outcomes.extend(chunks);
}

/// Lets each slot of an ops job wait for its node.
pub(crate) fn bind(state: &mut State, turn: &mut Turn<'_>, id: JobId, rerun: &Rerun) {
    for (index, node) in &rerun.nodes {
        state.bind_slot(turn, id, *index, *node);
    }
    for node in rerun.nodes.values() {
        state.marks.nodes.push(*node);
    }
    state.marks.jobs.push(id);
}
