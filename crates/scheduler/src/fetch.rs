//! Jobs whose image, module or input cannot be fetched, or that name what does not exist.
//!
//! Such a job waits as a whole and is probed with one execution at a time, so that a misspelt name
//! does not occupy every node with failing fetches.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::time::Duration;

use api_types::{ExecutionId, JobId, NodeId};

use crate::change::ExecutionRow;
use crate::retry::backoff;
use crate::time::Moment;
use crate::timer::Timer;
use crate::{Scheduler, Turn};

/// Nodes on which fetching must fail before the whole job waits; a single node may itself be at
/// fault.
const NODES: usize = 2;

/// The shortest delay of a job that waits for something which does not exist, whatever its policy:
/// each probe asks a node.
const LEAST_DELAY: Duration = Duration::from_secs(1);

/// Namespaces of which it is known when something last appeared.
const MAX_PROVIDED: usize = 10_000;

/// A job's fetch failures since one of its executions last started.
#[derive(Debug)]
pub(crate) struct FetchTrouble {
    nodes: BTreeSet<NodeId>,
    /// How often the job as a whole has been delayed.
    delays: u32,
    hold: Hold,
}

/// Jobs that wait for something which does not exist.
#[derive(Debug, Default)]
pub(crate) struct Missing {
    /// By namespace.
    jobs: BTreeMap<Box<str>, BTreeSet<JobId>>,
    /// By namespace, when something last appeared.
    provided: BTreeMap<Box<str>, Moment>,
    /// Before this moment, something may have appeared anywhere.
    unknown_until: Moment,
}

/// Whether slots may be placed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hold {
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
    pub(crate) const NONE: Self = Self { nodes: BTreeSet::new(), delays: 0, hold: Hold::Open };

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

// === impl Missing ===

impl Missing {
    /// A new process does not know what appeared before it.
    pub(crate) fn begin(&mut self, now: Moment) {
        self.unknown_until = now;
    }

    /// The jobs that wait for it.
    fn provided(&mut self, namespace: &str, now: Moment) -> BTreeSet<JobId> {
        if self.provided.len() >= MAX_PROVIDED && !self.provided.contains_key(namespace) {
            self.provided.clear();
            self.unknown_until = now;
        }
        self.provided.insert(namespace.into(), now);
        self.jobs.remove(namespace).unwrap_or_default()
    }

    fn has_appeared_since(&self, namespace: &str, moment: Moment) -> bool {
        let last = self.provided.get(namespace).copied().unwrap_or(self.unknown_until);
        last.max(self.unknown_until) >= moment
    }
}

// === impl Scheduler: fetching ===

impl Scheduler {
    /// The node of this execution could not provide its image or inputs.
    pub(crate) fn fetch_failed(&mut self, turn: &mut Turn<'_>, failed: &ExecutionRow) {
        let id = failed.job;
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let trouble = &mut job.extras.to_mut().fetch;
        trouble.nodes.insert(failed.node);
        let was_probe = trouble.hold == Hold::Probing(failed.id);
        let is_first = trouble.hold == Hold::Open && trouble.nodes.len() >= NODES;
        if !was_probe && !is_first {
            return;
        }
        trouble.delays = trouble.delays.saturating_add(1);
        trouble.hold = Hold::Delayed;
        let policy = job.plan.retry;
        let delay = backoff(policy.delay, policy.max_delay, trouble.delays);
        let tries = job.extras.pending.get(failed.index).map(|slot| slot.tries.clone());
        self.timers.set(turn.now + delay, Timer::FetchDelay(id));
        self.withdraw_from_queue(id);
        let Some(tries) = tries else { return };
        let next = self.next_try(failed, &tries, turn.now + delay, turn.now);
        if let Some(job) = self.jobs.get_mut(&id) {
            job.extras.to_mut().retry = Some(next.message(failed, turn));
        }
    }

