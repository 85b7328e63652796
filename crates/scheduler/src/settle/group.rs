//! Concurrency groups that have a unit or have none: who of those that wait may look for room.

use alloc::sync::Arc;

use api_types::JobId;
use api_types::job::JobStateType;

use crate::marks::Opened;
use crate::queue::group::{Entry, GroupId};
use crate::queue::search::Holder;
use crate::rank::{ClassId, Rank};
use crate::rules::job_end;
use crate::settle::leftover::Settle;
use crate::settle::{notice, placement};
use crate::state::{State, gate};
use crate::text::Text;
use crate::turn::Turn;

const REPLACED: &str = "replaced by a newer job of its concurrency group";

// === Groups ===

/// Opens the first entry that the group holds and that lacks no other unit, or, where the group is
/// full, holds those that are open.
///
/// An entry that was opened looks for room before the next one is opened.
pub(crate) fn follow(settle: &mut Settle, state: &mut State, turn: &mut Turn<'_>, id: GroupId) {
    settle.backlog.groups.remove(&id);
    while let Some(group) = state.queue.groups.get(id).filter(|group| group.has_to_change()) {
        if turn.budget.is_spent() {
            settle.backlog.groups.insert(id);
            state.queue.groups.begin_closing(id);
            return;
        }
        turn.budget.spend();
        if group.is_full() {
            let Some(entry) = group.first_open() else { return };
            hold(settle, state, entry, id);
            continue;
        }
        let Some((rank, entry)) = group.first_held() else { return };
        let groups = state.queue.groups.groups_of(entry);
        let other = groups.and_then(|groups| state.queue.groups.lacking(groups));
        match (entry, other) {
            (_, Some(other)) => state.queue.groups.hold(entry, rank, other),
            (Entry::Class(class), None) => {
                let opened = state.queue.open_to_groups(class);
                state.marks.opened.push(opened);
                return;
            }
            (Entry::Job(job), None) => {
                state.queue.groups.open(entry);
                gate::opened(state, job);
                return;
            }
        }
    }
}

fn hold(settle: &mut Settle, state: &mut State, entry: Entry, by: GroupId) {
    match entry {
        Entry::Class(class) => hold_class(settle, state, class, Holder::Group(by)),
        Entry::Job(id) => {
            let Some(rank) = state.jobs.get(&id).map(|job| job.plan.rank) else { return };
            state.queue.groups.hold(entry, rank, by);
            state.marks.jobs.push(id);
        }
    }
}

/// Takes a class out of the heads of its pool. What its jobs say of that stays as it is: otherwise
/// each unit that is taken or returned would be an event of all of them.
pub(crate) fn hold_class(settle: &mut Settle, state: &mut State, class: ClassId, by: Holder) {
    let refreshes = settle.backlog.refreshes.remove(&class).is_some();
    state.queue.hold(class, by);
    state.queue.class_mut(class).annotated &= !refreshes;
}

/// A class that was opened looks for room.
pub(crate) fn place_opened(
    settle: &mut Settle,
    state: &mut State,
    turn: &mut Turn<'_>,
    Opened { class: id, groups, namespace }: Opened,
) {
    let class = state.queue.find_class(id).filter(|class| !class.postponed && !class.blocked);
    let first = class.and_then(|class| class.waiting.first().copied());
    if let Some(rank) = first.filter(|_| !state.queue.is_held(id)) {
        match placement::backlog_precedes(settle, state, rank, id) {
            true => state.queue.postpone(id),
            false => placement::place_class(settle, state, turn, id),
        }
    }
    for group in &*groups {
        state.marks.groups.push(*group);
    }
    state.marks.quotas.push(namespace);
}

/// A class lacks a unit, or its quota does not suffice: it is held, and its jobs say so unless they do
/// already.
pub(crate) fn hold_waiting(
    settle: &mut Settle,
    state: &mut State,
    turn: &mut Turn<'_>,
    id: ClassId,
    by: Holder,
) {
    hold_class(settle, state, id, by);
    if core::mem::take(&mut state.queue.class_mut(id).unsaid) {
        notice::refresh_waiting(settle, state, turn, id, None);
    }
}

/// A quota holds a class from its first job on. If one of its groups is full, that holds it as well:
/// otherwise it would count as open there until a unit is taken or returned.
pub(crate) fn hold_if_full(settle: &mut Settle, state: &mut State, id: ClassId) {
    let groups = &state.queue.groups;
    let full = groups.lacking(&state.queue.class(id).groups);
    if let Some(by) = full.filter(|_| !groups.is_held(Entry::Class(id))) {
        hold_class(settle, state, id, Holder::Group(by));
    }
}

/// A search for work came upon a class that it may not place: it is held until its turn comes.
pub(crate) fn hold_refused(
    settle: &mut Settle,
    state: &mut State,
    turn: &mut Turn<'_>,
    id: ClassId,
    by: Holder,
) {
    let namespace = Arc::clone(&state.queue.class(id).namespace);
    hold_waiting(settle, state, turn, id, by);
    state.marks.quotas.push(namespace);
}

/// Whether the quota holds an entry that comes before this job of the class and fits. The class is
/// then held as well, until its turn comes.
pub(crate) fn quota_precedes(
    settle: &mut Settle,
    state: &mut State,
    id: ClassId,
    rank: Rank,
) -> bool {
    let namespace = Arc::clone(&state.queue.class(id).namespace);
    let precedes = state.queue.quotas.precedes(&namespace, rank);
    if precedes {
        hold_class(settle, state, id, Holder::Quota);
        state.marks.quotas.push(namespace);
    }
    precedes
}

/// Stops the jobs that came before the newest one that replaces them.
pub(crate) fn replace(settle: &mut Settle, state: &mut State, turn: &mut Turn<'_>, id: GroupId) {
    let mut after = settle.backlog.replacements.remove(&id).unwrap_or_default();
    while let Some((number, job)) = state.queue.groups.next_replaced(id, after) {
        if turn.budget.is_spent() {
            settle.backlog.replacements.insert(id, after);
            return;
        }
        turn.budget.spend();
        end_replaced(state, turn, job);
        after = number;
    }
    state.marks.groups.push(id);
}

fn end_replaced(state: &mut State, turn: &mut Turn<'_>, job: JobId) {
    if state.jobs.get(&job).is_some_and(|job| !job.is_terminal()) {
        job_end::end_job(state, turn, job, JobStateType::Stopped, Text::Constant(REPLACED));
    }
}
