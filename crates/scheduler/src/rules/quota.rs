//! Quotas: what a namespace may hold, and whether it may queue more.

use alloc::string::String;

use api_types::job::JobType;

use crate::input::{Answer, Refusal, Submit};
use crate::plan::JobPlan;
use crate::queue::quota::Quota;
use crate::state::State;
use crate::state::node::LiveNode;

/// The namespace has this quota from now on. A lower one stops nothing.
pub(crate) fn put(state: &mut State, namespace: &str, quota: Quota) -> Answer {
    state.queue.quotas.set_quota(namespace, quota);
    state.marks.quotas.push(namespace.into());
    Answer::Done
}

/// Why the namespace cannot queue all of these jobs, if it cannot.
pub(crate) fn refuses<'a>(
    state: &State,
    namespace: &str,
    jobs: impl IntoIterator<Item = &'a Submit>,
) -> Option<Refusal> {
    let quotas = &state.queue.quotas;
    let most = quotas.quota(namespace).queued?;
    let slots: u64 = jobs.into_iter().map(|submit| slots_of(state, submit)).sum();
    let queued = quotas.used(namespace).queued;
    let namespace = String::from(namespace);
    if slots > most {
        return Some(Refusal::TooManySlots { namespace, slots, most });
    }
    let is_over = queued.saturating_add(slots) > most;
    is_over.then_some(Refusal::QuotaExceeded { namespace, slots, queued, most })
}

/// How many slots the job begins with.
fn slots_of(state: &State, submit: &Submit) -> u64 {
    if let Some(rerun) = &submit.rerun {
        return u64::from(rerun.slots.len());
    }
    match submit.spec.job_type {
        JobType::Batch | JobType::Service => u64::from(submit.spec.count),
        JobType::Ops | JobType::Daemon => {
            let plan = JobPlan::from_spec(&submit.spec);
            let demand = plan.expect("validation lets only readable demands through").demand;
            let covers = |node: &&LiveNode| node.is_in_service() && node.unfit(&demand).is_none();
            state.nodes.values().filter(covers).count() as u64
        }
    }
}
