//! Restores the scheduler from the store; recovery uses the ordinary code path.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use api_types::engine::{EngineType, PublisherType};
use api_types::execution::{ComputeState, DesiredState};
use api_types::job::{JobType, RetryPolicy, Timeouts};
use api_types::node::{Connection, Eligibility, Membership};

use crate::change::{Covered, Live, LiveJobRow, LoadedPlan, NodeRow};
use crate::demand::{Demand, Fit, Need};
use crate::health::Health;
use crate::job::LiveJob;
use crate::mint::Mint;
use crate::node::LiveNode;
use crate::plan::{JobPlan, Plan};
use crate::session::{FORGOTTEN, REJECTED, with_reason};
use crate::text::Text;
use crate::time::Moment;
use crate::timer::Timer;
use crate::{Scheduler, Settings};

/// A scheduler under construction from stored records: first its live jobs, one by one, then the
/// rest.
pub struct Restore {
    scheduler: Scheduler,
}

/// A stored record that this release cannot restore.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    #[error("execution {execution} belongs to {what}, which is not stored")]
    Orphan { execution: String, what: String },
}

// === impl Restore ===

impl Restore {
    pub fn new(settings: Settings, mint: Mint) -> Self {
        Self { scheduler: Scheduler::new(settings, mint) }
    }

    /// Adds a job. One whose plan and specification are both damaged fails with the first tick.
    pub fn job(&mut self, job: LiveJobRow) {
        self.scheduler.restore_job(job);
    }

    /// Returns the scheduler as of the last commit. Every lease restarts, because nodes could not
    /// renew it while the orchestrator was down; the next tick places slots that were ready.
    pub fn finish(self, live: Live, now: Moment) -> Result<Scheduler, RestoreError> {
        let Self { mut scheduler } = self;
        scheduler.last_seq = live.last_seq;
        scheduler.clock = now;
        for row in live.nodes {
            scheduler.restore_node(row, now);
        }
        for row in live.executions {
            let orphan =
                |what: String| RestoreError::Orphan { execution: row.id.to_string(), what };
            let job =
                scheduler.jobs.get_mut(&row.job).ok_or_else(|| orphan(row.job.to_string()))?;
            job.row.last_event_time = job.row.last_event_time.max(row.modify_time);
            let node =
                scheduler.nodes.get_mut(&row.node).ok_or_else(|| orphan(row.node.to_string()))?;
            job.executions.insert(row.id);
            if job.is_terminal() && row.desired != DesiredState::Stopped {
                scheduler.backlog.stops.insert(row.job, None);
            }
            node.executions.insert(row.id);
            node.used = node.used.plus(&row.held());
            if !job.plan.job_type.is_finite() {
                node.unending = node.unending.plus(&row.held());
            }
            node.running += u64::from(row.compute == ComputeState::BidAccepted);
            if row.compute <= ComputeState::AskForBid {
                scheduler.await_answer(row.id, now);
            }
            scheduler.executions.put(Box::new(row));
        }
        for mut slot in live.pending_slots {
            let Some(job) = scheduler.jobs.get_mut(&slot.job) else { continue };
            if job.plan.names_secrets && slot.pinned.is_some() && !slot.avoids_its_node(now) {
                // What it waits for may have appeared since, and no notification would come.
                slot.due = slot.due.map(|due| due.min(now));
            }
            if let Some(node) = slot.pinned.and_then(|node| scheduler.nodes.get_mut(&node)) {
                match slot.due {
                    None => {
                        node.pin(job.plan.rank, slot.index);
                        scheduler.reservations.repinned.push(node.id());
                    }
                    Some(_) => drop(node.delayed.insert((slot.job, slot.index))),
                }
            }
            job.extras.to_mut().pending.insert(slot);
        }
        for Covered { job, index, node, at } in live.covered {
            // A node that was forgotten meanwhile is covered anew.
            let joined_at = scheduler.nodes.get(&node).map(|node| node.row.joined_at);
            if joined_at.is_none_or(|joined| at.is_some_and(|at| at < joined)) {
                continue;
            }
            if let Some(job) = scheduler.jobs.get_mut(&job) {
                job.extras.to_mut().covered.insert(node, index);
            }
        }
        scheduler.restore_order(now);
        scheduler.restore_leases(now);
        scheduler.missing.begin(now);
        scheduler.adopt_nodes_without_history();
        Ok(scheduler)
    }
}

// === impl Scheduler: restore ===

impl Scheduler {
    fn restore_node(&mut self, mut row: NodeRow, now: Moment) {
        let id = row.id;
        let connected = row.connection == Connection::Connected;
        row.silent_since = (!connected).then(|| row.silent_since.unwrap_or(now));
        match row.silent_since {
            None => self.timers.set(now, Timer::Lease(id)),
            Some(since) => {
                self.restore_silence(id, since);
                self.timers.set(since + self.settings.node_retention, Timer::Retention(id));
            }
        }
        match &mut row.health {
            Health::BackingOff { until, .. } => self.timers.set(*until, Timer::BackOff(id)),
            // Whether the probe succeeded is known when it ends; until then another one may be
            // placed.
            Health::Probing { probe, .. } => *probe = None,
            Health::Well => {}
        }
        if let Some(deadline) = row.drain_deadline {
            self.timers.set(deadline, Timer::DrainDeadline(id));
        }
        if row.eligibility == Eligibility::Draining {
            self.backlog.drains.insert(id);
        }
        let mut node = LiveNode::new(row, now);
        node.heard_at = node.row.silent_since.unwrap_or_default();
        node.abandoned = given_up(&node.row);
        self.nodes.insert(id, node);
        self.touched.insert(id);
    }

