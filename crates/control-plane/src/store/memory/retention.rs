//! What the store in memory removes, and in which order.

use std::collections::BTreeMap;

use api_types::JobId;
use scheduler::change::JobRow;
use scheduler::time::Moment;

use super::MemoryStore;
use crate::store::{Removed, Retention};

impl MemoryStore {
    /// The finished job that exceeds the bounds and goes first: the oldest, by age; otherwise the
    /// oldest of the namespace with the most.
    fn expired(&self, now: Moment, retention: &Retention) -> Option<JobId> {
        let kept = self.kept();
        let is_free = |row: &&JobRow| !kept.contains_key(&row.id);
        let ended = || {
            let rows = self.jobs.values().filter(is_free);
            rows.filter_map(|row| Some((row.ended_at?, row.id)))
        };
        let oldest = retention.oldest(now);
        if let Some((end, job)) = ended().min()
            && oldest.is_some_and(|oldest| end < oldest)
        {
            return Some(job);
        }
        let mut by_namespace: BTreeMap<Option<&str>, Vec<(Moment, JobId)>> = BTreeMap::new();
        for job in ended() {
            let new = self.new_jobs.get(&job.1);
            by_namespace.entry(new.map(|new| new.namespace.as_str())).or_default().push(job);
        }
        let count: usize = by_namespace.values().map(Vec::len).sum();
        if retention.count.is_none_or(|most| count as u64 <= most) {
            return None;
        }
        let largest = by_namespace.into_iter().rev().max_by_key(|(_, jobs)| jobs.len());
        largest.and_then(|(_, jobs)| jobs.into_iter().min()).map(|(_, job)| job)
    }

    /// Removal in memory is immediate, so a job goes as a whole and counts as one row.
    pub(super) fn remove_jobs(&mut self, now: Moment, retention: &Retention, rows: u32) -> Removed {
        let mut removed = Removed::default();
        while let Some(job) = self.expired(now, retention) {
            if removed.count == rows {
                removed.more = true;
                break;
            }
            self.remove(job);
            removed.count += 1;
        }
        removed
    }

    pub(super) fn remove_keys(&mut self, oldest: Moment, limit: u32) -> Removed {
        let old = self.keys.values().filter(|row| row.stored_at < oldest);
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let mut old: Vec<_> =
            old.take(limit.saturating_add(1)).map(|row| row.key.clone()).collect();
        let more = old.len() > limit;
        old.truncate(limit);
        for key in &old {
            self.keys.remove(key);
        }
        Removed { count: u32::try_from(old.len()).unwrap_or(u32::MAX), more }
    }

    fn remove(&mut self, job: JobId) {
        self.jobs.remove(&job);
        self.new_jobs.remove(&job);
        self.numbers.remove(&job);
        self.executions.retain(|_, row| row.job != job);
        let executions = &self.executions;
        self.outputs.retain(|id, _| executions.contains_key(id));
        self.successors.retain(|id, _| executions.contains_key(id));
        self.pending_slots.retain(|(of, _), _| *of != job);
        self.outcomes.retain(|(of, _), _| *of != job);
        self.first_failures.remove(&job);
        self.graphs.iter_mut().for_each(|graph| graph.jobs.retain(|(_, of)| *of != job));
        self.graphs.retain(|graph| !graph.jobs.is_empty());
        self.unplaced.retain(|(of, _), _| *of != job);
        self.events.retain(|event| event.job() != Some(job));
    }
}
