//! Why nodes do not take another execution of one job, in groups with amounts.
//!
//! Only for the one job that a caller asks about: classes have one sentence ([`super::explain`]).

use alloc::borrow::ToOwned;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use api_types::NodeId;
use api_types::engine::{EngineType, PublisherType};
use api_types::node::{Connection, Eligibility, Membership};
use api_types::reason::{Amount, NAMED_NODES, NAMED_VALUES, Reason, ReasonGroup};
use api_types::selector::{Requirement, Test};
use api_types::source::SourceType;

use crate::demand::{Demand, Resource, Unmet};
use crate::state::fit::Obstacle;
use crate::state::node::LiveNode;

/// What prevents the placement of a job.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Reasons {
    /// The largest first.
    pub groups: Vec<ReasonGroup>,
    /// No node could ever take an execution, even while it is empty.
    pub hopeless: bool,
}

/// Collects the reasons of one job, node by node.
pub(crate) struct Collector<'a> {
    pub(crate) demand: &'a Demand,
    groups: BTreeMap<Key, Group<'a>>,
    nodes: u64,
    is_possible: bool,
}

/// Nodes with the same key share a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    reason: Reason,
    is_too_small: bool,
    unmet: Option<Missing>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Missing {
    /// The position of a requirement in the demand, which has each once: requirements may have
    /// hundreds of values, and are not compared for each node.
    Requirement(usize),
    Engine(EngineType),
    Publisher(PublisherType),
    Source(SourceType),
}

#[derive(Default)]
struct Group<'a> {
    nodes: u64,
    named: Vec<NodeId>,
    asked: u64,
    largest: u64,
    free: u64,
    found: BTreeSet<&'a str>,
}

// === impl Collector ===

impl<'a> Collector<'a> {
    pub(crate) fn new(demand: &'a Demand) -> Self {
        Self { demand, groups: BTreeMap::new(), nodes: 0, is_possible: false }
    }

    /// A node that would take an execution now.
    pub(crate) fn takes_it(&mut self) {
        self.nodes += 1;
        self.is_possible = true;
    }

    /// A node with room that takes none for a reason outside of it.
    pub(crate) fn has_room(&mut self, node: &'a LiveNode, reason: Reason) {
        self.is_possible = true;
        self.add(node, Key { reason, is_too_small: false, unmet: None }, None);
    }

    pub(crate) fn refuses(&mut self, node: &'a LiveNode, obstacle: &Obstacle<'_>) {
        if !self.is_possible {
            self.is_possible = node.could_ever_take(self.demand, obstacle);
        }
        let simple = |reason| (Key { reason, is_too_small: false, unmet: None }, None);
        let (key, resource) = match obstacle {
            Obstacle::Away(_) => simple(away(node)),
            Obstacle::Reserved => simple(Reason::Reserved),
            Obstacle::Unfit(unmet) => (self.unfit(*unmet), None),
            Obstacle::TooSmall(resource) | Obstacle::InUse(resource) => {
                let reason = reason_of(*resource);
                let is_too_small = matches!(obstacle, Obstacle::TooSmall(_));
                (Key { reason, is_too_small, unmet: None }, Some(*resource))
            }
        };
        self.add(node, key, resource);
    }

    fn unfit(&self, unmet: Unmet<'_>) -> Key {
        let (reason, unmet) = match unmet {
            Unmet::Label(unmet) => {
                let mut constraints = self.demand.fit.constraints.iter();
                let at = constraints.position(|constraint| core::ptr::eq(constraint, unmet));
                (Reason::Constraint, Missing::Requirement(at.unwrap_or_default()))
            }
            Unmet::Engine(engine) => (Reason::Engine, Missing::Engine(engine)),
            Unmet::Publisher(publisher) => (Reason::Publisher, Missing::Publisher(publisher)),
            Unmet::Source(source) => (Reason::Source, Missing::Source(source)),
        };
        Key { reason, is_too_small: false, unmet: Some(unmet) }
    }

    fn add(&mut self, node: &'a LiveNode, key: Key, resource: Option<Resource>) {
        self.nodes += 1;
        let found = self.requirement(&key).and_then(|it| node.row().record.labels.get(&it.key));
        let group = self.groups.entry(key).or_default();
        group.nodes += 1;
        if group.named.len() < NAMED_NODES {
            group.named.push(node.id());
        }
        if let Some(value) = found
            && group.found.len() < NAMED_VALUES
        {
            group.found.insert(value);
        }
        if let Some(resource) = resource {
            let need = self.demand.need.on(node.defaults());
            group.asked = group.asked.max(resource.amount_in(&need));
            let most = node.capacity().least(node.max_job());
            group.largest = group.largest.max(resource.amount_in(&most));
            group.free = group.free.max(resource.amount_in(&node.free().least(node.max_job())));
        }
    }

