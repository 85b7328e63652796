//! Gates: what holds back slots of a job that are ready, other than a lack of room.
//!
//! A slot that a gate holds is in no queue of a class, and no node is reserved for it. Gates are
//! derived from live executions and the states of jobs, so that a restart finds them as they were.

use alloc::format;
use alloc::vec::Vec;

use api_types::gate::GateType;
use api_types::{JobId, Timestamp};

use crate::counterparts;
use crate::demand::Need;
use crate::dependency;
use crate::gate::Gate;
use crate::queue::group::{Entry, Group};
use crate::queue::quota::{Short, shortage};
use crate::state::job::LiveJob;
use crate::state::{State, dependants};
use crate::text::Text;

// === Gates ===

/// The gate that holds slots of the job now; `waits` if slots wait for room.
///
/// One that has opened counts as closed until its slots are placed or wait for room: otherwise each
/// slot that follows another would be an event of the job.
pub(crate) fn current(state: &State, job: &LiveJob, waits: bool) -> Option<GateType> {
    if job.is_terminal() {
        return None;
    }
    // While any slot waits for another one, because each that does not any more would be an event.
    if job.waits_for_others() || job.awaits_counterparts() {
        return Some(GateType::DependsOn);
    }
    if !job.has_slot_to_place() {
        return None;
    }
    if job.is_at_limit() {
        return Some(GateType::MaxRunning);
    }
    if state.queue.groups.lacking(job.extras.groups()).is_some() && !job.extras.fetch.holds() {
        return Some(GateType::ConcurrencyGroup);
    }
    if is_over_quota(state, job) && !job.extras.fetch.holds() {
        return Some(GateType::Quota);
    }
    let known = job.extras.gate.map(|gate| gate.gate_type);
    let known = known.filter(|gate| *gate != GateType::DependsOn);
    known.filter(|_| !waits && !job.extras.fetch.holds())
}

/// Records the gate that holds slots of the job from now on, or that none does.
pub(crate) fn set(state: &mut State, id: JobId, gate_type: Option<GateType>, since: Timestamp) {
    hold(state, id, gate_type);
    let Some(job) = state.jobs.get_mut(&id) else { return };
    let before = job.extras.gate.map(|gate| gate.gate_type);
    if before == gate_type {
        return;
    }
    job.extras.to_mut().gate = gate_type.map(|gate_type| Gate { gate_type, since });
    if let Some(jobs) = before.and_then(|left| state.gated.get_mut(&left)) {
        *jobs -= 1;
    }
    if let Some(entered) = gate_type {
        *state.gated.entry(entered).or_default() += 1;
    }
    let rank = job.plan.rank;
    let slots = job.extras.pending().iter();
    let pinned: Vec<_> = slots.filter_map(|slot| Some((slot.pinned?, slot.index))).collect();
    for (id, index) in pinned {
        if let Some(node) = state.nodes.get_mut(&id) {
            node.set_held((rank, index), gate_type.is_some());
        }
        // Another slot may be the first there that waits for room.
        state.marks.pinned.push(id);
    }
}

/// What a job with one slot per node says holds it must be what opens it, even if the turn that holds
/// all others of a full group has not come to it yet.
fn hold(state: &mut State, id: JobId, gate_type: Option<GateType>) {
    let Some(job) = state.jobs.get(&id).filter(|job| job.plan.is_per_node()) else { return };
    let (entry, rank) = (Entry::Job(id), job.plan.rank);
    match gate_type {
        Some(GateType::ConcurrencyGroup) if !state.queue.groups.is_held(entry) => {
            if let Some(by) = state.queue.groups.lacking(job.extras.groups()) {
                state.queue.groups.hold(entry, rank, by);
            }
        }
        Some(GateType::Quota) if quota_lacks(state, job).is_some() => {
            state.queue.quotas.hold(entry);
        }
        _ => {}
    }
}

/// An execution of a job that was at its limit has ended: another slot may be placed.
pub(crate) fn opened(state: &mut State, id: JobId) {
    let Some(job) = state.jobs.get_mut(&id) else { return };
    if job.plan.is_per_node() {
        job.extras.to_mut().is_offering = true;
        state.marks.offers.push(id);
    } else {
        state.mark_ready(id);
    }
}

/// Every node for which a slot of the job waits was asked, unless the job is at its limit again.
pub(crate) fn offered(state: &mut State, id: JobId) {
    if let Some(extra) = state.jobs.get_mut(&id).and_then(|job| job.extras.existing()) {
        extra.is_offering = false;
    }
}

