//! A job whose image, module or input cannot be had: it waits as a whole, and is tried with one
//! execution at a time, so that a misspelt name does not keep every node busy with its failures.

use alloc::collections::BTreeSet;

use api_types::{ExecutionId, JobId, NodeId};

use crate::retry::backoff;
use crate::timer::Timer;
use crate::{Scheduler, Turn};

/// Nodes on which fetching must fail before the whole job waits: one alone may be at fault itself.
const NODES: usize = 2;

/// What a job knows of its failures to fetch, since the last of its executions that started.
#[derive(Debug, Default)]
pub(crate) struct FetchTrouble {
    nodes: BTreeSet<NodeId>,
    /// How often the job as a whole has waited.
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
    /// One execution may be placed.
    ProbeWanted,
    /// And this is it.
    Probing(ExecutionId),
}

// === impl FetchTrouble ===

impl FetchTrouble {
    /// Whether no slot of the job may be placed now.
    pub(crate) fn holds(&self) -> bool {
        match self.hold {
            Hold::Open | Hold::ProbeWanted => false,
            Hold::Delayed | Hold::Probing(_) => true,
        }
    }

    /// An execution was placed. Answers whether no other may be, from now on.
    pub(crate) fn placed(&mut self, execution: ExecutionId) -> bool {
        if self.hold == Hold::ProbeWanted {
            self.hold = Hold::Probing(execution);
        }
        self.holds()
    }
}

// === impl Scheduler: fetching ===

impl Scheduler {
    /// An execution of the job could not be given its image or inputs on this node.
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

    /// An execution of the job has what it needs: the others may follow.
    pub(crate) fn fetch_worked(&mut self, turn: &mut Turn<'_>, id: JobId) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let held = job.fetch.hold != Hold::Open;
        job.fetch = FetchTrouble::default();
        if held {
            self.timers.cancel(Timer::FetchDelay(id));
            self.place_waiting(turn, id);
        }
    }

    /// An execution of the job ended; if it was the probe and said nothing, another one may go.
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

    /// No slot of the job waits for room, for the time being.
    pub(crate) fn withdraw_from_queue(&mut self, id: JobId) {
        let Some(job) = self.jobs.get(&id) else { return };
        let rank = job.plan.rank;
        for class in job.classes() {
            self.queue.stop_waiting(class, rank);
        }
    }

    /// Places what is ready of the job in any of its classes.
    pub(crate) fn place_waiting(&mut self, turn: &mut Turn<'_>, id: JobId) {
        let classes = self.jobs.get(&id).map(|job| job.classes()).unwrap_or_default();
        for class in classes {
            self.place_job(turn, id, class);
        }
    }
}
