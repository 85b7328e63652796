//! The nodes as pools see them: each has a bit in their sets, and those that take work are ordered
//! by load.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use api_types::NodeId;
use api_types::protocol::SessionRequest;
use fixedbitset::FixedBitSet;

use crate::demand::Fit;

/// The usage of a node's scarcest resource in thousandths, and its number of executions; emptier
/// nodes sort first.
pub(crate) type Load = (u32, u32);

/// The bit of a node in the sets of all pools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NodeBit(usize);

#[derive(Default)]
pub(crate) struct Nodes {
    listings: Vec<Option<Listing>>,
    unused: Vec<NodeBit>,
    /// Bits of nodes that are gone, which sets may still have.
    left: Vec<NodeBit>,
    /// Those that take work, emptier ones first.
    order: BTreeMap<(Load, NodeId), NodeBit>,
}

pub(crate) struct Listing {
    id: NodeId,
    /// The load under which the order has it; `None` while it takes no work.
    load: Option<Load>,
}

/// A set of nodes.
#[derive(Debug, Default)]
pub(crate) struct Members {
    bits: FixedBitSet,
    count: usize,
}

/// With fewer members than one of this many nodes, sorting the members is quicker than looking for
/// them among all.
const SPARSE: usize = 16;

// === impl Nodes ===

impl Nodes {
    pub(crate) fn enter(&mut self, id: NodeId) -> NodeBit {
        let placed = Some(Listing { id, load: None });
        match self.unused.pop() {
            Some(bit) => {
                self.listings[bit.0] = placed;
                bit
            }
            None => {
                self.listings.push(placed);
                NodeBit(self.listings.len() - 1)
            }
        }
    }

    pub(crate) fn leave(&mut self, bit: NodeBit) {
        self.list(bit, None);
        self.listings[bit.0] = None;
        self.left.push(bit);
    }

    /// The bits that were released since the last call: nodes that come may have them. No set may have
    /// them any more.
    pub(crate) fn take_left(&mut self) -> Vec<NodeBit> {
        let left = core::mem::take(&mut self.left);
        self.unused.extend(&left);
        left
    }

    /// Lists the node under this load, or not at all.
    pub(crate) fn list(&mut self, bit: NodeBit, load: Option<Load>) {
        let Some(placed) = &mut self.listings[bit.0] else { return };
        let (id, before) = (placed.id, core::mem::replace(&mut placed.load, load));
        if before == load {
            return;
        }
        if let Some(before) = before {
            self.order.remove(&(before, id));
        }
        if let Some(load) = load {
            self.order.insert((load, id), bit);
        }
    }

    /// The load under which the node is listed.
    pub(crate) fn load(&self, bit: NodeBit) -> Option<Load> {
        self.listings[bit.0].as_ref()?.load
    }

    pub(crate) fn count(&self) -> usize {
        self.listings.len() - self.unused.len() - self.left.len()
    }

    /// The members of the set that take work, emptier ones first.
    pub(crate) fn emptiest_first(&self, members: &Members) -> impl Iterator<Item = NodeId> {
        let is_sparse = members.count * SPARSE < self.order.len();
        let listed = |bit: usize| {
            let Listing { id, load } = self.listings[bit].as_ref()?;
            Some((load.as_ref().copied()?, *id))
        };
        let mut few: Vec<_> = match is_sparse {
            true => members.bits.ones().filter_map(listed).collect(),
            false => Vec::new(),
        };
        few.sort_unstable();
        let all = if is_sparse { None } else { Some(&self.order) };
        let many = all.into_iter().flatten().filter(|(_, bit)| members.contains(**bit));
        few.into_iter().chain(many.map(|(listed, _)| *listed)).map(|(_, id)| id)
    }
}

// === impl Members ===

impl Members {
    pub(crate) fn contains(&self, bit: NodeBit) -> bool {
        self.bits.contains(bit.0)
    }

    pub(crate) fn set(&mut self, bit: NodeBit, is_member: bool) {
        if self.contains(bit) == is_member {
            return;
        }
        self.bits.grow(bit.0 + 1);
        self.bits.set(bit.0, is_member);
        match is_member {
            true => self.count += 1,
            false => self.count -= 1,
        }
    }
}

/// Whether a node with this record is suitable for such work.
pub(crate) fn suits(fit: &Fit, record: &SessionRequest) -> bool {
    let info = &record.compute_node_info;
    let (engines, publishers) = (&info.execution_engines, &info.publishers);
    fit.unmet(&record.labels, engines, publishers, &info.storage_sources).is_none()
}