    fn requirement(&self, key: &Key) -> Option<&'a Requirement> {
        match key.unmet? {
            Missing::Requirement(at) => self.demand.fit.constraints.get(at),
            Missing::Engine(_) | Missing::Publisher(_) | Missing::Source(_) => None,
        }
    }

    pub(crate) fn finish(mut self) -> Reasons {
        let groups = core::mem::take(&mut self.groups).into_iter();
        let groups = groups.map(|(key, group)| group.finish(&key, self.requirement(&key)));
        let mut groups: Vec<_> = groups.collect();
        groups.sort_by_key(|group| core::cmp::Reverse(group.nodes));
        if self.nodes == 0 {
            groups.push(spoken(ReasonGroup {
                reason: Reason::NoNode.as_str().to_owned(),
                ..ReasonGroup::default()
            }));
        }
        Reasons { groups, hopeless: self.nodes > 0 && !self.is_possible }
    }
}

/// Why a node takes no new work at all.
fn away(node: &LiveNode) -> Reason {
    match (node.row().connection, node.row().membership, node.row().eligibility) {
        (Connection::Disconnected, _, _) => Reason::Disconnected,
        (Connection::Connected, Membership::Pending | Membership::Rejected, _) => {
            Reason::NotApproved
        }
        (Connection::Connected, Membership::Approved, Eligibility::Cordoned) => Reason::Cordoned,
        (Connection::Connected, Membership::Approved, Eligibility::Draining) => Reason::Draining,
        (Connection::Connected, Membership::Approved, Eligibility::Eligible) => Reason::BackingOff,
    }
}

fn spoken(group: ReasonGroup) -> ReasonGroup {
    ReasonGroup { message: group.sentence(), ..group }
}

// === impl Group ===

impl Group<'_> {
    fn finish(self, key: &Key, requirement: Option<&Requirement>) -> ReasonGroup {
        let amount = |count: u64| match key.reason {
            Reason::Cpu => Some(Amount::millicores(count)),
            Reason::Memory | Reason::Disk | Reason::Gpu => Some(Amount::Whole(count)),
            _ => None,
        };
        let (label, wanted) = match key.unmet {
            Some(Missing::Requirement(_)) => {
                (requirement.map(|it| it.key.clone()), requirement.map(wanted))
            }
            Some(Missing::Engine(engine)) => (Some(engine.to_string()), None),
            Some(Missing::Publisher(publisher)) => (Some(publisher.to_string()), None),
            Some(Missing::Source(source)) => (Some(source.to_string()), None),
            None => (None, None),
        };
        spoken(ReasonGroup {
            reason: key.reason.as_str().to_owned(),
            nodes: self.nodes,
            node_ids: self.named,
            message: String::new(),
            asked: amount(self.asked),
            largest: amount(self.largest),
            free: amount(self.free),
            key: label,
            wanted,
            found: self.found.into_iter().map(str::to_owned).collect(),
        })
    }
}

/// The requirement as a user would write it, with a bounded list of values.
fn wanted(requirement: &Requirement) -> String {
    let listed = |word: &str, values: &[String]| {
        let mut text = values.iter().take(NAMED_VALUES).cloned().collect::<Vec<_>>().join(", ");
        if let Some(more) = values.len().checked_sub(NAMED_VALUES).filter(|more| *more > 0) {
            text.push_str(&alloc::format!(", and {more} more"));
        }
        alloc::format!("{} {word} ({text})", requirement.key)
    };
    match &requirement.test {
        Test::In(values) if values.len() > 1 => listed("in", values),
        Test::NotIn(values) if values.len() > 1 => listed("notin", values),
        Test::In(_)
        | Test::NotIn(_)
        | Test::Exists
        | Test::Absent
        | Test::Greater(_)
        | Test::Less(_) => requirement.to_string(),
    }
}

const fn reason_of(resource: Resource) -> Reason {
    match resource {
        Resource::Cpu => Reason::Cpu,
        Resource::Memory => Reason::Memory,
        Resource::Disk => Reason::Disk,
        Resource::Gpu => Reason::Gpu,
    }
}
