//! Names of nodes: for people, unique among the nodes that are known.
//!
//! A node keeps the name that it got when it first joined until it is forgotten: no name changes at
//! a reconnect, and no node takes another's. The name is stored in the node's record, in the place
//! of the one that it asked for.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;

use api_types::NodeId;
use api_types::node::{MAX_NODE_NAME_BYTES, check_node_name};
use api_types::protocol::SessionRequest;

use crate::node_name::OWN_NAME;
use crate::state::State;

/// The label with the host's name, for agents of releases without names.
const HOSTNAME: &str = "hostname";

/// The stem of a name that nothing else provides.
const UNNAMED: &str = "node";

/// Characters of the ID that are added to a name that is taken; more where that is taken too.
const DIGITS: [usize; 3] = [4, 8, 32];

// === Names of nodes ===

/// The name of a node that joins: the one that it has, or else the one that it asks for, with
/// characters of its ID if that is taken.
pub(crate) fn node_name(state: &State, id: NodeId, request: &SessionRequest) -> String {
    let kept = state.nodes.get(&id).map(|node| &node.row().record.name);
    if let Some(kept) = kept.filter(|name| !name.is_empty()) {
        return kept.clone();
    }
    let hostname = request.labels.get(HOSTNAME).map_or("", String::as_str);
    let mut asked = [request.name.as_str(), hostname].into_iter();
    let asked = asked.find(|name| check_node_name(name).is_ok()).unwrap_or(UNNAMED);
    if !is_taken(state, id, asked) {
        return asked.to_owned();
    }
    let digits = id.uuid().simple().to_string();
    let names = DIGITS.map(|count| with_digits(asked, &digits[..count]));
    let is_free = |name: &&String| check_node_name(name).is_ok() && !is_taken(state, id, name);
    let free = names.iter().find(is_free);
    free.unwrap_or(&names[DIGITS.len() - 1]).clone()
}

/// Names the nodes of a store of an older release, until they join and the names are stored: in
/// the order of their IDs, so that each start finds the same ones.
pub(crate) fn name_nodes_without_names(state: &mut State) {
    let mut unnamed: Vec<NodeId> = state.nodes.keys().copied().collect();
    unnamed.sort_unstable();
    for id in unnamed {
        let Some(node) = state.nodes.get(&id) else { continue };
        let record = Arc::clone(&node.row().record);
        if !record.name.is_empty() {
            continue;
        }
        let name = node_name(state, id, &record);
        let record = Arc::new(SessionRequest { name, ..(*record).clone() });
        state.rename_node(id, record);
    }
}

fn is_taken(state: &State, id: NodeId, name: &str) -> bool {
    let others = state.nodes.iter().filter(|(other, _)| **other != id);
    name == OWN_NAME || others.map(|(_, node)| &node.row().record.name).any(|it| it == name)
}

/// The name, cut so that the digits fit.
fn with_digits(name: &str, digits: &str) -> String {
    let end = name.floor_char_boundary(MAX_NODE_NAME_BYTES - digits.len() - 1);
    format!("{}-{digits}", &name[..end])
}
