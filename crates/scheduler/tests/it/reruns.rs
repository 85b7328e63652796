//! Jobs that run slots of another one again: which, under which indexes, and where.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use api_types::dependency::{Condition, Dependency, Indexes};
use api_types::execution::ComputeState;
use api_types::job::{JobSpec, JobStateType, JobType};
use api_types::rerun::{EXECUTION_COUNT, Only};
use api_types::{JobId, NodeId};
use control_plane::store::memory::spec_json;
use scheduler::input::{Answer, Input, Refusal, Submit};
use scheduler::rerun::{MAX_RANGES, Rerun, select};
use scheduler::slots::Slots;

use crate::specs::{batch, in_namespace, job, with_cpu};
use crate::world::World;

fn rerun_with(
    world: &mut World,
    spec: &JobSpec,
    slots: Slots,
    nodes: BTreeMap<u32, NodeId>,
) -> (JobId, Answer) {
    let mut spec = spec.clone();
    spec.meta.insert(EXECUTION_COUNT.to_owned(), "40".to_owned());
    if spec.job_type == JobType::Batch {
        spec.count = slots.len();
    }
    let (id, rerun) = (JobId::from_uuid(world.id()), Some(Arc::new(Rerun::new(slots, nodes))));
    let named = world.store.named_by(&spec);
    let submit = Submit { id, spec_json: spec_json(&spec), spec: spec.into(), named, rerun };
    (id, world.handle(Input::Submit(Box::new(submit))))
}

fn rerun(world: &mut World, spec: &JobSpec, slots: &str) -> JobId {
    let (id, answer) = rerun_with(world, spec, slots.parse().expect("indexes"), BTreeMap::new());
    assert!(matches!(answer, Answer::Submitted { .. }), "{answer:?}");
    id
}

/// The indexes that have run so far.
fn ran(world: &World, job: JobId) -> BTreeSet<u32> {
    world.executions(job).iter().map(|row| row.index).collect()
}

#[test]
fn exactly_the_named_slots_run_and_know_the_count_of_the_first_job() {
    let (mut world, nodes) = World::with_nodes(1);
    let again = rerun(&mut world, &with_cpu(batch(1), "1"), "3,17,19-20,39");
    let work = world.snapshot(nodes[0]).into_iter().map(|change| change.work.unwrap());
    let told: BTreeSet<_> = work.map(|work| (work.index, work.count)).collect();
    assert_eq!(told, [(3, 40), (17, 40), (19, 40), (20, 40)].into());
    let first = world.live(again)[0];
    world.complete(first);
    world.restart();
    world.heartbeat(nodes[0]);
    let work = world.snapshot(nodes[0]).into_iter().map(|change| change.work.unwrap());
    assert!(work.map(|work| work.count).all(|count| count == 40));
    while let Some(execution) = world.live(again).first().copied() {
        world.complete(execution);
    }
    assert_eq!(ran(&world, again), [3, 17, 19, 20, 39].into());
    assert_eq!(world.message(again), "all 5 executions completed");
}

#[test]
fn scattered_slots_survive_a_restart_and_fail_under_their_indexes() {
    let (mut world, nodes) = World::with_nodes(2);
    let odd: Slots = (0..40).filter(|index| index % 2 == 1).collect();
    let spec = JobSpec { max_failed: -1, ..with_cpu(batch(1), "2") };
    let (again, _) = rerun_with(&mut world, &spec, odd.clone(), BTreeMap::new());
    let chunks = world.store.outcomes_of(again);
    assert_eq!(chunks.slots(), odd, "stored with the job");
    let mut step = 0;
    while let Some(execution) = world.live(again).first().copied() {
        match step % 4 {
            0 => world.fail(execution),
            _ => world.complete(execution),
        }
        if step == 5 {
            world.restart();
        }
        nodes.iter().for_each(|node| drop(world.heartbeat(*node)));
        step += 1;
    }
    assert_eq!(ran(&world, again), odd.iter().collect());
    let outcomes = world.store.outcomes_of(again);
    assert_eq!(world.state(again), JobStateType::Failed);
    let failed = select(&odd, &outcomes, Only::Failed, None);
    assert_eq!((failed.len(), outcomes.tally(&odd).completed), (5, 15));

    // A rerun of the rerun.
    let (third, _) = rerun_with(&mut world, &spec, failed.clone(), BTreeMap::new());
    while let Some(execution) = world.live(third).first().copied() {
        world.complete(execution);
    }
    assert_eq!(ran(&world, third), failed.iter().collect());
    assert_eq!(world.state(third), JobStateType::Completed);
}

