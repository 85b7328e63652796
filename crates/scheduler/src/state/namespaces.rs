//! The namespaces that have live work.
//!
//! What the jobs of one namespace say of a node counts by itself only while no other namespace has
//! work that could speak for the node.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;

/// Live jobs by namespace.
#[derive(Debug, Default)]
pub(crate) struct Namespaces(BTreeMap<Arc<str>, usize>);

// === impl Namespaces ===

impl Namespaces {
    /// A job of the namespace begins. Returns whether the namespace had none.
    pub(crate) fn enter(&mut self, namespace: &Arc<str>) -> bool {
        let jobs = self.0.entry(Arc::clone(namespace)).or_default();
        *jobs += 1;
        *jobs == 1
    }

    /// A job of the namespace is over.
    pub(crate) fn leave(&mut self, namespace: &Arc<str>) {
        if let Some(jobs) = self.0.get_mut(namespace) {
            *jobs -= 1;
            if *jobs == 0 {
                self.0.remove(namespace);
            }
        }
    }

    /// Whether no other namespace has live work.
    pub(crate) fn is_alone(&self, namespace: &str) -> bool {
        self.0.keys().all(|other| **other == *namespace)
    }

    /// The live jobs of each, for the invariants.
    pub(crate) fn counts(&self) -> &BTreeMap<Arc<str>, usize> {
        &self.0
    }
}
