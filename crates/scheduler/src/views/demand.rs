//! What waits for room, class by class, for programs that add nodes.
//!
//! For one caller at a time. It visits every class in which a job waits, and of their jobs no more
//! than [`COUNTED`], or one of each class that is listed. Slots of ops and daemon jobs are not in it:
//! each waits for a certain node.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use crate::demand::Want;
use crate::queue::class::Class;
use crate::rank::{ClassId, Rank};
use crate::state::State;
use crate::state::job::LiveJob;

/// Jobs whose slots are counted; each of the others counts as one slot. About a millisecond.
const COUNTED: usize = 10_000;

/// What waits for room in some namespaces.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClusterDemand {
    /// In the order in which the scheduler considers them.
    pub classes: Vec<WaitingClass>,
    /// More classes wait than are listed.
    pub more: bool,
}

/// Jobs of one namespace that wait for the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitingClass {
    pub want: Want,
    /// The highest of these jobs.
    pub priority: u32,
    pub jobs: u64,
    /// At least one of each job.
    pub slots: u64,
    /// There are more slots, which were not counted.
    pub more_slots: bool,
    /// The longest time for which one of the counted jobs has waited without interruption.
    pub waited: Duration,
    /// Why the first of these jobs waits, as far as it is known yet.
    pub explanation: Option<Arc<str>>,
}

/// What was counted of one class, and of those with the same demand that exclude nodes.
struct Counts {
    jobs: u64,
    slots: u64,
    more_slots: bool,
    waited: Duration,
}

// === Demand ===

/// What waits in the namespaces that the caller sees, in at most this many classes.
pub(crate) fn demand(state: &State, limit: usize, sees: impl Fn(&str) -> bool) -> ClusterDemand {
    let mut found: BTreeMap<ClassId, Rank> = BTreeMap::new();
    let mut excluding: BTreeMap<ClassId, Vec<ClassId>> = BTreeMap::new();
    let waiting = state.queue.waiting_classes().filter(|(id, _)| !state.queue.is_held(*id));
    for (id, class) in waiting.filter(|(_, class)| sees(&class.namespace)) {
        let Some(head) = class.waiting.first().copied() else { continue };
        let main = main_of(state, id, class);
        if main != id {
            excluding.entry(main).or_default().push(id);
        }
        found.entry(main).and_modify(|best| *best = head.min(*best)).or_insert(head);
    }
    let more = found.len() > limit;
    let mut heads: Vec<_> = found.into_iter().map(|(id, head)| (head, id)).collect();
    heads.sort_unstable();
    heads.truncate(limit);
    let mut left = COUNTED;
    let classes = heads.into_iter().map(|(head, id)| {
        let others = excluding.remove(&id).unwrap_or_default();
        waiting_class(state, (head, id), &others, &mut left)
    });
    ClusterDemand { classes: classes.collect(), more }
}

/// The class of the same demand that excludes no node: it lives as long as a job of either.
fn main_of(state: &State, id: ClassId, class: &Class) -> ClassId {
    match class.excluded.is_empty() {
        true => id,
        false => state.queue.main_of(class).unwrap_or(id),
    }
}

fn waiting_class(
    state: &State,
    (head, id): (Rank, ClassId),
    excluding: &[ClassId],
    left: &mut usize,
) -> WaitingClass {
    let class = state.queue.class(id);
    let mut counts = Counts { jobs: 0, slots: 0, more_slots: false, waited: Duration::ZERO };
    counts.add(state, id, left, |_| true);
    for other in excluding {
        // A job may wait in both.
        counts.add(state, *other, left, |rank| !class.waiting.contains(rank));
    }
    let Counts { jobs, slots, more_slots, waited } = counts;
    WaitingClass {
        want: class.want(),
        priority: head.priority.0,
        jobs,
        slots,
        more_slots,
        waited,
        explanation: class.explanation.clone(),
    }
}

/// Slots of the job that wait in this class.
fn slots_in(job: &LiveJob, id: ClassId) -> u64 {
    if job.class() != Some(id) {
        return job.extras.secondary().get(&id).map_or(0, |slots| slots.len() as u64);
    }
    let untried = if job.next_fresh().is_some() { job.fresh_slots() } else { 0 };
    u64::from(untried) + job.extras.ready().len() as u64
}

// === impl Counts ===

impl Counts {
    /// Adds what waits in a class, and counts the jobs that are new.
    fn add(
        &mut self,
        state: &State,
        id: ClassId,
        left: &mut usize,
        is_new: impl Fn(&Rank) -> bool,
    ) {
        let waiting = &state.queue.class(id).waiting;
        let counted = waiting.len().min((*left).max(1));
        *left = left.saturating_sub(counted);
        for rank in waiting.iter().take(counted) {
            self.jobs += u64::from(is_new(rank));
            let Some(job) = state.jobs.get(&rank.job) else { continue };
            self.slots += slots_in(job, id);
            let since = job.row().waiting_since.unwrap_or(rank.created);
            self.waited = self.waited.max(state.clock.since(since));
        }
        let rest = (waiting.len() - counted) as u64;
        self.jobs += rest;
        self.slots += rest;
        self.more_slots |= rest > 0;
    }
}
