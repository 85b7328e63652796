//! Reserved nodes: no job waits for ever behind others that never stop coming.

use std::collections::BTreeMap;
use std::time::Duration;

use api_types::execution::ComputeState;
use api_types::job::{JobSpec, JobStateType, JobType};
use api_types::node::NodeAction;
use api_types::protocol::FailureCause;
use api_types::{ExecutionId, JobId, NodeId};
use scheduler::input::Input;
use scheduler::plan::JobPlan;
use scheduler::time::Moment;

use crate::specs::{batch, job, with_cpu};
use crate::world::World;

const SECOND: Duration = Duration::from_secs(1);
const STARVATION: Duration = Duration::from_secs(60);

/// A cluster on which small jobs of one core never stop coming.
struct Busy {
    world: World,
    nodes: Vec<NodeId>,
    /// When each execution of a small job ends.
    running: BTreeMap<ExecutionId, Moment>,
    small: JobSpec,
    /// The longest run of the small ones; each is a little different.
    longest: u64,
    submitted: u64,
    /// Cores in use, summed over the seconds.
    used: u64,
    seconds: u64,
}

impl Busy {
    fn new(nodes: usize, small: JobSpec, longest: u64) -> Self {
        let (world, nodes) = World::with_nodes(nodes);
        let mut busy = Self {
            world,
            nodes,
            running: BTreeMap::new(),
            small: with_cpu(small, "1"),
            longest,
            submitted: 0,
            used: 0,
            seconds: 0,
        };
        for _ in 0..busy.nodes.len() * 8 {
            busy.submit_small();
        }
        for _ in 0..longest * 2 {
            busy.second();
        }
        (busy.used, busy.seconds) = (0, 0);
        busy
    }

    fn submit_small(&mut self) {
        self.submitted += 1;
        self.world.submit(&self.small.clone());
    }

    /// A second passes: what was offered runs, what has run for long enough completes, and as many
    /// small jobs come as have ended.
    fn second(&mut self) {
        for node in self.nodes.clone() {
            self.world.heartbeat(node);
        }
        self.world.pass(SECOND);
        let now = self.world.now;
        let due: Vec<_> =
            self.running.iter().filter(|(_, end)| **end <= now).map(|(id, _)| *id).collect();
        for execution in due {
            self.running.remove(&execution);
            self.world.report(execution, ComputeState::Completed);
            self.submit_small();
        }
        let rows = self.world.store.executions.values();
        let offered: Vec<_> = rows
            .filter(|row| {
                row.compute == ComputeState::AskForBid && row.resources.cpu_millis == 1000
            })
            .map(|row| row.id)
            .collect();
        for (nth, execution) in offered.into_iter().enumerate() {
            self.world.run(execution);
            let lasts = 1 + (self.submitted + nth as u64) * 7 % self.longest;
            self.running.insert(execution, now + Duration::from_secs(lasts));
        }
        let live = self.world.store.executions.values();
        let live = live.filter(|row| !row.compute.is_terminal());
        self.used += live.map(|row| row.resources.cpu_millis / 1000).sum::<u64>();
        self.seconds += 1;
    }

    /// Until the job has an execution; how long that took.
    fn until_placed(&mut self, job: JobId, most: Duration) -> Option<Duration> {
        let began = self.world.now;
        while self.world.live(job).is_empty() {
            if self.world.now.since(began) > most {
                return None;
            }
            self.second();
        }
        Some(self.world.now.since(began))
    }

    fn utilisation(&self) -> f64 {
        self.used as f64 / (self.seconds * self.nodes.len() as u64 * 4) as f64
    }
}

fn large() -> JobSpec {
    let mut large = with_cpu(batch(1), "4");
    large.priority = 60;
    large
}

fn with_timeout(mut spec: JobSpec, seconds: u64) -> JobSpec {
    spec.tasks[0].timeouts.execution_timeout = seconds;
    spec
}

#[test]
fn a_large_job_starts_although_small_ones_never_stop_coming() {
    let mut busy = Busy::new(10, batch(1), 30);
    let job = busy.world.submit(&large());
    let took = busy.until_placed(job, Duration::from_secs(600));
    let took = took.expect("it does not wait for ever");
    assert!(took <= STARVATION + Duration::from_secs(30 + 2), "{took:?}");
    assert!(took >= STARVATION, "nothing is reserved before: {took:?}");
    assert!(busy.utilisation() >= 0.8, "utilisation {}", busy.utilisation());
    let history = busy.world.comments(job);
    assert!(history.iter().any(|comment| comment.contains("is reserved for it")), "{history:?}");
}

