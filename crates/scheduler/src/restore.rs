//! Restores the scheduler from the store; recovery uses the ordinary code path.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;

use api_types::JobId;
use api_types::engine::{EngineType, PublisherType};
use api_types::execution::DesiredState;
use api_types::job::{JobStateType, JobType, RetryPolicy, Timeouts};
use api_types::node::{Connection, Eligibility, Membership};

use crate::change::{Live, LiveJobRow, LoadedPlan, NodeRow, SlotNode};
use crate::demand::{Demand, Fit, Need};
use crate::health::{Health, PROBE_TIMEOUT};
use crate::mint::Mint;
use crate::plan::{JobPlan, Plan};
use crate::queue::Said;
use crate::queue::quota::Entitlement;
use crate::rules::operators::{FORGOTTEN, REJECTED};
use crate::rules::{fetch, health, lease, node_name};
use crate::scheduler::Scheduler;
use crate::settings::Settings;
use crate::state::executions::Orphan;
use crate::state::job::LiveJob;
use crate::state::node::LiveNode;
use crate::state::{State, counterparts, dependants, executions, gate, history, holders, outcomes};
use crate::streak::Streak;
use crate::text::{Text, with_reason};
use crate::time::Moment;
use crate::timer::Timer;
use crate::{end, settle};

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

    /// Adds a concurrency group of a namespace.
    pub fn group(&mut self, namespace: &str, name: &str, limit: u32) {
        self.scheduler.state.queue.groups.set_limit(namespace, name, Some(limit));
    }

    /// Sets what a namespace is entitled to.
    pub fn entitle(&mut self, namespace: &str, to: Entitlement) {
        self.scheduler.state.queue.entitle(namespace, to);
    }

    /// Adds a job, after all that were submitted before it. One whose plan and specification are both damaged fails with the first tick.
    pub fn job(&mut self, job: LiveJobRow) {
        let Scheduler { state, settle } = &mut self.scheduler;
        if let Some((id, why)) = restore_job(state, job) {
            settle.backlog.damaged.insert(id, why);
        }
    }

    /// Returns the scheduler as of the last commit. Every lease restarts, because nodes could not
    /// renew it while the orchestrator was down; the next tick places slots that were ready.
    pub fn finish(self, live: Live, now: Moment) -> Result<Scheduler, RestoreError> {
        let Self { mut scheduler } = self;
        let Scheduler { state, settle } = &mut scheduler;
        state.last_seq = live.last_seq;
        state.clock = now;
        for row in live.nodes {
            let (id, drains) = (row.id, row.eligibility == Eligibility::Draining);
            restore_node(state, row, now);
            if drains {
                settle.backlog.drains.insert(id);
            }
        }
        for row in live.executions {
            let (id, job, desired) = (row.id, row.job, row.desired);
            executions::restore(state, row, now).map_err(|orphan| {
                let what = match orphan {
                    Orphan::Job(job) => job.to_string(),
                    Orphan::Node(node) => node.to_string(),
                };
                RestoreError::Orphan { execution: id.to_string(), what }
            })?;
            if state.jobs[&job].is_terminal() && desired != DesiredState::Stopped {
                settle.backlog.stops.insert(job, None);
            }
        }
        dependants::restore(state, live.named, now);
        for mut slot in live.pending_slots {
            let Some(job) = state.jobs.get(&slot.job) else { continue };
            if job.plan.names_secrets && slot.pinned.is_some() && !slot.avoids_its_node(now) {
                // What it waits for may have appeared since, and no notification would come.
                slot.due = slot.due.map(|due| due.min(now));
            }
            state.restore_slot(slot);
        }
        for SlotNode { job, index, node, at } in live.covered {
            // A node that was forgotten in between is covered anew.
            let joined_at = state.nodes.get(&node).map(|node| node.row().joined_at);
            if joined_at.is_none_or(|joined| at.is_some_and(|at| at < joined)) {
                continue;
            }
            state.restore_cover(job, index, node);
        }
        for stored in live.outcomes {
            outcomes::restore(state, stored);
        }
        counterparts::restore(state);
        restore_order(state, now);
        health::restore_doubts(state, now);
        settle.backlog.restore(state);
        settle.backlog.silences.extend(lease::restore_leases(state, now));
        state.missing.begin(now);
        history::adopt_nodes_without_history(state);
        node_name::name_nodes_without_names(state);
        settle::settle_restored(settle, state, now);
        Ok(scheduler)
    }
}