    fn restore_job(&mut self, stored: LiveJobRow) {
        let LiveJobRow { row, job_type, priority, plan, create_time, created_at } = stored;
        let id = row.id;
        let plan = match plan {
            LoadedPlan::Stored(plan) => Ok(plan),
            LoadedPlan::Unreadable { spec } => JobPlan::of_json(&spec),
        };
        let (plan, class) = match plan {
            Ok(plan) if !row.state.is_terminal() => {
                let (plan, class) = self.enter_queue(plan, id, create_time, created_at);
                (plan, Some(class))
            }
            Ok(plan) => {
                let namespace = plan.namespace.as_str().into();
                (Plan::of(&plan, namespace, id, create_time, created_at), None)
            }
            Err(error) => {
                if !row.state.is_terminal() {
                    self.backlog.damaged.insert(id, unreadable(&error).into());
                }
                let plan = of_damaged(job_type, priority);
                (Plan::of(&plan, "".into(), id, create_time, created_at), None)
            }
        };
        if class.is_some() && plan.job_type == JobType::Daemon {
            self.daemons.insert(id);
        }
        if let (Some(since), Some(bound)) = (row.waiting_since, plan.queue_timeout()) {
            self.timers.set(since + bound, Timer::QueueTimeout(id));
        }
        self.jobs.put(Box::new(LiveJob::new(row, plan, class)));
    }

    /// Derives queues, pools and timers from the records.
    fn restore_order(&mut self, now: Moment) {
        let nodes: Vec<_> = self.nodes.keys().copied().collect();
        for node in nodes {
            self.follow_node(node);
        }
        let ids: Vec<_> = self.jobs.keys().copied().collect();
        let mut waiting_jobs = BTreeMap::<_, (Vec<_>, bool)>::new();
        for id in ids {
            self.set_job_timers(id);
            self.restore_fetch(id);
            let job = &self.jobs[&id];
            let rank = job.plan.rank;
            let waiting = job.extras.pending.iter().filter(|slot| slot.due.is_none());
            let waiting: Vec<_> =
                waiting.filter(|slot| slot.pinned.is_none()).map(|slot| slot.index).collect();
            for index in waiting {
                self.queue_slot(now, id, index);
            }
            let Some(job) = self.jobs.get_mut(&id) else { continue };
            if job.is_retrying() {
                job.extras.to_mut().retry = Some(job.row.message.clone());
                job.extras.to_mut().shown = job.notice();
            }
            for class in job.classes().into_iter().filter(|class| job.has_ready_slot(*class)) {
                let (ranks, annotated) = waiting_jobs.entry(class).or_insert((Vec::new(), true));
                ranks.push(rank);
                *annotated &= job.row.waiting_since.is_some();
            }
        }
        for (class, (ranks, annotated)) in waiting_jobs {
            self.queue.restore_waiting(class, ranks, annotated);
        }
        let waiting = self.queue.waiting_classes();
        let first = waiting.filter_map(|(id, class)| Some((*class.waiting.first()?, id)));
        self.backlog.classes.extend(first);
        self.backlog.nodes.extend(self.nodes.keys().map(|node| (*node, None)));
        if !self.daemons.is_empty() {
            // A node may have begun to take work again just before the process ended.
            self.backlog.covers.extend(self.nodes.keys().copied());
        }
    }
}

/// Why nobody waits for the work of a node, if an operator's action says so.
fn given_up(row: &NodeRow) -> Option<Text> {
    match (row.is_forgotten, row.membership) {
        (true, _) => Some(FORGOTTEN),
        (false, Membership::Rejected) => Some(with_reason(REJECTED, &row.message).into()),
        (false, Membership::Approved | Membership::Pending) => None,
    }
}

/// What a job says that ends because of this.
pub(crate) fn unreadable(error: &dyn core::fmt::Display) -> String {
    format!(
        "its stored specification cannot be read ({error}): the state database is damaged; submit \
         the job again, or restore the database from a backup"
    )
}

/// Stands for the plan of a job that ends with the first tick.
fn of_damaged(job_type: JobType, priority: u32) -> JobPlan {
    let fit = Fit {
        engine: EngineType::Noop,
        publisher: PublisherType::None,
        sources: Vec::new(),
        constraints: Vec::new(),
    };
    let need = Need { cpu_millis: None, memory_bytes: None, disk_bytes: 0, gpus: 0 };
    JobPlan {
        job_type,
        priority,
        namespace: String::new(),
        retry: RetryPolicy::default_for(job_type),
        timeouts: Timeouts::default(),
        names_secrets: false,
        demand: Demand { fit, need },
    }
}
