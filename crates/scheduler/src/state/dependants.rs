//! Who waits for which job, and what is known of the conditions of those that wait.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::iter;
use core::ops::Bound;

use api_types::JobId;
use api_types::dependency::Dependency;
use api_types::job::{JobStateType, JobType};

use crate::change::NamedJob;
use crate::counterparts::Counterparts;
use crate::dependency::{Awaited, Conditions, Ended, Known, Named, Verdict, verdict};
use crate::state::job::LiveJob;
use crate::state::{State, past};
use crate::time::Moment;
use crate::turn::Turn;

/// Named jobs, while one of those that name them waits.
pub(crate) type NamedJobs = BTreeMap<JobId, Named>;

// === impl LiveJob ===

impl LiveJob {
    /// Whether nothing of the job may start yet, because of other jobs or because its turn has not
    /// come.
    pub(crate) fn waits_for_others(&self) -> bool {
        self.extras.conditions.as_ref().is_some_and(|conditions| conditions.held_since.is_none())
    }

    /// The slots that wait for those of other jobs one by one.
    pub(crate) fn counterparts(&self) -> Option<&Counterparts> {
        self.extras.conditions.as_ref().and_then(|conditions| conditions.counterparts.as_ref())
    }

    /// Whether some of its slots wait for those of other jobs.
    pub(crate) fn awaits_counterparts(&self) -> bool {
        !self.is_terminal() && self.counterparts().is_some_and(|slots| slots.waiting() > 0)
    }

    /// When its timeouts begin; none while its conditions do not hold.
    pub(crate) fn began(&self) -> Option<Moment> {
        match &self.extras.conditions {
            None => Some(self.plan.rank.created),
            Some(conditions) => conditions.held_since,
        }
    }
}

// === Dependants ===

/// What became of a named job, as far as a turn can know: it is unknown if there is no answer.
pub(crate) fn look_up(
    state: &State,
    turn: &Turn<'_>,
    id: JobId,
    stored: &[NamedJob],
) -> Option<Known> {
    let over = |state: JobStateType, at: Option<Moment>| {
        let at = at.unwrap_or(turn.now);
        state.is_terminal().then_some(Ended { state: Some(state), at })
    };
    if let Some(job) = state.jobs.get(&id) {
        return Some(Known { ended: over(job.row().state, None), past: None });
    }
    let found = stored.iter().find(|named| named.id == id);
    let past = found.and_then(|found| found.past.clone());
    // It may have ended within this turn.
    if let Some(row) = turn.out.changes.jobs.get(&id) {
        let past = past::past_within(turn, row, past.as_deref());
        return Some(Known { ended: over(row.state, row.ended_at), past: Some(Arc::new(past)) });
    }
    let found = found?;
    Some(Known { ended: Some(over(found.state, found.ended_at)?), past })
}

/// The conditions as memory keeps them, with one text for each name.
pub(crate) fn conditions(state: &State, list: &[Dependency], slots: u32) -> Conditions {
    let list = list.iter().map(|Dependency { job_id, job, condition, indexes }| {
        let known = state.named.get(job_id).filter(|named| *named.name == **job);
        let name = known.map_or_else(|| Arc::from(job.as_str()), |named| Arc::clone(&named.name));
        Awaited { job: *job_id, condition: *condition, indexes: *indexes, name }
    });
    Conditions::new(list.collect(), slots)
}

/// From now on the job is told what becomes of those that it names, and of which this is known.
pub(crate) fn enter(
    state: &mut State,
    id: JobId,
    list: &[Awaited],
    known: impl IntoIterator<Item = Known>,
) {
    for (awaited, Known { ended, past }) in list.iter().zip(known) {
        let new = || Named { name: Arc::clone(&awaited.name), ..Named::default() };
        let named = state.named.entry(awaited.job).or_insert_with(new);
        named.ended = named.ended.or(ended);
        named.dependants.insert(id);
        if !awaited.indexes.is_all() {
            named.matched.insert(id);
            named.past = named.past.take().or(past);
        }
    }
}

/// The job waits for no other any more.
pub(crate) fn leave(state: &mut State, id: JobId) {
    let Some(conditions) = state.jobs.get(&id).and_then(|job| job.extras.conditions.as_ref())
    else {
        return;
    };
    for Awaited { job: other, .. } in &conditions.list {
        let Some(named) = state.named.get_mut(other) else { continue };
        named.dependants.remove(&id);
        named.matched.remove(&id);
        if named.dependants.is_empty() {
            state.named.remove(other);
        }
    }
}