// === Restore ===

fn restore_node(state: &mut State, mut row: NodeRow, now: Moment) {
    let id = row.id;
    let connected = row.connection == Connection::Connected;
    row.silent_since = (!connected).then(|| row.silent_since.unwrap_or(now));
    match row.silent_since {
        None => state.timers.set(now, Timer::Lease(id)),
        Some(since) => {
            state.timers.set(since + state.settings.node_retention, Timer::Retention(id));
        }
    }
    match &mut row.health {
        Health::BackingOff { until, .. } => state.timers.set(*until, Timer::Health(id)),
        // No answer could arrive in the meantime.
        Health::Asked { until, .. } => {
            *until = now + PROBE_TIMEOUT;
            state.timers.set(*until, Timer::Health(id));
        }
        // Whether the probe succeeded is known when it ends; until then another one may be
        // placed.
        Health::Probing { probe, avoids, .. } => (*probe, *avoids) = (None, None),
        Health::Well | Health::Recovered { .. } => {}
    }
    if row.health.accuser().is_some() {
        state.doubted.insert(id);
    }
    if let Some(deadline) = row.drain_deadline {
        state.timers.set(deadline, Timer::DrainDeadline(id));
    }
    let mut node = LiveNode::new(row, now);
    node.heard_at = node.row().silent_since.unwrap_or_default();
    node.abandoned = given_up(node.row());
    state.restore_node(node);
}

/// Returns why the job is to fail, if nothing that scheduling needs of it can be read.
fn restore_job(state: &mut State, stored: LiveJobRow) -> Option<(JobId, Text)> {
    let mut damaged = None;
    let LiveJobRow { row, job_type, priority, plan, create_time, created_at, began_at } = stored;
    let id = row.id;
    let plan = match plan {
        LoadedPlan::Stored(plan) => Ok(plan),
        LoadedPlan::Unreadable { spec } => JobPlan::of_json(&spec),
    };
    let max_running = plan.as_ref().map_or(0, |plan| plan.max_running);
    let max_failed = plan.as_ref().map_or(0, |plan| plan.max_failed);
    let named = plan.as_ref().map(|plan| {
        let JobPlan { namespace, groups, replaces, .. } = plan;
        state.queue.groups.add_job(namespace, groups, id, *replaces)
    });
    let (groups, number) = named.unwrap_or_default();
    let depends_on = plan.as_ref().map_or_else(|_| Vec::new(), |plan| plan.depends_on.clone());
    let told_count = plan.as_ref().map_or(0, |plan| plan.told_count);
    let (plan, class) = match plan {
        Ok(plan) if !row.state.is_terminal() => {
            let groups = Arc::clone(&groups);
            let (plan, class) = state.enter_queue(plan, id, create_time, created_at, groups);
            (plan, Some(class))
        }
        Ok(plan) => {
            let namespace = plan.namespace.as_str().into();
            (Plan::new(&plan, namespace, id, create_time, created_at), None)
        }
        Err(error) => {
            if !row.state.is_terminal() {
                damaged = Some((id, end::unreadable(&error).into()));
            }
            let plan = of_damaged(job_type, priority);
            (Plan::new(&plan, "".into(), id, create_time, created_at), None)
        }
    };
    if class.is_some() && plan.job_type == JobType::Daemon && depends_on.is_empty() {
        state.daemons.insert(id);
    }
    if let (Some(since), Some(bound)) = (row.waiting_since, plan.queue_timeout()) {
        state.timers.set(since + bound, Timer::QueueTimeout(id));
    }
    state.namespaces.enter(&plan.namespace);
    state.namespaces.add_ranges(&plan.namespace, row.slots.scattered_ranges());
    let mut job = LiveJob::new(row, plan, class);
    job.limit_to(max_running, max_failed);
    job.name_groups(groups, number);
    if !depends_on.is_empty() {
        dependants::restore_job(state, &mut job, &depends_on, began_at);
    }
    job.tell_count(told_count);
    state.jobs.put(Box::new(job));
    damaged
}

