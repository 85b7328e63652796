//! The part of a job's state that most jobs never need; it is allocated on first use.
//!
//! A million jobs that wait for room have none of it, and it is as large as the rest of a job.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use core::ops::Deref;

use api_types::{ExecutionId, NodeId};

use crate::dependency::Conditions;
use crate::fetch::FetchTrouble;
use crate::gate::Gate;
use crate::notice::{Notice, SilentNode};
use crate::outcomes::Outcomes;
use crate::queue::group::GroupId;
use crate::rank::ClassId;
use crate::state::pending::PendingSlots;
use crate::streak::Streak;
use crate::text::Text;

/// Reads as [`Extra::NONE`] until something is recorded.
#[derive(Default)]
pub(crate) struct Extras(Option<Box<Extra>>);

pub(crate) struct Extra {
    /// Slots that were tried before and wait for room or for the end of a delay.
    pub(super) pending: PendingSlots,
    /// Of these, the slots that any node of the pool may run now.
    pub(super) ready: BTreeSet<u32>,
    /// Of these, the slots that exclude some nodes, by the class in which they wait.
    pub(super) secondary: BTreeMap<ClassId, BTreeSet<u32>>,
    /// Whether the job's image or inputs could be fetched.
    pub(crate) fetch: FetchTrouble,
    /// The latest failure that is being retried, as a message.
    pub(crate) retry: Option<Text>,
    /// The same failure while the next run has to show that it lasts.
    pub(crate) trial: Option<Text>,
    /// Executions of services and daemons whose slots failed repeatedly, until they have run for a
    /// while.
    pub(crate) unproven: BTreeSet<ExecutionId>,
    /// How often the executions of the job failed like that in a row.
    pub(crate) streak: Streak,
    /// The silent nodes that hold executions of the job.
    pub(crate) silent: BTreeMap<NodeId, SilentNode>,
    /// The notice from which its message was last built.
    pub(crate) shown: Notice,
    /// Executions that may be live at the same time; 0 for no limit.
    pub(super) max_running: u32,
    /// The concurrency groups of the job, in order, and its number among the jobs of groups.
    pub(super) groups: Option<(Arc<[GroupId]>, u64)>,
    /// The gate that holds slots of the job, as its message and history say.
    pub(super) gate: Option<Gate>,
    /// A slot that a gate held may be placed, and not every node that one waits for was asked yet.
    pub(super) is_offering: bool,
    /// What has to become of other jobs before anything of the job starts.
    pub(crate) conditions: Option<Box<Conditions>>,
    /// For jobs with one slot per node: the nodes that have one.
    pub(super) covered: BTreeMap<NodeId, u32>,
    /// The number of slots that executions are told, unless it is that of the job's own.
    pub(super) told_count: u32,
    /// How many slots may fail before the job does; -1 for any number.
    pub(crate) max_failed: i32,
    /// Of a job with several slots: what became of those that have ended.
    pub(crate) outcomes: Outcomes,
    /// Why the first slot failed, if the job went on.
    pub(crate) first_failure: Option<Text>,
}

// === impl Extras ===

impl Deref for Extras {
    type Target = Extra;

    fn deref(&self) -> &Extra {
        static NONE: Extra = Extra::NONE;
        self.0.as_deref().unwrap_or(&NONE)
    }
}

impl Extras {
    pub(crate) fn to_mut(&mut self) -> &mut Extra {
        self.0.get_or_insert_with(|| Box::new(Extra::NONE))
    }

    /// For changes to what was recorded before, if anything was.
    pub(crate) fn existing(&mut self) -> Option<&mut Extra> {
        self.0.as_deref_mut()
    }

    /// Removes the slots that wait, and the secondary classes in which some of them wait.
    pub(crate) fn take_slots(&mut self) -> (PendingSlots, BTreeMap<ClassId, BTreeSet<u32>>) {
        let Some(extra) = self.existing() else { return (PendingSlots::NONE, BTreeMap::new()) };
        extra.ready.clear();
        let pending = core::mem::replace(&mut extra.pending, PendingSlots::NONE);
        (pending, core::mem::take(&mut extra.secondary))
    }
}

// === impl Extra ===

impl Extra {
    pub(crate) fn pending(&self) -> &PendingSlots {
        &self.pending
    }

    pub(crate) fn ready(&self) -> &BTreeSet<u32> {
        &self.ready
    }

    pub(crate) fn secondary(&self) -> &BTreeMap<ClassId, BTreeSet<u32>> {
        &self.secondary
    }

    pub(crate) fn max_running(&self) -> u32 {
        self.max_running
    }

    /// The concurrency groups of the job.
    pub(crate) fn groups(&self) -> &[GroupId] {
        self.groups.as_ref().map_or(&[], |(groups, _)| groups)
    }

    pub(crate) fn gate(&self) -> Option<Gate> {
        self.gate
    }

    pub(crate) fn is_offering(&self) -> bool {
        self.is_offering
    }

    const NONE: Self = Self {
        pending: PendingSlots::NONE,
        ready: BTreeSet::new(),
        secondary: BTreeMap::new(),
        fetch: FetchTrouble::NONE,
        retry: None,
        trial: None,
        unproven: BTreeSet::new(),
        streak: Streak::NONE,
        silent: BTreeMap::new(),
        shown: Notice::NONE,
        max_running: 0,
        groups: None,
        gate: None,
        is_offering: false,
        conditions: None,
        covered: BTreeMap::new(),
        told_count: 0,
        max_failed: 0,
        outcomes: Outcomes::NONE,
        first_failure: None,
    };
}
