//! Quotas: what a namespace may hold, and whether it may queue more.

use alloc::string::String;

use api_types::job::JobType;

use crate::input::{Answer, Refusal, Submit};
use crate::plan::JobPlan;
use crate::queue::quota::Entitlement;
use crate::rerun::Rerun;
use crate::state::State;
use crate::state::node::LiveNode;

/// The namespace is entitled to this from now on. A lower quota or weight stops nothing.
pub(crate) fn entitle(state: &mut State, namespace: &str, to: Entitlement) -> Answer {
    state.queue.entitle(namespace, to);
    state.marks.quotas.push(namespace.into());
    Answer::Done
}

/// Why the namespace cannot queue all of these jobs, if it cannot.
pub(crate) fn refuses<'a>(
    state: &State,
    namespace: &str,
    jobs: impl IntoIterator<Item = &'a Submit>,
) -> Option<Refusal> {
    let most = state.queue.quotas.quota(namespace).queued?;
    let slots_of = |submit: &Submit| {
        let plan = JobPlan::from_spec(&submit.spec);
        let plan = plan.expect("validation lets only readable demands through");
        slots_of(state, &plan, submit.spec.count, submit.rerun.as_deref())
    };
    exceeds(state, namespace, jobs.into_iter().map(slots_of).sum(), most)
}

/// Whether the namespace could queue such a job now.
pub(crate) fn check(
    state: &State,
    plan: &JobPlan,
    count: u32,
    rerun: Option<&Rerun>,
) -> Result<(), Refusal> {
    let Some(most) = state.queue.quotas.quota(&plan.namespace).queued else { return Ok(()) };
    let refusal = exceeds(state, &plan.namespace, slots_of(state, plan, count, rerun), most);
    refusal.map_or(Ok(()), Err)
}

fn exceeds(state: &State, namespace: &str, slots: u64, most: u64) -> Option<Refusal> {
    let queued = state.queue.quotas.used(namespace).queued;
    let namespace = String::from(namespace);
    if slots > most {
        return Some(Refusal::TooManySlots { namespace, slots, most });
    }
    let is_over = queued.saturating_add(slots) > most;
    is_over.then_some(Refusal::QuotaExceeded { namespace, slots, queued, most })
}

/// How many slots the job begins with.
fn slots_of(state: &State, plan: &JobPlan, count: u32, rerun: Option<&Rerun>) -> u64 {
    if let Some(rerun) = rerun {
        return u64::from(rerun.slots.len());
    }
    match plan.job_type {
        JobType::Batch | JobType::Service => u64::from(count),
        JobType::Ops | JobType::Daemon => {
            let covers =
                |node: &&LiveNode| node.is_in_service() && node.unfit(&plan.demand).is_none();
            state.nodes.values().filter(covers).count() as u64
        }
    }
}
