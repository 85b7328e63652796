//! Classes that a group or a quota keeps out of the heads of their pools.

use alloc::sync::Arc;

use crate::marks::Opened;
use crate::queue::Queue;
use crate::queue::group::{Entry, GroupId};
use crate::rank::{ClassId, Rank};

/// What holds an entry back, or would.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Holder {
    /// A group that is full.
    Group(GroupId),
    /// The quota of its namespace, of which not enough is left.
    Quota,
}

// === impl Queue: classes that are held ===

impl Queue {
    /// The class is kept out of the heads of its pool from now on.
    pub(crate) fn hold(&mut self, id: ClassId, by: Holder) {
        let class = self.class_mut(id);
        let Some(rank) = class.waiting.first().copied() else { return };
        // Nodes that gain room from now on are not offered to it.
        class.annotated = core::mem::take(&mut class.blocked) || class.annotated;
        class.restored = false;
        match by {
            Holder::Group(group) => self.groups.hold(Entry::Class(id), rank, group),
            Holder::Quota => self.quotas.hold(Entry::Class(id)),
        }
        self.head_changed(id);
    }

    /// No group keeps the class out of the heads of its pool.
    pub(crate) fn open_to_groups(&mut self, id: ClassId) -> Opened {
        self.groups.open(Entry::Class(id));
        self.opened(id)
    }

    /// The quota does not keep the class out of the heads of its pool.
    pub(crate) fn open_to_quota(&mut self, id: ClassId) -> Opened {
        self.quotas.open(Entry::Class(id));
        self.opened(id)
    }

    fn opened(&mut self, id: ClassId) -> Opened {
        self.head_changed(id);
        let class = self.class(id);
        let (groups, namespace) = (Arc::clone(&class.groups), Arc::clone(&class.namespace));
        Opened { class: id, groups, namespace }
    }

    /// Whether a group or the quota keeps the class out of the heads of its pool.
    pub(crate) fn is_held(&self, id: ClassId) -> bool {
        let entry = Entry::Class(id);
        self.groups.is_held(entry) || self.quotas.is_held(entry)
    }

    /// What leaves no room for another execution of the class, wherever it would run.
    pub(crate) fn lacking(&self, id: ClassId) -> Option<Holder> {
        let class = self.class(id);
        if let Some(group) = self.groups.lacking(&class.groups) {
            return Some(Holder::Group(group));
        }
        let short = self.quotas.short(&class.namespace, &class.demand.need);
        short.map(|_| Holder::Quota)
    }

    /// The first job of the class that waits for room, not for a group or the quota.
    pub(crate) fn first_of(&self, id: ClassId) -> Option<Rank> {
        let class = self.find_class(id)?;
        class.waiting.first().copied().filter(|_| !self.is_held(id))
    }
}
