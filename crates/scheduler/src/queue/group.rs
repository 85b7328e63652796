//! Concurrency groups: how many executions of the jobs that name one are live, and who waits for it.
//!
//! An execution has a unit of each group of its job from its offer to its end. Who waits for room in
//! a group is an *entry*: a class of jobs, or a job with one slot per node. An entry is *held* by one
//! group that is full and then in no pool's heads, or *open*. A group that fills up holds its open
//! entries, and one that has a unit opens its entries one by one, the first in rank first; so neither
//! visits a job. Units are counted from live executions, so that a restart finds them as they were.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use api_types::JobId;

use crate::rank::{ClassId, Rank};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct GroupId(u32);

/// Who waits for room and needs a unit of each of its groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Entry {
    /// The jobs of a class.
    Class(ClassId),
    /// The slots of a job that has one on each node.
    Job(JobId),
}

#[derive(Debug, Default)]
pub(crate) struct Group {
    /// `None` where no such group is known any more: nothing of it is placed.
    limit: Option<u32>,
    /// Live jobs that name it, in the order of their submissions.
    jobs: BTreeMap<u64, JobId>,
    /// Units that executions have, by job.
    holders: BTreeMap<JobId, u32>,
    units: u32,
    /// The newest job that stops all that came before it.
    replacer: Option<u64>,
    /// Some of them are not stopped yet, and none may start.
    is_replacing: bool,
    /// It was full, and not all of its entries are held yet: until then it gives no unit, because an
    /// open entry that was passed over would not be offered it.
    is_closing: bool,
    /// Those that it holds.
    held: BTreeSet<(Rank, Entry)>,
    /// Those that no group holds.
    open: BTreeSet<Entry>,
    /// All of its entries, whatever holds them.
    entries: BTreeSet<Entry>,
}

/// Namespace and name.
type Name = (String, String);

impl Default for Entry {
    fn default() -> Self {
        Self::Class(ClassId::default())
    }
}

/// All groups that have a record or are named by a live job.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    groups: BTreeMap<GroupId, Group>,
    ids: BTreeMap<Name, GroupId>,
    names: BTreeMap<GroupId, Name>,
    waiting: BTreeMap<Entry, Place>,
    last_id: u32,
    last_job: u64,
}

/// Where an entry is: its groups, and the one that holds it.
#[derive(Debug, Clone)]
struct Place {
    groups: Arc<[GroupId]>,
    held: Option<(GroupId, Rank)>,
}

// === impl Groups: records ===

impl Groups {
    /// Its limit from now on; `None` if it is removed.
    pub(crate) fn set_limit(&mut self, namespace: &str, name: &str, limit: Option<u32>) -> GroupId {
        let id = self.id_of(namespace, name);
        self.groups.entry(id).or_default().limit = limit;
        self.drop_unused(id);
        id
    }

    pub(crate) fn find(&self, namespace: &str, name: &str) -> Option<GroupId> {
        self.ids.get(&(namespace.into(), name.into())).copied()
    }

    pub(crate) fn get(&self, id: GroupId) -> Option<&Group> {
        self.groups.get(&id)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (GroupId, &Group)> {
        self.groups.iter().map(|(id, group)| (*id, group))
    }

    pub(crate) fn name(&self, id: GroupId) -> &str {
        self.names.get(&id).map_or("", |(_, name)| name)
    }

    fn id_of(&mut self, namespace: &str, name: &str) -> GroupId {
        if let Some(id) = self.find(namespace, name) {
            return id;
        }
        let mut id = GroupId(self.last_id);
        while self.names.contains_key(&id) {
            id = GroupId(id.0.wrapping_add(1));
        }
        self.last_id = id.0.wrapping_add(1);
        let name = (String::from(namespace), String::from(name));
        self.ids.insert(name.clone(), id);
        self.names.insert(id, name);
        id
    }

    fn drop_unused(&mut self, id: GroupId) {
        let unused = |group: &Group| group.limit.is_none() && group.jobs.is_empty();
        if self.groups.get(&id).is_none_or(unused) {
            self.groups.remove(&id);
            if let Some(name) = self.names.remove(&id) {
                self.ids.remove(&name);
            }
        }
    }
}

// === impl Groups: jobs and their units ===

impl Groups {
    /// Adds a job that names these groups; returns them, and its number among all jobs of groups.
    pub(crate) fn add_job(
        &mut self,
        namespace: &str,
        names: &[String],
        job: JobId,
        replaces: bool,
    ) -> (Arc<[GroupId]>, u64) {
        let ids: BTreeSet<_> = names.iter().map(|name| self.id_of(namespace, name)).collect();
        self.last_job += 1;
        for id in &ids {
            let group = self.groups.entry(*id).or_default();
            group.jobs.insert(self.last_job, job);
            if replaces {
                group.replacer = Some(self.last_job);
            }
        }
        (ids.into_iter().collect(), self.last_job)
    }

