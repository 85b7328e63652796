//! Where one live job stands: since when it waits, who comes before it, and what each node lacks.
//!
//! For one caller at a time, and so for one job: it visits every node once, and of the queues no
//! more than [`COUNTED`] entries.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::vec::Vec;
use core::cmp::Ordering;
use core::ops::Bound;
use core::time::Duration;

use api_types::gate::GateType;
use api_types::job::DryRunNode;
use api_types::reason::Reason;
use api_types::{JobId, NodeId, Timestamp};

use crate::rank::Rank;
use crate::state::job::LiveJob;
use crate::state::node::LiveNode;
use crate::state::{State, gate};
use crate::text::Text;
use crate::time::Moment;
use crate::views::reasons::{Collector, Reasons};

/// Queue entries that are counted; with more jobs ahead, the count says so. Well below a
/// millisecond.
const COUNTED: u32 = 10_000;

/// What a live job waits for.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Standing {
    /// `None` while none of its slots waits for room.
    pub waits: Option<Waits>,
    /// What holds slots back that could be placed otherwise.
    pub gates: Vec<Held>,
    /// What each node lacks for another execution of the job.
    pub nodes: Vec<DryRunNode>,
    /// The same in groups.
    pub reasons: Reasons,
}

/// The slots of a job that wait for room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waits {
    /// How long slots have waited without interruption.
    pub waited: Duration,
    pub slots: u32,
    pub ahead: Ahead,
    /// The node that is kept free for the job.
    pub reserved: Option<NodeId>,
}

/// The slots of a job that a gate holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    pub gate_type: GateType,
    pub slots: u32,
    /// Wall time.
    pub since: Timestamp,
    pub message: Text,
}

/// The waiting jobs that need the same kind of node and come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ahead {
    pub jobs: u32,
    /// There are more, which were not counted.
    pub more: bool,
}

// === Standing ===

/// Where the job stands; `None` if it is not live.
pub(crate) fn standing(state: &State, id: JobId) -> Option<Standing> {
    let job = state.jobs.get(&id)?;
    // Only a job that is over has none.
    let Some(class) = job.class() else {
        return Some(Standing::default());
    };
    let mut reasons = Collector::new(&state.queue.class(class).demand);
    let nodes = state.nodes.values();
    let nodes = nodes.filter_map(|node| chances(state, job, node, &mut reasons)).collect();
    // A job that waited for room before its group was full says so until it is placed.
    let lacks = gate::counted(state, job);
    let known = job.row().waiting_since.filter(|_| lacks.is_none());
    let waits = known.map(|since| Waits {
        waited: state.clock.since(since),
        slots: job.waiting_slots(),
        ahead: ahead_of(state, job),
        reserved: reserved_for_job(state, job),
    });
    let gates = gates_of(state, job, lacks);
    Some(Standing { waits, gates, nodes, reasons: reasons.finish() })
}

/// What holds slots of the job back; `lacks` if one of its groups or its quota does.
fn gates_of(state: &State, job: &LiveJob, lacks: Option<(GateType, Text)>) -> Vec<Held> {
    let gate = job.extras.gate();
    let held = |gate_type, slots, counted: Option<Text>| Held {
        gate_type,
        slots,
        since: gate.map_or(job.row().modify_time, |gate| gate.since),
        message: counted.unwrap_or_else(|| gate::message(state, job, gate_type)),
    };
    if job.waits_for_others() {
        let slots = job.waiting_slots() + job.slots_without_counterpart();
        return [held(GateType::DependsOn, slots, None)].into();
    }
    let mut gates = Vec::new();
    let has_slot = job.has_slot_to_place();
    let of_slots = if job.awaits_counterparts() { job.slots_without_counterpart() } else { 0 };
    let known = gate.map(|gate| gate.gate_type).filter(|_| of_slots == 0);
    if let Some((gate_type, text)) = lacks.filter(|_| has_slot && !job.is_at_limit()) {
        gates.push(held(gate_type, job.waiting_slots(), Some(text)));
    } else if has_slot && job.is_at_limit() && of_slots > 0 {
        gates.push(held(GateType::MaxRunning, job.waiting_slots(), None));
    } else if let Some(gate_type) = known {
        gates.push(held(gate_type, job.waiting_slots(), None));
    }
    if of_slots > 0 {
        gates.push(held(GateType::DependsOn, of_slots, None));
    }
    gates
}

