//! The quota of the namespace: its live executions never hold more.

use std::collections::BTreeMap;

use api_types::job::JobSpec;
use api_types::quota::Quota as Stated;
use control_plane::batch::{Content, NumberedCommit};
use control_plane::quotas;
use control_plane::records::{Expected, RecordKind, RecordWrite};
use control_plane::store::memory::MemoryStore;
use scheduler::Quota;
use scheduler::demand::Demand;
use scheduler::plan::JobPlan;

/// The namespace of all jobs.
pub(super) const NAMESPACE: &str = "default";

/// What a job says that waits for the quota.
pub(super) const SAYS: &str = "the quota of namespace";

/// CPU and executions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Used {
    pub(super) cpu_millis: u64,
    pub(super) executions: u64,
}

/// The quota, as the last commit leaves it.
#[derive(Default)]
pub(super) struct QuotaLimits {
    last: Quota,
    /// The most that may be used after the last commit: the largest quota that held at some time
    /// in it, or what was in use before, since a lower quota stops nothing.
    most: Option<Used>,
}

pub(super) fn quota(cpu_millis: Option<u64>, executions: Option<u32>) -> Quota {
    Quota { cpu_millis, executions: executions.map(u64::from), ..Quota::default() }
}

/// The change of the record of the namespace.
pub(super) fn write(cpu_millis: Option<u64>, executions: Option<u32>) -> RecordWrite {
    let cpu = cpu_millis.map(|millis| format!("{millis}m"));
    let quota = Stated { cpu, executions, ..Stated::default() };
    let key = RecordKind::Namespace.key(NAMESPACE);
    RecordWrite::json(key, Expected::Anything, &BTreeMap::from([("Quota", quota)]))
}

/// What the live executions of the store hold, without what the scheduler counts.
pub(super) fn used(store: &MemoryStore) -> Used {
    let live = store.executions.values().filter(|row| !row.compute.is_terminal());
    live.fold(Used::default(), |used, row| {
        let runs = row.process_ended_at.is_none();
        let cpu = if runs { row.resources.cpu_millis } else { 0 };
        Used { cpu_millis: used.cpu_millis + cpu, executions: used.executions + 1 }
    })
}

/// Sabotage: a job that has an execution is of another namespace after a restart.
pub(super) fn forget_usage(store: &mut MemoryStore) {
    let live = store.executions.values().filter(|row| !row.compute.is_terminal());
    for id in live.map(|row| row.job) {
        let Some(job) = store.new_jobs.get_mut(&id) else { continue };
        let mut spec: JobSpec = serde_json::from_str(&job.spec_json).expect("what was submitted");
        "forgotten".clone_into(&mut spec.namespace);
        job.plan = JobPlan::from_spec(&spec).expect("it was accepted").to_text().into();
    }
}

// === impl QuotaLimits ===

impl QuotaLimits {
    pub(super) fn last(&self) -> Quota {
        self.last
    }

    /// Notes the quotas of a commit, which may change several times, and what was used before it.
    pub(super) fn note(&mut self, commit: &NumberedCommit, before: Used) {
        let mut held = vec![self.last];
        if let Content::Batch(batch) = &commit.content {
            let key = RecordKind::Namespace.key(NAMESPACE);
            let rows = batch.records.iter().filter(|row| row.key == key);
            let entitled = rows.filter_map(|row| row.value.as_deref()).map(quotas::of_record);
            held.extend(entitled.map(|it| it.quota));
        }
        self.last = held.last().copied().unwrap_or_default();
        let largest = |of: fn(&Quota) -> Option<u64>| {
            held.iter().map(|quota| of(quota).unwrap_or(u64::MAX)).max().unwrap_or(u64::MAX)
        };
        self.most = Some(Used {
            cpu_millis: largest(|quota| quota.cpu_millis).max(before.cpu_millis),
            executions: largest(|quota| quota.executions).max(before.executions),
        });
    }

    /// Panics if more is in use than may be.
    pub(super) fn check(&self, store: &MemoryStore) {
        let Some(most) = self.most else { return };
        let used = used(store);
        let is_kept = used.cpu_millis <= most.cpu_millis && used.executions <= most.executions;
        assert!(is_kept, "the namespace uses {used:?}, and its quota allows {most:?}");
    }

    /// Whether an execution of the job fits into what is left. What a node would give is not known.
    pub(super) fn has_room_for(&self, spec: &JobSpec, used: Used) -> bool {
        let need = || Demand::from_spec(spec).ok().and_then(|it| it.need.cpu_millis);
        let fits = |most| need().is_some_and(|need| used.cpu_millis + need <= most);
        self.last.cpu_millis.is_none_or(fits)
            && self.last.executions.is_none_or(|most| used.executions < most)
    }
}