    /// The job is gone.
    pub(crate) fn remove_job(&mut self, ids: &[GroupId], number: u64) {
        for id in ids {
            if let Some(group) = self.groups.get_mut(id) {
                group.jobs.remove(&number);
            }
            self.drop_unused(*id);
        }
    }

    /// The first of these groups that has no unit to give.
    pub(crate) fn lacking(&self, ids: &[GroupId]) -> Option<GroupId> {
        ids.iter().copied().find(|id| self.groups.get(id).is_none_or(Group::is_full))
    }

    /// How many executions of a job that names these groups could be placed now.
    pub(crate) fn units_left(&self, namespace: &str, names: &[String]) -> u32 {
        let left = names.iter().map(|name| {
            let group = self.find(namespace, name).and_then(|id| self.groups.get(&id));
            let free = |group: &Group| group.limit.unwrap_or_default().saturating_sub(group.units);
            group.map_or(0, free)
        });
        left.min().unwrap_or(u32::MAX)
    }

    /// An execution of the job is placed.
    pub(crate) fn take(&mut self, ids: &[GroupId], job: JobId) {
        for id in ids {
            let group = self.groups.entry(*id).or_default();
            *group.holders.entry(job).or_default() += 1;
            group.units += 1;
        }
    }

    /// An execution of the job has ended.
    pub(crate) fn give_back(&mut self, ids: &[GroupId], job: JobId) {
        for id in ids {
            let Some(group) = self.groups.get_mut(id) else { continue };
            let Some(units) = group.holders.get_mut(&job) else { continue };
            *units -= 1;
            group.units -= 1;
            if *units == 0 {
                group.holders.remove(&job);
            }
        }
    }

    /// The next job that is stopped because a newer one replaces it. Once there is none, the group has
    /// its units again.
    pub(crate) fn next_replaced(&mut self, id: GroupId, after: u64) -> Option<(u64, JobId)> {
        let group = self.groups.get_mut(&id)?;
        let newest = group.replacer?;
        let next = group.jobs.range(after + 1..newest).next().map(|(number, job)| (*number, *job));
        group.is_replacing = next.is_some();
        next
    }

    /// Those whose newest job that replaces others came after others.
    pub(crate) fn replacing(&self) -> Vec<GroupId> {
        let is_replacing = |group: &Group| {
            let newest = group.replacer.unwrap_or_default();
            group.jobs.range(..newest).next().is_some()
        };
        self.iter().filter(|(_, group)| is_replacing(group)).map(|(id, _)| id).collect()
    }

    /// Nothing of the group starts before the jobs that are replaced are stopped.
    pub(crate) fn begin_replacing(&mut self, id: GroupId) {
        if let Some(group) = self.groups.get_mut(&id) {
            group.is_replacing = true;
        }
    }
}

// === impl Groups: entries ===

impl Groups {
    /// The entry waits, and this is its first rank. It is open if it did not wait before.
    pub(crate) fn follow(&mut self, entry: Entry, rank: Rank, ids: &Arc<[GroupId]>) {
        match self.waiting.get_mut(&entry) {
            Some(Place { held: Some((by, before)), .. }) => {
                if let Some(group) = self.groups.get_mut(by) {
                    group.held.remove(&(*before, entry));
                    group.held.insert((rank, entry));
                }
                *before = rank;
            }
            Some(_) => {}
            None => {
                self.waiting.insert(entry, Place { groups: Arc::clone(ids), held: None });
                for id in &**ids {
                    let group = self.groups.entry(*id).or_default();
                    group.entries.insert(entry);
                    group.open.insert(entry);
                }
            }
        }
    }

