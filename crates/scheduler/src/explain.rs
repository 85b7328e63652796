//! Explains why a job waits: for each group of nodes, what prevents placement.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use api_types::JobId;
use api_types::NodeId;
use api_types::job::{DryRunNode, JobType};
use api_types::quantity::Resources;

use crate::Scheduler;
use crate::demand::Demand;
use crate::node::{LiveNode, Obstacle};
use crate::text::Text;

/// The most executions that a dry run distributes; beyond this the distribution is clear.
const PREVIEWED_EXECUTIONS: u32 = 10_000;

/// Node checks per refresh, one per class and node; they take well below a millisecond in total.
const CHECKS_PER_REFRESH: usize = 4096;

/// The most groups that one explanation names.
const NAMED_GROUPS: usize = 5;

// === impl Scheduler: explanations ===

impl Scheduler {
    /// Why the job waits. The first job of a class checks every node; later jobs of the class share
    /// its explanation.
    pub(crate) fn explain_job(&mut self, id: JobId) -> Text {
        let Some(job) = self.jobs.get(&id) else { return Text::Constant("") };
        let Some(class_id) = job.class else { return Text::Constant("") };
        let class = self.queue.class(class_id);
        let pinned: Vec<_> = job
            .pending
            .values()
            .filter(|slot| slot.due.is_none())
            .filter_map(|slot| self.nodes.get(&slot.pinned?))
            .collect();
        if !pinned.is_empty() {
            return explain(pinned.into_iter(), &class.demand).into();
        }
        if let Some(text) = &class.explanation {
            return Arc::clone(text).into();
        }
        let text = self.explain(&class.demand);
        if class.waiting.is_empty() {
            return text.into();
        }
        self.queue.explain(class_id, text).into()
    }

    /// Why this demand cannot be placed now.
    pub fn explain(&self, demand: &Demand) -> String {
        explain(self.nodes.values(), demand)
    }

    /// Explanations that changed since the last call; `None` for a class in which no job waits any
    /// more.
    ///
    /// Checks every node for each class in which jobs wait, up to [`CHECKS_PER_REFRESH`] in total;
    /// beyond that, successive calls cover the classes in rotation. The driver calls it at
    /// intervals, not for each input.
    pub fn refresh_explanations(&mut self) -> Vec<(Arc<Demand>, Option<Arc<str>>)> {
        let classes = (CHECKS_PER_REFRESH / self.nodes.len().max(1)).max(1);
        for id in self.queue.next_waiting_classes(classes) {
            let text = self.explain(&self.queue.class(id).demand);
            self.queue.explain(id, text);
        }
        core::mem::take(&mut self.queue.untold)
    }

    /// For each node, whether an execution of this demand would be placed there now, and if not,
    /// why.
    pub fn preview(&self, demand: &Demand, job_type: JobType, count: u32) -> Vec<DryRunNode> {
        let mut rooms: Vec<Room<'_>> = self
            .nodes
            .values()
            .filter(|node| node.obstacle(demand).is_none())
            .map(|node| Room::of(node, demand))
            .collect();
        match job_type {
            JobType::Ops | JobType::Daemon => rooms.iter_mut().for_each(|room| room.given = 1),
            JobType::Batch | JobType::Service => spread(&mut rooms, count),
        }
        let given: BTreeMap<NodeId, u32> =
            rooms.iter().map(|room| (room.node.id(), room.given)).collect();
        self.nodes
            .values()
            .map(|node| {
                let given = given.get(&node.id()).copied();
                DryRunNode {
                    node_id: node.id(),
                    chosen: given.is_some_and(|given| given > 0),
                    reason: match (node.obstacle(demand), given) {
                        (Some(obstacle), _) => obstacle.text(),
                        (None, Some(1)) => "would get 1 execution".to_owned(),
                        (None, None | Some(0)) => {
                            "has room, but emptier nodes come first".to_owned()
                        }
                        (None, Some(given)) => format!("would get {given} executions"),
                    },
                }
            })
            .collect()
    }
}