/// Derives the gate of a job that was loaded from the store, with its slots and executions. When it
/// closed is not stored: a job waits for others from its submission on, and what closes later did so
/// at the earliest with the last event of the job.
pub(crate) fn restore(state: &mut State, id: JobId) {
    let Some(job) = state.jobs.get(&id) else { return };
    let gate_type = current(state, job, false);
    let since = match gate_type {
        Some(GateType::DependsOn) => job.plan.create_time,
        _ => job.row().modify_time,
    };
    set(state, id, gate_type, since);
}

/// What a job says whose slots the gate holds.
pub(crate) fn message(state: &State, job: &LiveJob, gate_type: GateType) -> Text {
    match gate_type {
        GateType::DependsOn => waits_for(state, job),
        GateType::MaxRunning => {
            let most = job.extras.max_running;
            let executions = if most == 1 { "execution runs" } else { "executions run" };
            Text::from(format!("{most} of {most} {executions}, as MaxRunning allows"))
        }
        GateType::ConcurrencyGroup => {
            let (groups, named) = (&state.queue.groups, job.extras.groups());
            let group = groups.lacking(named).or_else(|| named.first().copied());
            let name = group.map_or("", |group| groups.name(group));
            Text::from(format!("the concurrency group '{name}' allows no further execution now"))
        }
        GateType::Quota => {
            let namespace = &job.plan.namespace;
            Text::from(format!(
                "the quota of namespace '{namespace}' allows no further execution now"
            ))
        }
    }
}

/// The first of the jobs that have not ended as the conditions of this one say.
pub(crate) fn waits_for(state: &State, job: &LiveJob) -> Text {
    let list = job.extras.conditions.as_ref().map_or(&[][..], |conditions| &conditions.list);
    dependency::message(list, |id| dependants::ended(state, id))
}

/// Whether the message of the job says for which slots of others its own wait.
pub(crate) fn names_counterparts(job: &LiveJob) -> bool {
    let list = job.extras.conditions.as_ref().map_or(&[][..], |conditions| &conditions.list);
    let mut of_slots = list.iter().filter(|awaited| !awaited.indexes.is_all());
    of_slots.any(|awaited| job.row().message.starts_with(&counterparts::message(&awaited.name)))
}

/// Whether no execution of the job may be added now, whatever room there is.
pub(crate) fn lacks(state: &State, job: &LiveJob) -> bool {
    job.is_at_limit()
        || state.queue.groups.lacking(job.extras.groups()).is_some()
        || is_over_quota(state, job)
        // What is left of the quota goes to an entry of a higher rank first.
        || state.queue.quotas.is_held(Entry::Job(job.row().id))
}

/// Whether the quota of its namespace allows no further execution now.
fn is_over_quota(state: &State, job: &LiveJob) -> bool {
    let quotas = &state.queue.quotas;
    quotas.is_closing(&job.plan.namespace) || quota_lacks(state, job).is_some()
}

/// What the quota of its namespace has not enough of for another execution, and what that needs.
fn quota_lacks(state: &State, job: &LiveJob) -> Option<(Short, Need)> {
    let need = state.queue.class(job.class()?).demand.need;
    let short = state.queue.quotas.short(&job.plan.namespace, &need)?;
    Some((short, need))
}

/// What its groups and its quota say of a job at the gate now, with numbers; none if all of them have
/// room for an execution.
pub(crate) fn counted(state: &State, job: &LiveJob) -> Option<(GateType, Text)> {
    let of_groups = counted_units(state, job).map(|text| (GateType::ConcurrencyGroup, text));
    of_groups.or_else(|| {
        let (short, need) = quota_lacks(state, job)?;
        Some((
            GateType::Quota,
            shortage::text(&state.queue.quotas, &job.plan.namespace, short, &need),
        ))
    })
}

fn counted_units(state: &State, job: &LiveJob) -> Option<Text> {
    let groups = &state.queue.groups;
    let id = groups.lacking(job.extras.groups())?;
    let (name, group) = (groups.name(id), groups.get(id));
    let units = group.map_or(0, Group::units);
    Some(Text::from(match group.and_then(Group::limit) {
        None => format!("the concurrency group '{name}' does not exist any more; create it again"),
        Some(0) => format!("the concurrency group '{name}' is paused: its limit is 0"),
        Some(_) if group.is_some_and(Group::is_replacing) => {
            format!(
                "jobs of the concurrency group '{name}' are stopped, which a newer one replaces"
            )
        }
        Some(most) => {
            format!("{units} of {most} executions of the concurrency group '{name}' are live")
        }
    }))
}

/// Whether a gate holds the slots of the job.
pub(crate) fn is_held(state: &State, id: JobId) -> bool {
    state.jobs.get(&id).is_some_and(|job| job.extras.gate.is_some())
}
