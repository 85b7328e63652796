//! What reads see of the scheduler's memory: nodes, why queued jobs wait, and commits.
//!
//! The driver writes here after each commit, only what changed. Readers copy under short locks, so
//! they never wait for a commit.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, PoisonError, RwLock};

use api_types::node::Node;
use api_types::{NodeId, Timestamp};
use control_plane::store::Term;
use scheduler::demand::{Demand, Want};

use crate::changes::ChangeFeed;
use crate::driver::presence::Presence;
use crate::due_times::DueTimes;
use crate::feed::Feed;
use crate::records::Published;
use crate::specs::SpecCache;

#[derive(Default)]
pub struct View {
    nodes: RwLock<BTreeMap<NodeId, Arc<Node>>>,
    explanations: RwLock<HashMap<Want, Arc<str>>>,
    feed: Feed,
    changes: ChangeFeed,
    presence: Presence,
    specs: SpecCache,
    records: Published,
    due: DueTimes,
    term: RwLock<Arc<str>>,
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

    /// Tokens, namespaces and other records that are not the scheduler's.
    pub(crate) fn records(&self) -> &Published {
        &self.records
    }

    /// Which jobs and nodes changed, for those who watch.
    pub(crate) fn changes(&self) -> &ChangeFeed {
        &self.changes
    }

    /// Due times of schedules, on their way to the runner.
    pub(crate) fn due(&self) -> &DueTimes {
        &self.due
    }

    /// The term under which this process leads, as text for agents; empty before the first one.
    pub(crate) fn term(&self) -> Arc<str> {
        Arc::clone(&self.term.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn begin(&self, term: Term) {
        let term = format!("{:x}", term.0).into();
        *self.term.write().unwrap_or_else(PoisonError::into_inner) = term;
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

    /// Why jobs of the namespace with this demand wait; `None` when none of them does.
    pub fn explanation(&self, namespace: &str, demand: Demand) -> Option<Arc<str>> {
        let want = Want { namespace: namespace.into(), demand: Arc::new(demand) };
        self.explanations.read().unwrap_or_else(PoisonError::into_inner).get(&want).cloned()
    }

    /// Updates nodes; `None` for a forgotten one. Returns those whose record differs by more than a
    /// heartbeat.
    pub(crate) fn update_nodes(
        &self,
        changed: impl IntoIterator<Item = (NodeId, Option<Node>)>,
    ) -> Vec<NodeId> {
        let mut different = Vec::new();
        let mut nodes = self.nodes.write().unwrap_or_else(PoisonError::into_inner);
        for (id, node) in changed {
            let differs = match (nodes.get(&id), &node) {
                (Some(before), Some(now)) => !differ_by_heartbeat(before, now),
                (None, None) => false,
                (None, Some(_)) | (Some(_), None) => true,
            };
            if differs {
                different.push(id);
            }
            match node {
                Some(node) => nodes.insert(id, Arc::new(node)),
                None => nodes.remove(&id),
            };
        }
        different
    }

    /// Updates when nodes were last heard from.
    pub(crate) fn heard_from(&self, heard: Vec<(NodeId, Timestamp)>) {
        if heard.is_empty() {
            return;
        }
        let mut nodes = self.nodes.write().unwrap_or_else(PoisonError::into_inner);
        for (id, at) in heard {
            if let Some(node) = nodes.get_mut(&id) {
                // Copied only for those who are just reading it.
                Arc::make_mut(node).last_heartbeat = at.rfc3339();
            }
        }
    }

    /// Updates explanations; `None` where no job waits any more.
    pub(crate) fn update_explanations(
        &self,
        changed: impl IntoIterator<Item = (Want, Option<Arc<str>>)>,
    ) {
        let mut explanations = self.explanations.write().unwrap_or_else(PoisonError::into_inner);
        for (want, text) in changed {
            match text {
                Some(text) => explanations.insert(want, text),
                None => explanations.remove(&want),
            };
        }
    }

    /// A new term begins: the scheduler reports everything again, and reads that wait for
    /// a change query the store again.
    ///
    /// Records stay until the term has read its own, so no one is signed out in between.
    pub(crate) fn clear(&self) {
        self.specs.clear();
        self.due.clear();
        self.presence.clear();
        self.feed.wake_all();
        self.changes.note_everything();
        self.nodes.write().unwrap_or_else(PoisonError::into_inner).clear();
        self.explanations.write().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// Whether two records of a node differ in nothing but the time of the last heartbeat.
fn differ_by_heartbeat(before: &Node, now: &Node) -> bool {
    let Node {
        peer_info,
        name,
        node_type,
        labels,
        compute_node_info,
        service_version,
        membership,
        connection,
        eligibility,
        health,
        refused_agent,
        reserved_since,
        last_heartbeat: _,
        idle_since,
    } = now;
    before.compute_node_info == *compute_node_info
        && before.health == *health
        && before.connection == *connection
        && before.eligibility == *eligibility
        && before.membership == *membership
        && before.refused_agent == *refused_agent
        && before.reserved_since == *reserved_since
        && before.idle_since == *idle_since
        && before.labels == *labels
        && before.peer_info == *peer_info
        && before.name == *name
        && before.node_type == *node_type
        && before.service_version == *service_version
}

#[cfg(test)]
mod tests {
    use api_types::node::Eligibility;

    use super::*;
    use crate::http::example_node;

    #[test]
    fn a_heartbeat_alone_is_no_change_of_a_node() {
        let view = View::default();
        let node = example_node();
        let id = node.peer_info.id;
        let update = |node: Option<Node>| view.update_nodes([(id, node)]);
        assert!(update(None).is_empty());
        assert_eq!(update(Some(node.clone())), [id]);
        let heard = Node { last_heartbeat: "later".to_owned(), ..node.clone() };
        assert!(update(Some(heard.clone())).is_empty());
        assert_eq!(view.node(id).as_deref(), Some(&heard));
        let at = Timestamp(1_700_000_000_000_000_000);
        let unknown = NodeId::from_uuid(uuid::Uuid::from_u128(9));
        view.heard_from(vec![(unknown, at), (id, at)]);
        let heard = Node { last_heartbeat: at.rfc3339(), ..heard };
        assert_eq!(view.nodes().iter().map(|node| (**node).clone()).collect::<Vec<_>>(), [heard]);
        let cordoned = Node { eligibility: Eligibility::Cordoned, ..node };
        assert_eq!(update(Some(cordoned)), [id]);
        assert_eq!(update(None), [id]);
    }
}