/// A node with room, and how much of that room a dry run has assigned.
struct Room<'a> {
    node: &'a LiveNode,
    need: Resources,
    given: u32,
    fits: u32,
}

impl<'a> Room<'a> {
    fn of(node: &'a LiveNode, demand: &Demand) -> Self {
        let need = demand.need.on(&node.defaults);
        let free = node.free();
        let times = |free: u64, need: u64| free.checked_div(need).unwrap_or(u64::MAX);
        let fits = times(free.cpu_millis, need.cpu_millis)
            .min(times(free.memory_bytes, need.memory_bytes))
            .min(times(free.disk_bytes, need.disk_bytes))
            .min(times(free.gpus, need.gpus));
        Self { node, need, given: 0, fits: u32::try_from(fits).unwrap_or(u32::MAX) }
    }

    /// The usage of its fullest resource, in thousandths.
    fn load(&self) -> u64 {
        let share = |used: u64, of: u64| {
            let used = u128::from(used) * 1000;
            u64::try_from(used / u128::from(of.max(1))).unwrap_or(u64::MAX)
        };
        let (used, of) = (&self.node.used, &self.node.capacity);
        let given = u64::from(self.given);
        share(used.cpu_millis + given * self.need.cpu_millis, of.cpu_millis)
            .max(share(used.memory_bytes + given * self.need.memory_bytes, of.memory_bytes))
    }
}

/// Assigns each execution to the emptiest node that has room left.
fn spread(rooms: &mut [Room<'_>], count: u32) {
    for _ in 0..count.min(PREVIEWED_EXECUTIONS) {
        let emptiest = rooms
            .iter_mut()
            .filter(|room| room.given < room.fits)
            .min_by_key(|room| (room.load(), room.given, room.node.id()));
        match emptiest {
            Some(room) => room.given += 1,
            None => return,
        }
    }
}

fn explain<'a>(nodes: impl Iterator<Item = &'a LiveNode>, demand: &Demand) -> String {
    let mut groups: BTreeMap<Obstacle, usize> = BTreeMap::new();
    let mut total = 0;
    let mut open = 0;
    for node in nodes {
        total += 1;
        match node.obstacle(demand) {
            Some(obstacle) => *groups.entry(obstacle).or_default() += 1,
            None => open += 1,
        }
    }
    if total == 0 {
        return "no node has joined".to_owned();
    }
    let hopeless = open == 0
        && groups
            .keys()
            .all(|obstacle| matches!(obstacle, Obstacle::Unfit(_) | Obstacle::TooSmall(_)));
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|(obstacle, count)| (core::cmp::Reverse(*count), obstacle.clone()));
    let unnamed = groups.len().saturating_sub(NAMED_GROUPS);
    let mut parts: Vec<String> = Vec::new();
    for (at, (obstacle, count)) in groups.iter().take(NAMED_GROUPS).enumerate() {
        let text = obstacle.text();
        parts.push(match at {
            0 => format!("{count} of {total} node{}: {text}", if total == 1 { "" } else { "s" }),
            _ => format!("{count}: {text}"),
        });
    }
    if unnamed > 0 {
        parts.push(format!("{unnamed} more reasons"));
    }
    if open > 0 {
        parts.push(format!("{open}: has room, others come first"));
    }
    let mut text = parts.join("; ");
    if hopeless {
        text.push_str(" (no node that has joined can ever take it)");
    }
    text
}

// === impl Obstacle ===

impl Obstacle {
    fn text(&self) -> String {
        match self {
            Self::Away(why) => (*why).to_owned(),
            Self::Unfit(why) => why.clone(),
            Self::TooSmall(what) => format!("not enough {what} (even when empty)"),
            Self::InUse(what) => format!("not enough {what} (in use)"),
        }
    }
}
