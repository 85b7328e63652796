//! What reads see of the scheduler's memory: nodes, why queued jobs wait, and commits.
//!
//! The driver writes here after each commit, only what changed. Readers copy under short locks, so
//! they never wait for a commit.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, PoisonError, RwLock};

use api_types::NodeId;
use api_types::node::Node;
use scheduler::demand::Demand;

use crate::driver::presence::Presence;
use crate::feed::Feed;
use crate::specs::SpecCache;

#[derive(Default)]
pub struct View {
    nodes: RwLock<BTreeMap<NodeId, Arc<Node>>>,
    explanations: RwLock<HashMap<Arc<Demand>, Arc<str>>>,
    feed: Feed,
    presence: Presence,
    specs: SpecCache,
}

// === impl View ===

impl View {
    /// The record of heartbeat arrivals, which the listener writes for the driver.
    pub(crate) fn presence(&self) -> &Presence {
        &self.presence
    }

    /// Specifications that were read or submitted recently.
    pub(crate) fn specs(&self) -> &SpecCache {
        &self.specs
    }

    pub fn feed(&self) -> &Feed {
        &self.feed
    }

    /// Every compute node, in order of its ID.
    pub fn nodes(&self) -> Vec<Arc<Node>> {
        self.nodes.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    pub fn node(&self, id: NodeId) -> Option<Arc<Node>> {
        self.nodes.read().unwrap_or_else(PoisonError::into_inner).get(&id).cloned()
    }

    /// Why jobs with this demand wait; `None` when none of them does.
    pub fn explanation(&self, demand: &Demand) -> Option<Arc<str>> {
        self.explanations.read().unwrap_or_else(PoisonError::into_inner).get(demand).cloned()
    }

    /// Updates nodes; `None` for a forgotten one.
    pub(crate) fn update_nodes(&self, changed: impl IntoIterator<Item = (NodeId, Option<Node>)>) {
        let mut nodes = self.nodes.write().unwrap_or_else(PoisonError::into_inner);
        for (id, node) in changed {
            match node {
                Some(node) => nodes.insert(id, Arc::new(node)),
                None => nodes.remove(&id),
            };
        }
    }

    /// Updates explanations; `None` for a demand that no longer waits.
    pub(crate) fn update_explanations(
        &self,
        changed: impl IntoIterator<Item = (Arc<Demand>, Option<Arc<str>>)>,
    ) {
        let mut explanations = self.explanations.write().unwrap_or_else(PoisonError::into_inner);
        for (demand, text) in changed {
            match text {
                Some(text) => explanations.insert(demand, text),
                None => explanations.remove(&demand),
            };
        }
    }

    /// A new term begins: the scheduler reports everything again, and reads that wait for
    /// a change query the store again.
    pub(crate) fn clear(&self) {
        self.specs.clear();
        self.presence.clear();
        self.feed.wake_all();
        self.nodes.write().unwrap_or_else(PoisonError::into_inner).clear();
        self.explanations.write().unwrap_or_else(PoisonError::into_inner).clear();
    }
}
