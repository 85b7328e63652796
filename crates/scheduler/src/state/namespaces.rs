//! The namespaces that have live work.
//!
//! What the jobs of one namespace say of a node counts by itself only while no other namespace has
//! work that could speak for the node.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;

#[derive(Debug, Default)]
pub(crate) struct Namespaces {
    /// Live jobs by namespace.
    jobs: BTreeMap<Arc<str>, usize>,
    /// The ranges of scattered slots that they have, of namespaces with any.
    ranges: BTreeMap<Arc<str>, u64>,
}

// === impl Namespaces ===

impl Namespaces {
    /// A job of the namespace begins. Returns whether the namespace had none.
    pub(crate) fn enter(&mut self, namespace: &Arc<str>) -> bool {
        let jobs = self.jobs.entry(Arc::clone(namespace)).or_default();
        *jobs += 1;
        *jobs == 1
    }

    /// A job of the namespace is over.
    pub(crate) fn leave(&mut self, namespace: &Arc<str>, ranges: u64) {
        if let Some(jobs) = self.jobs.get_mut(namespace) {
            *jobs -= 1;
            if *jobs == 0 {
                self.jobs.remove(namespace);
            }
        }
        if let Some(all) = self.ranges.get_mut(namespace) {
            *all = all.saturating_sub(ranges);
            if *all == 0 {
                self.ranges.remove(namespace);
            }
        }
    }

    /// A job of the namespace has these ranges of scattered slots.
    pub(crate) fn add_ranges(&mut self, namespace: &Arc<str>, ranges: u64) {
        if ranges > 0 {
            *self.ranges.entry(Arc::clone(namespace)).or_default() += ranges;
        }
    }

    pub(crate) fn ranges(&self, namespace: &str) -> u64 {
        self.ranges.get(namespace).copied().unwrap_or(0)
    }

    /// Whether no other namespace has live work.
    pub(crate) fn is_alone(&self, namespace: &str) -> bool {
        self.jobs.keys().all(|other| **other == *namespace)
    }

    /// The live jobs of each, for the invariants.
    pub(crate) fn counts(&self) -> &BTreeMap<Arc<str>, usize> {
        &self.jobs
    }
}