#[test]
fn the_large_job_says_which_node_is_reserved_and_the_others_that_one_is() {
    let mut busy = Busy::new(2, batch(1), 100);
    let job = busy.world.submit(&large());
    for _ in 0..70 {
        busy.second();
    }
    let said = busy.world.explanation(job);
    assert!(said.contains("is reserved for the first in this queue since 20"), "{said}");
    while busy.world.on_node(busy.nodes[0]) + busy.world.on_node(busy.nodes[1]) == 8 {
        busy.second();
    }
    let small = busy.world.submit(&busy.small.clone());
    let said = busy.world.explanation(small);
    assert!(said.contains("1: reserved for work that has waited for longer"), "{said}");
    let small = busy.small.clone();
    let preview = busy.world.scheduler.preview(&JobPlan::from_spec(&small).unwrap(), small.count);
    let reserved = preview.nodes.iter().filter(|node| node.reason.contains("reserved")).count();
    assert_eq!(reserved, 1, "{preview:?}");
}

#[test]
fn short_work_fills_a_reserved_node_until_its_work_can_start() {
    // One core is taken for 500 s at most, three are free, and nothing else asks for them.
    let (mut world, nodes) = World::with_nodes(1);
    let long = world.submit(&with_cpu(with_timeout(batch(1), 500), "1"));
    let long = world.only_live(long);
    world.run(long);
    let waiting = world.submit(&large());
    world.pass_with(STARVATION + SECOND, &nodes);
    assert!(world.live(waiting).is_empty());
    let unbounded = world.submit(&with_cpu(batch(1), "1"));
    assert!(world.live(unbounded).is_empty(), "it might never end");
    let short = world.submit(&with_cpu(with_timeout(batch(1), 100), "2"));
    let short = world.only_live(short);
    let too_long = world.submit(&with_cpu(with_timeout(batch(1), 450), "500m"));
    assert!(world.live(too_long).is_empty(), "it could end after the node has room");
    world.complete(short);
    world.report(long, ComputeState::Completed);
    assert_eq!(world.live(waiting).len(), 1);
}

#[test]
fn what_fits_next_to_the_reserved_work_is_not_kept_off() {
    let (mut world, nodes) = World::with_nodes(1);
    let first = world.submit(&with_cpu(batch(1), "3"));
    let first = world.only_live(first);
    world.run(first);
    let mut spec = with_cpu(batch(1), "2");
    spec.priority = 60;
    let waiting = world.submit(&spec);
    world.pass_with(STARVATION + SECOND, &nodes);
    let other = world.submit(&with_cpu(batch(1), "1"));
    assert_eq!(world.live(other).len(), 1, "three cores are free when the first has ended");
    world.report(first, ComputeState::Completed);
    assert_eq!(world.live(waiting).len(), 1);
}

#[test]
fn a_node_with_services_in_the_way_is_not_reserved() {
    let (mut world, nodes) = World::with_nodes(2);
    for _ in 0..2 {
        let service = world.submit(&with_cpu(job(JobType::Service), "1"));
        for execution in world.live(service) {
            world.run(execution);
        }
    }
    // Both nodes run services, so that no node is ever empty.
    let waiting = world.submit(&large());
    world.pass_with(STARVATION * 3, &nodes);
    let small = world.submit(&with_cpu(batch(1), "1"));
    assert_eq!(world.live(small).len(), 1, "a reservation would be in vain");
    assert_eq!(world.state(waiting), JobStateType::Queued);
}

#[test]
fn a_reservation_ends_with_its_job_and_with_its_node() {
    let mut busy = Busy::new(2, batch(1), 100);
    let job = busy.world.submit(&large());
    for _ in 0..65 {
        busy.second();
    }
    let reserved = busy.world.reserved();
    assert_eq!(reserved.len(), 1);
    busy.world.act(reserved[0], NodeAction::Cordon);
    assert!(busy.world.reserved().is_empty());
    busy.second();
    busy.second();
    let other = busy.world.reserved();
    assert_eq!(other.len(), 1, "another node has its turn");
    assert_ne!(other, reserved);
    busy.world.stop(job);
    assert!(busy.world.reserved().is_empty());
}

#[test]
fn a_node_is_not_reserved_for_longer_than_ten_minutes() {
    let mut world = World::new();
    let record = crate::specs::node(4.0, 4_000_000_000, &[]);
    let nodes: Vec<_> = (0..2).map(|_| world.join_node(&record)).collect();
    for _ in 0..2 {
        let job = world.submit(&with_cpu(batch(1), "3"));
        let execution = world.only_live(job);
        world.run(execution);
    }
    world.submit(&large());
    world.pass_with(STARVATION + SECOND, &nodes);
    let first = world.reserved();
    assert_eq!(first.len(), 1, "one of two nodes at most");
    world.pass_with(Duration::from_secs(601), &nodes);
    let second = world.reserved();
    assert_eq!(second.len(), 1);
    assert_ne!(first, second, "what runs on the first may never end");
}

