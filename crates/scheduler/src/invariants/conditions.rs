//! Nothing starts before its conditions hold, and nothing waits for what can no longer happen.

use alloc::collections::{BTreeMap, BTreeSet};

use crate::dependency::Verdict;
use crate::scheduler::Scheduler;
use crate::state::dependants;

/// Panics when a job with open conditions runs, or when one whose conditions are decided waits for
/// no tick to say so.
pub(super) fn check(scheduler: &Scheduler) {
    let Scheduler { state, settle } = scheduler;
    let mut known = BTreeMap::new();
    for (id, job) in state.jobs.iter() {
        if job.is_terminal() || !job.waits_for_others() && !job.awaits_counterparts() {
            continue;
        }
        if job.waits_for_others() {
            assert!(job.executions().is_empty(), "job {id} runs before its conditions hold");
            assert!(
                job.extras.pending().iter().next().is_none(),
                "job {id} waits before its conditions hold"
            );
        }
        let conditions = job.extras.conditions.as_ref().expect("it waits for others");
        let mut is_reviewed = settle.backlog.begins.contains(id);
        for other in conditions.list.iter().map(|awaited| awaited.job) {
            known.entry(other).or_insert_with(BTreeSet::new).insert(*id);
            let told = settle.backlog.named.get(&other);
            is_reviewed |= told.is_some_and(|after| after.is_none_or(|after| after < *id));
        }
        let is_open = match (dependants::verdict_of(state, job), job.counterparts()) {
            (Verdict::Open, _) => true,
            (Verdict::Holds(_), Some(slots)) => {
                let begins = job.waits_for_others() && slots.ready().len() > 0;
                !begins || settle.backlog.walks.contains_key(id)
            }
            (Verdict::Holds(_), None) | (Verdict::Never(..), _) => false,
        };
        assert!(is_open || is_reviewed, "the conditions of job {id} are decided, and it waits");
    }
    let kept = state.named.iter().map(|(id, named)| (*id, named.dependants.clone()));
    assert_eq!(kept.collect::<BTreeMap<_, _>>(), known, "who waits for which job");
    for (id, named) in &state.named {
        let goes_on = state.jobs.get(id).is_some_and(|job| !job.is_terminal());
        assert_eq!(named.ended.is_none(), goes_on, "what became of job {id} is not known");
    }
}