/// Derives queues, pools and timers from the records.
fn restore_order(state: &mut State, now: Moment) {
    let nodes: Vec<_> = state.nodes.keys().copied().collect();
    for node in nodes {
        state.follow_node(node);
    }
    let ids: Vec<_> = state.jobs.keys().copied().collect();
    let mut waiting_jobs = BTreeMap::<_, (Vec<_>, Said)>::new();
    for id in ids {
        set_job_timers(state, id);
        fetch::restore_fetch(state, id);
        let job = &state.jobs[&id];
        state.queue.quotas.queued(&job.plan.namespace, job.queued_slots());
        let rank = job.plan.rank;
        let waiting = job.extras.pending().iter().filter(|slot| slot.due.is_none());
        let waiting: Vec<_> =
            waiting.filter(|slot| slot.pinned.is_none()).map(|slot| slot.index).collect();
        for index in waiting {
            state.queue_slot(now, id, index);
        }
        if state.jobs[&id].extras.pending().has_pinned() {
            holders::enter(state, id);
        }
        gate::restore(state, id);
        let Some(job) = state.jobs.get_mut(&id) else { continue };
        if job.is_retrying() || !job.extras.unproven.is_empty() {
            let message = job.row().message.clone();
            let of_slots = job.extras.pending().iter().map(|slot| slot.tries.short_runs);
            let of_runs = job.executions().iter().filter_map(|id| state.executions.get(id));
            let tries = of_slots.chain(of_runs.map(|row| row.tries.short_runs)).max();
            let extra = job.extras.to_mut();
            extra.streak = Streak::of_tries(tries.unwrap_or_default());
            (extra.retry, extra.trial) = (Some(message.clone()), Some(message));
        }
        let extras = &job.extras;
        if job.is_retrying() || !extras.unproven.is_empty() || extras.first_failure.is_some() {
            job.extras.to_mut().shown = job.notice();
        }
        for class in job.classes().into_iter().filter(|class| job.has_ready_slot(*class)) {
            let said = Said { all_of_room: true, some_nothing: false };
            let (ranks, said) = waiting_jobs.entry(class).or_insert((Vec::new(), said));
            ranks.push(rank);
            let row = job.row();
            let is_gated = job.extras.gate().is_some() && row.state != JobStateType::Pending;
            said.all_of_room &= row.waiting_since.is_some();
            said.some_nothing |= row.waiting_since.is_none() && !is_gated;
        }
    }
    for (class, (ranks, said)) in waiting_jobs {
        state.queue.restore_waiting(class, ranks, said);
    }
}

/// Sets the timers of a job that was loaded from the store.
pub(crate) fn set_job_timers(state: &mut State, id: JobId) {
    let job = &state.jobs[&id];
    if let (Some(began), Some(bound)) = (job.began(), job.plan.total_timeout()) {
        state.timers.set(began + bound, Timer::TotalTimeout(id));
    }
    for slot in job.extras.pending().iter() {
        if let Some(due) = slot.due {
            state.timers.set(due, Timer::Retry(id, slot.index));
        }
    }
}

/// Why the work of a node is not waited for, if an operator's action says so.
fn given_up(row: &NodeRow) -> Option<Text> {
    match (row.is_forgotten, row.membership) {
        (true, _) => Some(FORGOTTEN),
        (false, Membership::Rejected) => Some(with_reason(REJECTED, &row.message).into()),
        (false, Membership::Approved | Membership::Pending) => None,
    }
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
        max_running: 0,
        max_failed: 0,
        groups: Vec::new(),
        replaces: false,
        depends_on: Vec::new(),
        told_count: 0,
        demand: Demand { fit, need },
    }
}
