//! Quotas: what a namespace may hold, and whether it may queue more.

use alloc::string::String;

use api_types::job::JobType;

use crate::input::{Answer, Refusal};
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

/// Why a job of this plan and number of slots cannot be submitted, if it cannot.
pub(crate) fn refuses(state: &State, plan: &JobPlan, count: u32) -> Option<Refusal> {
    let quotas = &state.queue.quotas;
    let most = quotas.quota(&plan.namespace).queued?;
    let slots = match plan.job_type {
        JobType::Batch | JobType::Service => u64::from(count),
        JobType::Ops | JobType::Daemon => {
            let covers =
                |node: &&LiveNode| node.is_in_service() && node.unfit(&plan.demand).is_none();
            state.nodes.values().filter(covers).count() as u64
        }
    };
    let namespace = String::from(plan.namespace.as_str());
    let queued = quotas.used(&plan.namespace).queued;
    if slots > most {
        return Some(Refusal::TooManySlots { namespace, slots, most });
    }
    let is_over = queued.saturating_add(slots) > most;
    is_over.then_some(Refusal::QuotaExceeded { namespace, slots, queued, most })
}