/// Whether another execution of the job could be placed on the node. Jobs with one execution
/// per node ask only about nodes where one of their slots waits.
fn chances<'a>(
    state: &State,
    job: &LiveJob,
    node: &'a LiveNode,
    reasons: &mut Collector<'a>,
) -> Option<DryRunNode> {
    let id = node.id();
    if job.plan.is_per_node() && !job.extras.pending().iter().any(|slot| slot.pinned == Some(id)) {
        return None;
    }
    let stays_away = job.stays_away_from(id, state.clock);
    let reason = match node.obstacle(reasons.demand, Some(&job.plan), state.clock) {
        Some(obstacle) => {
            reasons.refuses(node, &obstacle);
            obstacle.text()
        }
        None if stays_away => {
            reasons.has_room(node, Reason::Excluded);
            "has room, but its slots failed here and stay away".to_owned()
        }
        None if job.row().waiting_since.is_some() => {
            reasons.has_room(node, Reason::Ahead);
            "has room, others come first".to_owned()
        }
        None if let Some(gate) = job.extras.gate() => {
            reasons.takes_it();
            format!("has room, but {} holds executions back", gate.gate_type)
        }
        None => {
            reasons.takes_it();
            let reason = "has room".to_owned();
            return Some(DryRunNode { node_id: id, chosen: true, reason });
        }
    };
    Some(DryRunNode { node_id: id, chosen: false, reason })
}

fn ahead_of(state: &State, job: &LiveJob) -> Ahead {
    let Some(own) = job.class().and_then(|id| state.queue.find_class(id)) else {
        return Ahead::default();
    };
    let share = state.queue.quotas.share(&job.plan.namespace);
    let mut ahead = Ahead::default();
    let mut visited = 0;
    for (id, class) in state.queue.waiting_classes() {
        visited += 1;
        if class.pool == own.pool && !state.queue.is_held(id) {
            let left = (COUNTED - visited) as usize;
            let rank = job.plan.rank;
            let end = match state.queue.quotas.share(&class.namespace).cmp(&share) {
                Ordering::Equal => Bound::Excluded(rank),
                Ordering::Less => Bound::Included(Rank::last_of(rank.priority)),
                Ordering::Greater => Bound::Excluded(Rank::first_of(rank.priority)),
            };
            let jobs = class.waiting.range((Bound::Unbounded, end)).take(left).count();
            let jobs = u32::try_from(jobs).unwrap_or(u32::MAX);
            ahead.jobs += jobs;
            visited += jobs;
        }
        if visited >= COUNTED {
            return Ahead { more: true, ..ahead };
        }
    }
    ahead
}

fn reserved_for_job(state: &State, job: &LiveJob) -> Option<NodeId> {
    let is_for_it =
        |node: &&LiveNode| node.reservation().is_some_and(|held| held.rank == job.plan.rank);
    state.nodes.values().find(is_for_it).map(LiveNode::id)
}

// === impl LiveJob: what waits ===

impl LiveJob {
    /// Slots that wait for room, not for the end of a delay.
    fn waiting_slots(&self) -> u32 {
        let tried = self.extras.pending().iter().filter(|slot| slot.due.is_none()).count();
        self.fresh_slots().saturating_add(u32::try_from(tried).unwrap_or(u32::MAX))
    }

    /// Slots that wait for those of other jobs, one by one.
    fn slots_without_counterpart(&self) -> u32 {
        self.untried_slots() - self.fresh_slots()
    }

    /// Whether every slot that waits has failed on the node and excludes it for a while.
    fn stays_away_from(&self, node: NodeId, now: Moment) -> bool {
        let mut waiting = self.extras.pending().iter().filter(|slot| slot.due.is_none()).peekable();
        self.fresh_slots() == 0
            && waiting.peek().is_some()
            && waiting.all(|slot| slot.tries.exclusions.nodes(now).contains(&node))
    }
}
