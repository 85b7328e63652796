//! Jobs whose image, module or input cannot be fetched.
//!
//! Such a job waits as a whole and is probed with one execution at a time, so that a misspelt name
//! does not occupy every node with failing fetches.

use alloc::collections::BTreeSet;

use api_types::{ExecutionId, JobId, NodeId};

use crate::retry::backoff;
use crate::timer::Timer;
use crate::{Scheduler, Turn};

/// Nodes on which fetching must fail before the whole job waits; a single node may itself be at
/// fault.
const NODES: usize = 2;

/// A job's fetch failures since one of its executions last started.
#[derive(Debug, Default)]
pub(crate) struct FetchTrouble {
    nodes: BTreeSet<NodeId>,
    /// How often the job as a whole has been delayed.
    delays: u32,
    hold: Hold,
}

/// Whether slots may be placed.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Hold {
    #[default]
    Open,
    /// Until its timer fires.
    Delayed,
    /// One execution may be placed as a probe.
    ProbeWanted,
    /// This execution is the probe.
    Probing(ExecutionId),
}

// === impl FetchTrouble ===

impl FetchTrouble {
    /// Whether placement of the job's slots is suspended.
    pub(crate) fn holds(&self) -> bool {
        match self.hold {
            Hold::Open | Hold::ProbeWanted => false,
            Hold::Delayed | Hold::Probing(_) => true,
        }
    }

    /// Records a placement. Returns whether no further execution may be placed for now.
    pub(crate) fn placed(&mut self, execution: ExecutionId) -> bool {
        if self.hold == Hold::ProbeWanted {
            self.hold = Hold::Probing(execution);
        }
        self.holds()
    }
}

// === impl Scheduler: fetching ===

impl Scheduler {
    /// This node could not provide the image or inputs for an execution of the job.
    pub(crate) fn fetch_failed(
        &mut self,
        turn: &mut Turn<'_>,
        id: JobId,
        execution: ExecutionId,
        node: NodeId,
    ) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let trouble = &mut job.fetch;
        trouble.nodes.insert(node);
        let was_probe = trouble.hold == Hold::Probing(execution);
        let is_first = trouble.hold == Hold::Open && trouble.nodes.len() >= NODES;
        if !was_probe && !is_first {
            return;
        }
        trouble.delays = trouble.delays.saturating_add(1);
        trouble.hold = Hold::Delayed;
        let policy = job.plan.retry;
        let delay = backoff(policy.delay, policy.max_delay, trouble.delays);
        self.timers.set(turn.now + delay, Timer::FetchDelay(id));
        self.withdraw_from_queue(id);
    }

    pub(crate) fn fetch_delay_ended(&mut self, turn: &mut Turn<'_>, id: JobId) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        if job.fetch.hold == Hold::Delayed {
            job.fetch.hold = Hold::ProbeWanted;
        }
        self.place_waiting(turn, id);
        self.refresh_job(turn, id);
    }

    /// An execution of the job obtained its image and inputs, so the other slots may be placed.
    pub(crate) fn fetch_worked(&mut self, turn: &mut Turn<'_>, id: JobId) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let held = job.fetch.hold != Hold::Open;
        job.fetch = FetchTrouble::default();
        if held {
            self.timers.cancel(Timer::FetchDelay(id));
            self.place_waiting(turn, id);
        }
    }

    /// An execution of the job ended; if it was an inconclusive probe, another may be placed.
    pub(crate) fn fetch_probe_ended(
        &mut self,
        turn: &mut Turn<'_>,
        id: JobId,
        execution: ExecutionId,
    ) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        if job.fetch.hold == Hold::Probing(execution) {
            job.fetch.hold = Hold::ProbeWanted;
            self.place_waiting(turn, id);
        }
    }

    /// Removes the job from its queues, so that none of its slots waits for room for now.
    pub(crate) fn withdraw_from_queue(&mut self, id: JobId) {
        let Some(job) = self.jobs.get(&id) else { return };
        let rank = job.plan.rank;
        for class in job.classes() {
            self.queue.stop_waiting(class, rank);
        }
    }

    /// Places the job's ready slots, in all of its classes.
    pub(crate) fn place_waiting(&mut self, turn: &mut Turn<'_>, id: JobId) {
        let classes = self.jobs.get(&id).map(|job| job.classes()).unwrap_or_default();
        for class in classes {
            self.place_job(turn, id, class);
        }
    }
}
