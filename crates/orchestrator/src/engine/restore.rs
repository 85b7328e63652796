//! Going on from what the store holds; recovery is the ordinary path.

use std::collections::{BTreeMap, BTreeSet};

use api_types::Timestamp;
use api_types::execution::ComputeState;
use api_types::job::{JobSpec, JobStateType, JobType};
use api_types::node::Connection;

use super::change::{Live, LiveJobRow};
use super::demand::{Demand, InvalidDemand};
use super::job::{LiveJob, Plan};
use super::mint::Mint;
use super::node::LiveNode;
use super::timer::Timer;
use super::{Engine, Settings};

/// An engine in the making, from what the store holds: first its live jobs, one by one, then the
/// rest. Jobs come one by one because their specifications are large, and are not kept.
pub struct Restore {
    engine: Engine,
    /// What was wrong first.
    failed: Option<RestoreError>,
}

/// A stored record that this release cannot go on from.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    #[error("the specification of job {job} cannot be read")]
    Spec { job: api_types::JobId, source: serde_json::Error },
    #[error("the demand of job {job} cannot be read")]
    Demand { job: api_types::JobId, source: InvalidDemand },
    #[error("execution {execution} belongs to {what}, which is not stored")]
    Orphan { execution: String, what: String },
}

// === impl Restore ===

impl Restore {
    pub fn new(settings: Settings, mint: Mint) -> Self {
        Self { engine: Engine::new(settings, mint), failed: None }
    }

    /// Takes a job in, of which only what scheduling needs is kept.
    pub fn job(&mut self, job: LiveJobRow) {
        if self.failed.is_none() {
            self.failed = self.engine.restore_job(job).err();
        }
    }

    /// The engine as it was at the last commit. Every lease runs anew, because nobody could renew
    /// while there was no orchestrator; slots that were ready are placed by the next tick.
    pub fn finish(self, live: Live, now: Timestamp) -> Result<Engine, RestoreError> {
        let Self { mut engine, failed } = self;
        if let Some(error) = failed {
            return Err(error);
        }
        engine.last_seq = live.last_seq;
        let now = now.max(live.last_time);
        engine.clock = now;
        for row in live.nodes {
            let id = row.id;
            let connected = row.connection == Connection::Connected;
            let drain_deadline = row.drain_deadline;
            let lease_until = now + engine.settings.lease;
            let retained_until = row.last_heartbeat + engine.settings.node_retention;
            engine.nodes.insert(id, LiveNode::new(row, lease_until));
            engine.touched.insert(id);
            if connected {
                engine.timers.set(lease_until, Timer::Lease(id));
            } else {
                engine.timers.set(retained_until, Timer::Retention(id));
            }
            if let Some(deadline) = drain_deadline {
                engine.timers.set(deadline, Timer::DrainDeadline(id));
            }
        }
        for row in live.executions {
            let orphan =
                |what: String| RestoreError::Orphan { execution: row.id.to_string(), what };
            let job = engine.jobs.get_mut(&row.job).ok_or_else(|| orphan(row.job.to_string()))?;
            let node =
                engine.nodes.get_mut(&row.node).ok_or_else(|| orphan(row.node.to_string()))?;
            job.executions.insert(row.id);
            node.executions.insert(row.id);
            node.used = node.used.plus(&row.resources);
            node.running += u64::from(row.compute == ComputeState::BidAccepted);
            engine.executions.insert(row.id, row);
        }
        for slot in live.pending_slots {
            let Some(job) = engine.jobs.get_mut(&slot.job) else { continue };
            if let (None, Some(node)) = (slot.due, slot.pinned)
                && let Some(node) = engine.nodes.get_mut(&node)
            {
                node.pin(job.plan.rank, slot.index);
            }
            job.pending.insert(slot.index, slot);
        }
        for (job, index, node) in live.covered {
            if let Some(job) = engine.jobs.get_mut(&job) {
                job.covered.insert(node, index);
            }
        }
        engine.restore_order();
        Ok(engine)
    }
}

// === impl Engine: restore ===

impl Engine {
    fn restore_job(&mut self, stored: LiveJobRow) -> Result<(), RestoreError> {
        let LiveJobRow { row, spec_json, create_time } = stored;
        let id = row.id;
        let spec: JobSpec = serde_json::from_str(&spec_json)
            .map_err(|source| RestoreError::Spec { job: id, source })?;
        let plan = Plan::of(&spec, id, create_time);
        let class = if row.state.is_terminal() {
            None
        } else {
            let demand =
                Demand::of(&spec).map_err(|source| RestoreError::Demand { job: id, source })?;
            Some(self.queue.enter(demand, self.nodes.values_mut()))
        };
        if class.is_some() && plan.job_type == JobType::Daemon {
            self.daemons.insert(id);
        }
        let waiting_since = match row.state {
            // It has waited since it was queued, which its last change tells.
            JobStateType::Queued => Some(row.modify_time),
            JobStateType::Pending
            | JobStateType::Running
            | JobStateType::Completed
            | JobStateType::Failed
            | JobStateType::Stopped => None,
        };
        if let (Some(since), Some(bound)) = (waiting_since, plan.queue_timeout) {
            self.timers.set(since + bound, Timer::QueueTimeout(id));
        }
        let job = LiveJob {
            row,
            plan,
            class,
            executions: BTreeSet::new(),
            pending: BTreeMap::new(),
            covered: BTreeMap::new(),
            waiting_since,
        };
        self.jobs.insert(id, Box::new(job));
        Ok(())
    }

    /// Derives queues, pools and timers from the records.
    fn restore_order(&mut self) {
        for node in self.nodes.values_mut() {
            self.queue.reclassify(node);
        }
        let ids: Vec<_> = self.jobs.keys().copied().collect();
        for id in ids {
            self.set_job_timers(id);
            let job = &self.jobs[&id];
            if let Some(class) = job.class
                && job.has_ready_slot()
            {
                let rank = job.plan.rank;
                self.queue.wait(class, rank);
                self.backlog.classes.insert(class);
            }
        }
        self.backlog.nodes.extend(self.nodes.keys().copied());
    }
}