#[test]
fn slots_of_an_ops_job_run_again_on_their_nodes_also_if_they_were_never_placed() {
    let (mut world, nodes) = World::with_nodes(3);
    let limited = JobSpec { max_running: 1, ..job(JobType::Ops) };
    let first = world.submit(&limited);
    let execution = world.only_live(first);
    world.complete(execution);
    let done = world.row(execution).index;
    world.stop(first);
    let execution = world.only_live(first);
    world.report(execution, ComputeState::Cancelled);
    let known = world.store.slot_nodes(first);
    let slots = &world.store.jobs[&first].slots;
    assert_eq!(known.keys().copied().collect::<Slots>(), *slots);
    assert_eq!(known.values().copied().collect::<BTreeSet<_>>(), nodes.iter().copied().collect());

    let left = select(slots, &world.store.outcomes_of(first), Only::NotCompleted, None);
    let on: BTreeMap<_, _> = left.iter().map(|index| (index, known[&index])).collect();
    assert!(!left.contains(done) && left.len() == 2);
    let (again, answer) = rerun_with(&mut world, &job(JobType::Ops), left, on.clone());
    assert!(matches!(answer, Answer::Submitted { .. }), "{answer:?}");
    world.restart();
    nodes.iter().for_each(|node| drop(world.heartbeat(*node)));
    let placed = world.executions(again).into_iter().map(|row| (row.index, row.node));
    assert_eq!(placed.collect::<BTreeMap<_, _>>(), on);
    for execution in world.live(again) {
        world.complete(execution);
    }
    assert_eq!(world.state(again), JobStateType::Completed);
}

#[test]
fn a_rerun_of_an_ops_job_keeps_its_nodes_also_if_it_reads_the_results_of_another_job() {
    let (mut world, nodes) = World::with_nodes(3);
    let first = world.submit(&batch(1));
    world.complete(world.only_live(first));
    let depends_on = vec![Dependency {
        job_id: first,
        job: "first".to_owned(),
        condition: Condition::Completed,
        indexes: Indexes::All,
    }];
    let spec = JobSpec { depends_on, ..job(JobType::Ops) };
    let on = BTreeMap::from([(5, nodes[1])]);
    let (again, answer) = rerun_with(&mut world, &spec, "5".parse().unwrap(), on.clone());
    assert!(matches!(answer, Answer::Submitted { .. }), "{answer:?}");
    world.restart();
    nodes.iter().for_each(|node| drop(world.heartbeat(*node)));
    let placed = world.executions(again).into_iter().map(|row| (row.index, row.node));
    assert_eq!(placed.collect::<BTreeMap<_, _>>(), on);
    world.complete(world.only_live(again));
    assert_eq!(world.state(again), JobStateType::Completed);
}

#[test]
fn an_ops_slot_whose_node_is_gone_is_refused() {
    let (mut world, _) = World::with_nodes(1);
    let gone = NodeId::from_uuid(world.id());
    let nodes = BTreeMap::from([(7, gone)]);
    let (id, answer) = rerun_with(&mut world, &job(JobType::Ops), "7".parse().unwrap(), nodes);
    let refusal = world.refusal(answer);
    assert!(matches!(refusal, Refusal::SlotWithoutNode { index: 7, .. }), "{refusal:?}");
    assert!(!world.store.jobs.contains_key(&id));
}

#[test]
fn a_namespace_has_a_bounded_number_of_scattered_ranges_and_gets_room_back() {
    let mut world = World::new();
    let ranges = u32::try_from(MAX_RANGES / 2 + 1).unwrap();
    let odd: Slots = (0..ranges).map(|at| at * 2).collect();
    let spec = in_namespace("a", with_cpu(batch(1), "1"));
    let (first, answer) = rerun_with(&mut world, &spec, odd.clone(), BTreeMap::new());
    assert!(matches!(answer, Answer::Submitted { .. }), "{answer:?}");
    let (_, answer) = rerun_with(&mut world, &spec, odd.clone(), BTreeMap::new());
    let refusal = world.refusal(answer);
    assert!(refusal.to_string().contains("of namespace 'a' run scattered indexes"), "{refusal}");
    let other = in_namespace("b", spec.clone());
    let (other, answer) = rerun_with(&mut world, &other, odd.clone(), BTreeMap::new());
    assert!(matches!(answer, Answer::Submitted { .. }), "{answer:?}");
    world.stop(other);
    world.stop(first);
    world.pass(Duration::from_secs(1));
    let (last, answer) = rerun_with(&mut world, &spec, odd, BTreeMap::new());
    assert!(matches!(answer, Answer::Submitted { .. }), "{answer:?}");
    world.stop(last);
}
