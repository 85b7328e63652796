//! What is known of a job whose image, module or input cannot be fetched.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};

use api_types::{ExecutionId, JobId, NodeId};

use crate::time::Moment;

/// Namespaces of which it is known when something last appeared.
const MAX_PROVIDED: usize = 10_000;

/// A job's fetch failures since one of its executions last started.
#[derive(Debug)]
pub(crate) struct FetchTrouble {
    pub(crate) nodes: BTreeSet<NodeId>,
    /// How often each node heard for each slot that something does not exist or is not allowed. Of
    /// jobs that end; the slots of others only wait.
    pub(crate) definite: BTreeMap<(NodeId, u32), u32>,
    /// How often the job as a whole has been delayed.
    pub(crate) delays: u32,
    pub(crate) hold: Hold,
}

/// Jobs that wait for something which does not exist.
#[derive(Debug, Default)]
pub(crate) struct Missing {
    /// By namespace.
    pub(crate) jobs: BTreeMap<Box<str>, BTreeSet<JobId>>,
    /// By namespace, when something last appeared.
    pub(crate) provided: BTreeMap<Box<str>, Moment>,
    /// Before this moment, something may have appeared anywhere.
    pub(crate) unknown_until: Moment,
}

/// Whether slots may be placed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hold {
    Open,
    /// Until its timer fires.
    Delayed,
    /// One execution may be placed as a probe.
    ProbeWanted(Of),
    /// This execution is the probe.
    Probing(ExecutionId, Of),
}

/// The slots that may be a job's probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Of {
    Any,
    /// A node refused the container of a slot that was tried, which another node is to tell about.
    Tried,
}

// === impl FetchTrouble ===

impl FetchTrouble {
    pub(crate) const NONE: Self =
        Self { nodes: BTreeSet::new(), definite: BTreeMap::new(), delays: 0, hold: Hold::Open };

    /// Whether placement of the job's slots is suspended.
    pub(crate) fn holds(&self) -> bool {
        match self.hold {
            Hold::Open | Hold::ProbeWanted(_) => false,
            Hold::Delayed | Hold::Probing(..) => true,
        }
    }

    pub(crate) fn is_probe(&self, execution: ExecutionId) -> bool {
        matches!(self.hold, Hold::Probing(probe, _) if probe == execution)
    }

    /// Whether slots that were never tried wait for one that was.
    pub(crate) fn holds_untried(&self) -> bool {
        self.hold == Hold::ProbeWanted(Of::Tried)
    }

    /// A node refused the container of a slot: the next probe is one that was tried.
    pub(crate) fn refused(&mut self) {
        self.hold = match self.hold {
            Hold::Open | Hold::ProbeWanted(_) => Hold::ProbeWanted(Of::Tried),
            Hold::Probing(probe, _) => Hold::Probing(probe, Of::Tried),
            Hold::Delayed => Hold::Delayed,
        }
    }

    /// The slot that a node refused is not tried again, so that its probe may be any other. Returns
    /// whether that changes anything.
    pub(crate) fn try_any(&mut self) -> bool {
        let before = self.hold;
        self.hold = match before {
            Hold::ProbeWanted(Of::Tried) => Hold::ProbeWanted(Of::Any),
            Hold::Probing(probe, Of::Tried) => Hold::Probing(probe, Of::Any),
            Hold::Open | Hold::Delayed | Hold::ProbeWanted(Of::Any) | Hold::Probing(_, Of::Any) => {
                before
            }
        };
        self.hold != before
    }

    /// Records a placement. Returns whether no further execution may be placed for now.
    pub(crate) fn placed(&mut self, execution: ExecutionId) -> bool {
        if let Hold::ProbeWanted(of) = self.hold {
            self.hold = Hold::Probing(execution, of);
        }
        self.holds()
    }
}

// === impl Missing ===

impl Missing {
    /// A new process does not know what appeared before it.
    pub(crate) fn begin(&mut self, now: Moment) {
        self.unknown_until = now;
    }

    /// The jobs that wait for it.
    pub(crate) fn provided(&mut self, namespace: &str, now: Moment) -> BTreeSet<JobId> {
        if self.provided.len() >= MAX_PROVIDED && !self.provided.contains_key(namespace) {
            self.provided.clear();
            self.unknown_until = now;
        }
        self.provided.insert(namespace.into(), now);
        self.jobs.remove(namespace).unwrap_or_default()
    }

    pub(crate) fn has_appeared_since(&self, namespace: &str, moment: Moment) -> bool {
        let last = self.provided.get(namespace).copied().unwrap_or(self.unknown_until);
        last.max(self.unknown_until) >= moment
    }
}