#[test]
fn a_slot_that_is_bound_to_its_node_does_not_starve_either() {
    let mut busy = Busy::new(2, batch(1), 20);
    let mut ops = with_cpu(job(JobType::Ops), "4");
    ops.priority = 60;
    let ops = busy.world.submit(&ops);
    let mut placed = std::collections::BTreeSet::new();
    for _ in 0..300 {
        for execution in busy.world.live(ops) {
            placed.insert(busy.world.row(execution).node);
            busy.world.complete(execution);
        }
        busy.second();
    }
    assert_eq!(placed.len(), 2, "it ran on each node");
}

#[test]
fn work_of_a_higher_rank_takes_the_only_reservation() {
    let mut busy = Busy::new(2, batch(1), 100);
    let low = busy.world.submit(&large());
    for _ in 0..30 {
        busy.second();
    }
    let mut urgent = with_cpu(batch(1), "3500m");
    urgent.priority = 90;
    let urgent = busy.world.submit(&urgent);
    for _ in 0..40 {
        busy.second();
    }
    assert!(busy.world.explanation(low).contains("is reserved for the first"));
    for _ in 0..30 {
        busy.second();
    }
    assert!(busy.world.explanation(urgent).contains("is reserved for the first"));
    assert!(!busy.world.explanation(low).contains("is reserved for the first"));
    assert_eq!(busy.world.reserved().len(), 1);
}

/// There is no other node for it, and what never stops coming is of a higher rank than the reserved
/// work.
#[test]
fn work_of_a_higher_rank_takes_the_node_that_is_reserved_for_a_lower_one() {
    for (cpu, queue) in [("4", "the same"), ("3500m", "another")] {
        let mut small = batch(1);
        small.priority = 70;
        let mut busy = Busy::new(1, small, 30);
        let low = busy.world.submit(&large());
        for _ in 0..65 {
            busy.second();
        }
        assert!(busy.world.explanation(low).contains("is reserved for the first"));
        let mut urgent = with_cpu(batch(1), cpu);
        urgent.priority = 90;
        let urgent = busy.world.submit(&urgent);
        let took = busy.until_placed(urgent, Duration::from_secs(200));
        let took = took.unwrap_or_else(|| panic!("a lower rank of {queue} queue holds the node"));
        assert!(took <= STARVATION + Duration::from_secs(30 + 5), "{took:?} in {queue} queue");
        let history = busy.world.comments(low);
        assert!(history.iter().any(|line| line.contains("work of a higher rank starves")));
    }
}

/// The end of an exclusion moves what waits to another queue.
#[test]
fn a_reservation_outlives_the_exclusion_of_another_node() {
    let mut world = World::new();
    let record = crate::specs::node(4.0, 4_000_000_000, &[]);
    let first = world.join_node(&record);
    let large = world.submit(&large());
    let second = world.join_node(&record);
    let nodes = [first, second];
    let small = with_cpu(batch(1), "1");
    let early: Vec<_> = (0..4).map(|_| world.submit(&small)).collect();
    for job in &early {
        world.run(world.only_live(*job));
    }
    for pause in [30, 60, 0] {
        let execution = world.only_live(large);
        assert_eq!(world.row(execution).node, first);
        world.run(execution);
        world.report_as(execution, ComputeState::Failed, FailureCause::Fetch, "no space");
        world.pass_with(Duration::from_secs(pause) + SECOND, &nodes);
    }
    let others: Vec<_> = (0..8).map(|_| world.submit(&small)).collect();
    for job in &others[..4] {
        world.run(world.only_live(*job));
    }
    world.pass_with(STARVATION + SECOND * 2, &nodes);
    assert_eq!(world.reserved(), [second], "{}", world.explanation(large));
    for job in &early[1..] {
        world.complete(world.only_live(*job));
    }
    world.pass_with(STARVATION, &nodes);
    assert_eq!(world.reserved(), [second], "the exclusion of the first node ended");
    world.complete(world.only_live(early[0]));
    assert_eq!(world.row(world.only_live(large)).node, second);
}

#[test]
fn nothing_starves_for_a_node_that_is_forgotten() {
    let (mut world, nodes) = World::with_nodes(2);
    let fill = world.submit(&with_cpu(batch(2), "4"));
    for execution in world.live(fill) {
        world.run(execution);
    }
    world.submit(&with_cpu(job(JobType::Daemon), "1"));
    world.pass_with(STARVATION + SECOND, &nodes[1..]);
    world.handle(Input::ForgetNode { node: nodes[0], now: true });
    world.pass_with(STARVATION, &nodes[1..]);
}

#[test]
fn reservations_are_made_again_after_a_restart() {
    let mut busy = Busy::new(2, batch(1), 100);
    busy.world.submit(&large());
    for _ in 0..65 {
        busy.second();
    }
    assert_eq!(busy.world.reserved().len(), 1);
    busy.world.restart();
    for _ in 0..8 {
        busy.second();
    }
    assert_eq!(busy.world.reserved().len(), 1);
}
