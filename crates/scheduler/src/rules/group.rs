//! Concurrency groups: their limits, and what a submission needs of them.

use alloc::string::String;

use api_types::job::{JobSpec, OnConflict};

use crate::input::{Answer, Refusal};
use crate::queue::group::{Group, GroupId};
use crate::state::State;

/// The group has this limit from now on; `None` removes it, unless a live job names it.
pub(crate) fn put(
    state: &mut State,
    (namespace, name): (&str, String),
    limit: Option<u32>,
) -> Answer {
    let groups = &mut state.queue.groups;
    let jobs =
        groups.find(namespace, &name).and_then(|id| groups.get(id)).map_or(0, |it| it.jobs().len());
    if limit.is_none() && jobs > 0 {
        return Answer::Refused(Refusal::GroupInUse { name, jobs });
    }
    let id = groups.set_limit(namespace, &name, limit);
    state.marks.groups.push(id);
    Answer::Done
}

/// Why such a job cannot be submitted, if it cannot.
pub(crate) fn refuses(state: &State, spec: &JobSpec) -> Option<Refusal> {
    let groups = &state.queue.groups;
    spec.concurrency_groups.iter().find_map(|name| {
        let group = groups.find(&spec.namespace, name).and_then(|id| groups.get(id));
        match group.and_then(Group::limit) {
            None => Some(Refusal::NoSuchGroup(name.clone())),
            Some(limit) if spec.on_conflict == OnConflict::Replace && limit != 1 => {
                Some(Refusal::GroupShared { name: name.clone(), limit })
            }
            Some(_) => None,
        }
    })
}

/// A job was submitted that stops those before it in its group. None of them may start until then.
pub(crate) fn replace(state: &mut State, id: GroupId) {
    state.queue.groups.begin_replacing(id);
    state.marks.replacements.push(id);
}