    /// The job names something that does not exist, so no node can run it: it waits as a whole.
    pub(crate) fn wait_for_missing(&mut self, turn: &mut Turn<'_>, row: ExecutionRow) {
        let id = row.job;
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let (policy, trouble) = (job.plan.retry, &mut job.extras.to_mut().fetch);
        // Executions that were under way already may find the same.
        let is_first = trouble.hold != Hold::Delayed;
        if is_first {
            trouble.delays = trouble.delays.saturating_add(1);
            trouble.hold = Hold::Delayed;
        }
        let mut delay = backoff(policy.delay, policy.max_delay, trouble.delays).max(LEAST_DELAY);
        if job.plan.names_secrets {
            let namespace = &*job.plan.namespace;
            // It may have asked before it appeared, and nothing else would start it.
            if self.missing.has_appeared_since(namespace, row.offered_at) {
                delay = LEAST_DELAY;
            }
            self.missing.jobs.entry(namespace.into()).or_default().insert(id);
        }
        if is_first {
            self.timers.set(turn.now + delay, Timer::FetchDelay(id));
        }
        self.withdraw_from_queue(id);
        self.hold_slot(turn, row, delay);
    }

    /// The jobs of the namespace that wait for something try again, with the next ticks.
    pub(crate) fn provided(&mut self, namespace: &str, now: Moment) {
        let jobs = self.missing.provided(namespace, now);
        self.backlog.provided.extend(jobs);
    }

    pub(crate) fn try_provided(&mut self, turn: &mut Turn<'_>, id: JobId) {
        turn.budget.spend();
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let Some(extra) = job.extras.existing() else { return };
        extra.fetch.delays = 0;
        let is_delayed = extra.fetch.hold == Hold::Delayed;
        // A slot that failed on its node waits for longer, whatever has appeared.
        let pinned =
            job.extras.pending.iter().filter(|slot| slot.pinned.is_some() && slot.due.is_some());
        let pinned = pinned.filter(|slot| !slot.avoids_its_node(turn.now));
        let pinned: Vec<_> = pinned.map(|slot| slot.index).collect();
        if is_delayed {
            self.timers.cancel(Timer::FetchDelay(id));
            self.fetch_delay_ended(turn, id);
        }
        for index in pinned {
            self.timers.cancel(Timer::Retry(id, index));
            self.retry_due(turn, id, index);
        }
    }

    /// The job no longer waits for anything.
    pub(crate) fn forget_missing(&mut self, id: JobId) {
        let Some(job) = self.jobs.get(&id).filter(|job| job.plan.names_secrets) else { return };
        let namespace = &*job.plan.namespace;
        if let Some(jobs) = self.missing.jobs.get_mut(namespace) {
            jobs.remove(&id);
            if jobs.is_empty() {
                self.missing.jobs.remove(namespace);
            }
        }
    }

    /// After a restart, a job that may be waiting as a whole begins with one execution. Why its slots
    /// were tried again is not stored; one that could fetch everything loses the time of one start.
    pub(crate) fn restore_fetch(&mut self, id: JobId) {
        let Some(job) = self.jobs.get(&id) else { return };
        let live = || job.executions.iter().filter_map(|execution| self.executions.get(execution));
        if job.is_terminal() || job.plan.is_per_node() || live().any(|row| row.started_at.is_some())
        {
            return;
        }
        let waiting = || job.extras.pending.iter();
        let misses = job.plan.names_secrets && waiting().next().is_some();
        let tries = waiting().map(|slot| &slot.tries).chain(live().map(|row| &row.tries));
        let avoided = tries.flat_map(|tries| &tries.exclusions.0);
        let nodes: BTreeSet<_> = avoided.map(|exclusion| exclusion.node).collect();
        if nodes.len() < NODES && !misses {
            return;
        }
        let hold = live().next().map_or(Hold::ProbeWanted, |probe| Hold::Probing(probe.id));
        if let Some(job) = self.jobs.get_mut(&id) {
            job.extras.to_mut().fetch = FetchTrouble { nodes, delays: 0, hold };
        }
    }

    pub(crate) fn fetch_delay_ended(&mut self, turn: &mut Turn<'_>, id: JobId) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        if job.extras.fetch.hold == Hold::Delayed {
            job.extras.to_mut().fetch.hold = Hold::ProbeWanted;
        }
        self.place_waiting(turn, id);
        self.refresh_job(turn, id);
    }

    /// An execution of the job obtained its image and inputs, so the other slots may be placed.
    pub(crate) fn fetch_worked(&mut self, turn: &mut Turn<'_>, id: JobId) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let held = job.extras.fetch.hold != Hold::Open;
        if let Some(extra) = job.extras.existing() {
            extra.fetch = FetchTrouble::NONE;
        }
        if held {
            self.forget_missing(id);
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
        if job.extras.fetch.hold == Hold::Probing(execution) {
            job.extras.to_mut().fetch.hold = Hold::ProbeWanted;
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
