//! Invariants of shares: the order in which namespaces get room.

use api_types::quantity::Resources;

use crate::queue::heads::Limits;
use crate::rank::ClassId;
use crate::scheduler::Scheduler;
use crate::state::State;
use crate::state::node::LiveNode;

/// With more classes in which jobs wait, searches are not compared with scans: both have bounds then.
const MOST_SCANNED: usize = 1000;

/// Panics when shares are out of date, or when a search would pass over a class that comes first.
pub(super) fn check(scheduler: &Scheduler) {
    let state = &scheduler.state;
    let (quotas, lanes) = (&state.queue.quotas, &state.queue.lanes);
    let in_service = state.nodes.values().filter(|node| node.is_in_service());
    let total = in_service.fold(Resources::ZERO, |total, node| total.plus(node.capacity()));
    assert_eq!(*quotas.capacity.total(), total, "the capacity of all nodes in service");
    for (namespace, priority, share) in lanes.iter() {
        let is_known = lanes.is_stale() || share == quotas.share(namespace);
        assert!(is_known, "the share of '{namespace}' is another one at {priority:?}");
    }
    for (id, class) in state.queue.classes() {
        let first = class.waiting.first().filter(|_| !state.queue.is_held(*id));
        let expected = first.map(|first| (&class.namespace, first.priority));
        let lane = lanes.lane_of(*id).and_then(|lane| lanes.get(lane));
        assert_eq!(lane.map(|lane| lane.key()), expected, "the lane of class {id:?}");
    }
    if state.queue.waiting_classes().count() <= MOST_SCANNED {
        for node in state.nodes.values().filter(|node| node.takes_work()) {
            check_search(state, node);
        }
    }
}

/// Were the node empty, a search would find the class that a scan of all finds: no class of the same
/// priority and of a namespace with a smaller share is passed over if its first job fits there.
fn check_search(state: &State, node: &LiveNode) {
    let Some(bit) = node.bit() else { return };
    let (queue, id) = (&state.queue, node.id());
    let limits = Limits { room: *node.capacity(), defaults: *node.defaults() };
    let admits = |_, class: ClassId| queue.class(class).admits(id);
    let oldest = queue.first_for(bit, &limits, None, admits).found;
    let found = oldest.map(|oldest| queue.fairest(bit, &limits, oldest, admits).0.0);
    let heads = queue.waiting_classes().filter_map(|(class_id, class)| {
        let rank = queue.first_of(class_id)?;
        let is_here = queue.pool(class.pool).members.contains(bit) && class.admits(id);
        let fits = class.demand.need.on(node.defaults()).fits_in(node.capacity());
        (is_here && fits).then(|| queue.order(&class.namespace, rank))
    });
    let expected = heads.min().map(|order| order.rank);
    assert_eq!(found, expected, "what node {id} would take first");
}