    /// The entry does not wait any more.
    pub(crate) fn leave(&mut self, entry: Entry) {
        let Some(Place { groups, held }) = self.waiting.remove(&entry) else { return };
        for id in &*groups {
            let Some(group) = self.groups.get_mut(id) else { continue };
            group.entries.remove(&entry);
            group.close(entry);
        }
        if let Some((by, rank)) = held
            && let Some(group) = self.groups.get_mut(&by)
        {
            group.held.remove(&(rank, entry));
        }
    }

    /// The group, which is full, holds the entry from now on.
    pub(crate) fn hold(&mut self, entry: Entry, rank: Rank, by: GroupId) {
        self.open(entry);
        let Some(place) = self.waiting.get_mut(&entry) else { return };
        place.held = Some((by, rank));
        for id in &*place.groups {
            if let Some(group) = self.groups.get_mut(id) {
                group.close(entry);
            }
        }
        if let Some(group) = self.groups.get_mut(&by) {
            group.held.insert((rank, entry));
        }
    }

    /// The group is full, and there is no time now to hold all of its entries.
    pub(crate) fn begin_closing(&mut self, id: GroupId) {
        if let Some(group) = self.groups.get_mut(&id) {
            group.is_closing = group.is_full() && !group.open.is_empty();
        }
    }

    /// No group holds the entry.
    pub(crate) fn open(&mut self, entry: Entry) {
        let Some(place) = self.waiting.get_mut(&entry) else { return };
        let Some((by, rank)) = place.held.take() else { return };
        if let Some(group) = self.groups.get_mut(&by) {
            group.held.remove(&(rank, entry));
        }
        for id in &*place.groups {
            if let Some(group) = self.groups.get_mut(id) {
                group.open.insert(entry);
            }
        }
    }

    pub(crate) fn is_held(&self, entry: Entry) -> bool {
        self.waiting.get(&entry).is_some_and(|place| place.held.is_some())
    }

    /// The groups of an entry that waits.
    pub(crate) fn groups_of(&self, entry: Entry) -> Option<&Arc<[GroupId]>> {
        self.waiting.get(&entry).map(|place| &place.groups)
    }
}

// === impl Group ===

impl Group {
    /// Whether nothing of the group may be placed.
    pub(crate) fn is_full(&self) -> bool {
        self.units >= self.limit.unwrap_or_default() || self.is_replacing || self.is_closing
    }

    pub(crate) fn limit(&self) -> Option<u32> {
        self.limit
    }

    pub(crate) fn units(&self) -> u32 {
        self.units
    }

    pub(crate) fn holders(&self) -> &BTreeMap<JobId, u32> {
        &self.holders
    }

    pub(crate) fn jobs(&self) -> &BTreeMap<u64, JobId> {
        &self.jobs
    }

    pub(crate) fn entries(&self) -> &BTreeSet<Entry> {
        &self.entries
    }

    pub(crate) fn is_replacing(&self) -> bool {
        self.is_replacing
    }

    /// Whether entries are to be opened, or held.
    pub(crate) fn has_to_change(&self) -> bool {
        if self.is_full() { !self.open.is_empty() } else { !self.held.is_empty() }
    }

    pub(crate) fn first_held(&self) -> Option<(Rank, Entry)> {
        self.held.first().copied()
    }

    pub(crate) fn first_open(&self) -> Option<Entry> {
        self.open.first().copied()
    }

    fn close(&mut self, entry: Entry) {
        self.open.remove(&entry);
        self.is_closing &= !self.open.is_empty();
    }
}