/// The same if it has begun and none of its slots waits for those of others.
pub(crate) fn leave_if_decided(state: &mut State, id: JobId) {
    let is_decided = |job: &LiveJob| {
        let waits = job.waits_for_others() || job.awaits_counterparts();
        !job.is_terminal() && !waits
    };
    if state.jobs.get(&id).is_some_and(is_decided) {
        leave(state, id);
    }
}

/// What is known of the conditions of a job that waits for others.
pub(crate) fn verdict_of(state: &State, job: &LiveJob) -> Verdict {
    let list = job.extras.conditions.as_ref().map_or(&[][..], |conditions| &conditions.list);
    verdict(list, |id| ended(state, id))
}

/// What became of a named job; none while it goes on.
pub(crate) fn ended(state: &State, id: JobId) -> Option<Ended> {
    state.named.get(&id).and_then(|named| named.ended)
}

/// A job is over: those that wait for it are told with the next ticks.
pub(crate) fn has_ended(state: &mut State, id: JobId, to: JobStateType, at: Moment) {
    if let Some(named) = state.named.get_mut(&id) {
        named.ended = Some(Ended { state: Some(to), at });
        state.marks.named.push(id);
    }
}

/// A job that has ended is removed from memory: what became of its slots stays, if some wait for them.
pub(crate) fn keep_past(state: &mut State, job: &LiveJob) {
    if let Some(named) = state.named.get_mut(&job.row().id).filter(|it| !it.matched.is_empty()) {
        named.past = Some(Arc::new(past::past_of(job)));
    }
}

/// The next job that waits for this one, in the order of their IDs.
pub(crate) fn next_dependant(state: &State, named: JobId, after: Option<JobId>) -> Option<JobId> {
    let after = after.map_or(Bound::Unbounded, Bound::Excluded);
    state.named.get(&named)?.dependants.range((after, Bound::Unbounded)).next().copied()
}

// === Restore ===

/// A job with conditions was loaded from the store; the jobs that they name follow.
pub(crate) fn restore_job(
    state: &mut State,
    job: &mut LiveJob,
    depends_on: &[Dependency],
    began_at: Option<Moment>,
) {
    let mut conditions = conditions(state, depends_on, job.row().slots.len());
    conditions.held_since = began_at;
    if !job.is_terminal() {
        enter(state, job.row().id, &conditions.list, iter::repeat_with(Known::default));
    }
    job.extras.to_mut().conditions = Some(Box::new(conditions));
}

/// Derives whose conditions hold, once all jobs are loaded, with those that are over.
pub(crate) fn restore(state: &mut State, stored: Vec<NamedJob>, now: Moment) {
    let mut stored: BTreeMap<_, _> = stored.into_iter().map(|named| (named.id, named)).collect();
    for (id, named) in &mut state.named {
        named.past = stored.get_mut(id).and_then(|stored| stored.past.take());
        let found = match (state.jobs.get(id), stored.get(id)) {
            (Some(job), _) => Some((job.row().state, None)),
            (None, Some(stored)) => Some((stored.state, stored.ended_at)),
            (None, None) => None,
        };
        named.ended = match found {
            Some((state, _)) if !state.is_terminal() => None,
            Some((state, at)) => Some(Ended { state: Some(state), at: at.unwrap_or(now) }),
            None => Some(Ended { state: None, at: now }),
        };
    }
    let waiting = state.jobs.values().filter(|job| !job.is_terminal() && job.waits_for_others());
    let held: Vec<_> = waiting
        .filter(|job| job.counterparts().is_none())
        .filter_map(|job| match verdict_of(state, job) {
            Verdict::Holds(at) => Some((job.row().id, at.max(job.plan.rank.created))),
            Verdict::Open | Verdict::Never(..) => None,
        })
        .collect();
    for (id, since) in held {
        leave(state, id);
        hold(state, id, since);
        if state.jobs[&id].plan.job_type == JobType::Daemon {
            state.daemons.insert(id);
        }
    }
}

/// The conditions of the job hold since this moment.
pub(crate) fn hold(state: &mut State, id: JobId, since: Moment) {
    let Some(job) = state.jobs.get_mut(&id) else { return };
    if let Some(conditions) = &mut job.extras.to_mut().conditions {
        conditions.held_since = Some(since);
    }
}

/// Jobs that may begin and have no slot yet, because each slot belongs to a node, and jobs that wait
/// and do not say so yet.
pub(crate) fn not_reviewed(state: &State) -> Vec<JobId> {
    let is_left = |job: &&LiveJob| match job.waits_for_others() {
        true => !job.is_terminal() && job.row().state != JobStateType::Queued,
        false => {
            let lacks_slots = job.plan.is_per_node() && job.row().slots.is_empty();
            lacks_slots && job.class().is_some() && job.plan.job_type.is_finite()
        }
    };
    state.jobs.values().filter(is_left).map(|job| job.row().id).collect()
}
