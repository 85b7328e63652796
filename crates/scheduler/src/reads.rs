//! What callers read of the scheduler, apart from the answers to inputs.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use api_types::node::Node;
use api_types::{JobId, NodeId, Timestamp};

use crate::demand::Want;
use crate::dependency::Verdict;
use crate::input::Refusal;
use crate::plan::JobPlan;
use crate::queue::quota::{Entitled, QuotaUse};
use crate::rerun::Rerun;
use crate::rules::{self, lease, offer};
use crate::scheduler::Scheduler;
use crate::settle::notice;
use crate::silence::NodeLease;
use crate::state::dependants;
use crate::state::node::LiveNode;
use crate::time::Moment;
use crate::views::census::{Census, Waiting};
use crate::views::demand::ClusterDemand;
use crate::views::dry_run::Preview;
use crate::views::group::GroupUse;
use crate::views::standing::Standing;
use crate::views::{census, demand, dry_run, group, standing};

// === impl Scheduler: reads ===

impl Scheduler {
    /// Nodes that changed since the last call, in their current state; `None` for a forgotten one.
    pub fn take_touched_nodes(&mut self) -> Vec<(NodeId, Option<Node>)> {
        let state = &mut self.state;
        core::mem::take(&mut state.touched)
            .into_iter()
            .map(|id| (id, state.nodes.get(&id).map(LiveNode::wire)))
            .collect()
    }

    /// Nodes whose heartbeats arrived since the last call, with the time of the latest one.
    pub fn take_heard_nodes(&mut self) -> Vec<(NodeId, Timestamp)> {
        let state = &mut self.state;
        core::mem::take(&mut state.heard_from)
            .into_iter()
            .filter_map(|id| Some((id, state.nodes.get(&id)?.row().last_heartbeat)))
            .collect()
    }

    /// Increments whenever a node joins, leaves, or changes its properties.
    pub fn fleet_changes(&self) -> u64 {
        self.state.fleet_changes
    }

    pub fn live_jobs(&self) -> usize {
        self.state.jobs.len()
    }

    /// Whether the job has work left, stops that are not confirmed included.
    pub fn is_live(&self, id: JobId) -> bool {
        self.state.jobs.contains_key(&id)
    }

    /// Whether the job is live, and what became of the jobs that it names has been decided for it:
    /// after some turns and a commit, a job that can no longer run is not live.
    pub fn goes_on(&self, id: JobId) -> bool {
        let Some(job) = self.state.jobs.get(&id).filter(|job| !job.is_terminal()) else {
            return false;
        };
        if !job.waits_for_others() && !job.awaits_counterparts() {
            return true;
        }
        if matches!(dependants::verdict_of(&self.state, job), Verdict::Never(..)) {
            return false;
        }
        let backlog = &self.settle.backlog;
        let is_told = |named: JobId| {
            let mut slots = backlog.counterparts.range((named, 0)..=(named, u32::MAX));
            !backlog.named.contains_key(&named) && slots.next().is_none()
        };
        let conditions = job.extras.conditions.as_ref();
        let list = conditions.map_or(&[][..], |conditions| &conditions.list);
        list.iter().all(|awaited| is_told(awaited.job)) && !backlog.walks.contains_key(&id)
    }

    pub fn live_executions(&self) -> usize {
        self.state.executions.len()
    }

    /// Visits every live record; meant to run once, after a restore.
    pub fn census(&self) -> Census {
        census::census(&self.state)
    }

    /// Visits every class in which a job waits, every node, and every pinned slot, but never a
    /// whole queue.
    pub fn waiting(&self, now: Moment) -> Waiting {
        census::waiting(&self.state, now)
    }

    /// Where the job stands; `None` if it is not live.
    pub fn standing(&self, id: JobId) -> Option<Standing> {
        standing::standing(&self.state, id)
    }

    /// Live jobs that name the group.
    pub fn jobs_of_group(&self, namespace: &str, name: &str) -> usize {
        let groups = &self.state.queue.groups;
        let group = groups.find(namespace, name).and_then(|id| groups.get(id));
        group.map_or(0, |group| group.jobs().len())
    }

    /// Who has the units of a concurrency group and who waits for one, at most this many of each;
    /// `None` where the scheduler knows no such group.
    pub fn group(&self, namespace: &str, name: &str, most: usize) -> Option<GroupUse> {
        group::group(&self.state, namespace, name, most)
    }

    /// What the live work of a namespace holds of its quota.
    pub fn quota_use(&self, namespace: &str) -> QuotaUse {
        self.state.queue.quotas.used(namespace)
    }

    /// The share of a namespace in millionths of the capacity in service, whatever its weight.
    pub fn share(&self, namespace: &str) -> u64 {
        self.state.queue.quotas.plain_share(namespace).millionths()
    }

    /// What namespaces hold, of the first in order of their names that have a quota or a weight.
    pub fn entitled(&self, most: usize) -> Vec<Entitled> {
        let quotas = &self.state.queue.quotas;
        let entitled = |namespace: &Arc<str>| Entitled {
            namespace: Arc::clone(namespace),
            to: quotas.entitlement(namespace),
            used: quotas.used(namespace),
            share: self.share(namespace),
        };
        quotas.entitled().iter().take(most).map(entitled).collect()
    }

    /// What waits for room, class by class, in the namespaces that the caller sees; at most this many
    /// classes. Visits every class in which a job waits, and a bounded number of jobs.
    pub fn demand(&self, limit: usize, sees: impl Fn(&str) -> bool) -> ClusterDemand {
        demand::demand(&self.state, limit, sees)
    }

    /// What placement would do with the job now.
    pub fn preview(&self, plan: &JobPlan, count: u32) -> Preview {
        dry_run::preview(&self.state, plan, count)
    }

    /// Whether such a job would be taken now.
    pub fn check_submission(
        &self,
        plan: &JobPlan,
        count: u32,
        rerun: Option<&Rerun>,
    ) -> Result<(), Refusal> {
        rules::quota::check(&self.state, plan, count, rerun)?;
        rerun.map_or(Ok(()), |rerun| rules::rerun::check(&self.state, plan, rerun))
    }

    /// Explanations that changed since the last call; `None` where no job waits any more. The driver
    /// calls it at intervals, not for each input.
    pub fn refresh_explanations(&mut self) -> Vec<(Want, Option<Arc<str>>)> {
        notice::refresh_explanations(&mut self.state)
    }

    /// Nodes that are kept free for work that has waited for too long.
    pub fn reserved_nodes(&self) -> impl Iterator<Item = NodeId> {
        census::reserved_nodes(&self.state)
    }

    /// How long a node may be silent before its lease ends; it sends three heartbeats per lease.
    pub fn lease(&self) -> Duration {
        self.state.lease()
    }

    /// The lease that the node holds.
    pub fn held_by(&self, id: NodeId) -> Option<NodeLease> {
        lease::held_by(&self.state, id)
    }

    /// Whether most nodes are silent, so that nothing is given up for now.
    pub fn is_mass_silence(&self) -> bool {
        self.state.is_mass_silence()
    }

    /// The orchestrator was paused or busy with one commit for this long.
    pub fn held_up(&mut self, now: Moment, for_how_long: Duration) {
        offer::held_up(&mut self.state, now, for_how_long);
    }
}
