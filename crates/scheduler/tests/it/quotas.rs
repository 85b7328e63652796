//! Quotas of namespaces: what they debit, who waits for them, and who may queue more.

use std::time::Duration;

use api_types::JobId;
use api_types::execution::ComputeState;
use api_types::gate::GateType;
use api_types::job::{JobSpec, JobStateType, JobType};
use control_plane::store::memory::spec_json;
use scheduler::input::{Input, Refusal, Submit};
use scheduler::{Entitlement, Quota};

use crate::specs::{batch, in_namespace, job, node, with_constraint, with_cpu, with_retries};
use crate::world::{SETTINGS, World};

const SECOND: Duration = Duration::from_secs(1);

fn put(world: &mut World, namespace: &str, quota: Quota) {
    world.entitle(namespace, Entitlement { quota, ..Entitlement::default() });
}

fn of_cpu(cpu_millis: u64) -> Quota {
    Quota { cpu_millis: Some(cpu_millis), ..Quota::default() }
}

fn live(world: &World, jobs: &[JobId]) -> Vec<usize> {
    jobs.iter().map(|job| world.live(*job).len()).collect()
}

fn gate(world: &World, job: JobId) -> Option<String> {
    let gates = world.scheduler.standing(job).expect("the job is live").gates;
    let of_quota = gates.iter().find(|gate| gate.gate_type == GateType::Quota);
    of_quota.map(|gate| gate.message.to_string())
}

fn refused(world: &mut World, spec: &JobSpec) -> Refusal {
    let id = JobId::from_uuid(world.id());
    let submit = Submit {
        id,
        spec: spec.clone().into(),
        spec_json: spec_json(spec),
        named: Vec::new(),
        rerun: None,
    };
    let answer = world.handle(Input::Submit(Box::new(submit)));
    world.refusal(answer)
}

#[test]
fn a_namespace_waits_for_its_quota_while_another_one_runs() {
    let (mut world, _) = World::with_nodes(3);
    put(&mut world, "default", of_cpu(4_500));
    let jobs = [world.submit(&batch(4)), world.submit(&batch(1))];
    let other = world.submit(&in_namespace("other", batch(4)));
    assert_eq!((live(&world, &jobs), world.live(other).len()), (vec![4, 0], 4));
    assert_eq!(world.state(jobs[1]), JobStateType::Queued);
    let says = "the quota of namespace 'default' allows no further execution now";
    assert_eq!(world.message(jobs[1]), says);
    let counted = "namespace 'default' uses 4 of 4.5 CPU; this needs 1";
    assert_eq!(gate(&world, jobs[1]).as_deref(), Some(counted));
    assert!(world.scheduler.standing(jobs[1]).expect("it is live").waits.is_none());
    // What it does not hold is left to others of the namespace.
    let small = world.submit(&with_cpu(batch(2), "500m"));
    assert_eq!(world.live(small).len(), 1);
    world.restart();
    world.complete(world.live(jobs[0])[0]);
    assert_eq!(live(&world, &jobs), [3, 1]);
    world.complete(world.live(jobs[0])[0]);
    assert_eq!(world.live(small).len(), 2);
    let gated = world.scheduler.waiting(world.now).gated;
    assert!(gated.values().all(|jobs| *jobs == 0), "{gated:?}");
}

#[test]
fn what_is_given_back_starts_a_job_on_another_node() {
    let mut world = World::new();
    let ours = world.join_node(&node(4.0, 4_000_000_000, &[("pool", "a")]));
    let theirs = world.join_node(&node(4.0, 4_000_000_000, &[("pool", "b")]));
    put(&mut world, "default", of_cpu(2_000));
    let pinned = |pool, spec| crate::specs::with_constraint(spec, "pool", pool);
    let first = world.submit(&pinned("a", batch(2)));
    let second = world.submit(&pinned("b", batch(1)));
    assert_eq!((world.on_node(ours), world.on_node(theirs)), (2, 0));
    world.complete(world.live(first)[0]);
    assert_eq!((world.on_node(ours), world.on_node(theirs)), (1, 1));
    assert_eq!(world.live(second).len(), 1);
}

#[test]
fn what_fits_goes_past_what_does_not_in_the_order_of_ranks() {
    let (mut world, nodes) = World::with_nodes(4);
    put(&mut world, "default", of_cpu(4_000));
    let running = world.submit(&batch(4));
    let large = world.submit(&with_cpu(batch(1), "3"));
    let small = world.submit(&with_cpu(batch(1), "900m"));
    let urgent = world.submit(&JobSpec { priority: 90, ..with_cpu(batch(1), "800m") });
    let never = world.submit(&with_cpu(batch(1), "5"));
    assert_eq!(live(&world, &[large, small, urgent, never]), [0, 0, 0, 0]);
    world.complete(world.live(running)[0]);
    assert_eq!(live(&world, &[large, small, urgent, never]), [0, 0, 1, 0]);
    world.complete(world.live(running)[0]);
    assert_eq!(live(&world, &[large, small, urgent, never]), [0, 1, 1, 0]);
    // Nothing is reserved for what waits for the quota, however long that takes.
    for job in [running, small, urgent] {
        world.live(job).into_iter().for_each(|execution| world.run(execution));
    }
    world.pass_with(Duration::from_secs(200), &nodes);
    assert!(world.reserved().is_empty());
    put(&mut world, "default", Quota::default());
    assert_eq!(world.live(large).len(), 1);
    assert_eq!(gate(&world, never), None);
}

/// Otherwise each search of a long backlog would come upon them again.
#[test]
fn what_a_search_may_not_place_is_held_in_the_same_turn() {
    let (mut world, _) = World::with_nodes(0);
    put(&mut world, "default", Quota { executions: Some(1), ..Quota::default() });
    let jobs: Vec<_> =
        (1..=100).map(|cpu| world.submit(&with_cpu(batch(1), &format!("{cpu}m")))).collect();
    let mut small = in_namespace("other", with_cpu(batch(1000), "1m"));
    small.tasks[0].resources.memory = "1kb".to_owned();
    let others = world.submit(&small);
    world.join_node(&node(4.0, 4_000_000_000, &[]));
    assert!((1..1000).contains(&world.live(others).len()), "the turn has no budget for all");
    assert_eq!(live(&world, &jobs).iter().sum::<usize>(), 1);
    assert!(jobs[1..].iter().all(|job| gate(&world, *job).is_some()));
}

#[test]
fn what_a_task_leaves_open_counts_with_the_largest_default() {
    let mut world = World::new();
    let tiny = world.join_node(&node(4.0, 4_000_000_000, &[]));
    put(&mut world, "default", of_cpu(1_200));
    let job = world.submit(&with_cpu(batch(4), ""));
    assert_eq!(world.live(job).len(), 2, "500m each");
    let mut generous = node(8.0, 4_000_000_000, &[]);
    generous.default_resources.cpu = 1.0;
    let large = world.join_node(&generous);
    world.complete(world.live(job)[0]);
    assert_eq!((world.on_node(tiny), world.on_node(large)), (1, 0));
    let counted = "namespace 'default' uses 0.5 of 1.2 CPU; this needs up to 1, the largest default of \
                   a node";
    assert_eq!(gate(&world, job).as_deref(), Some(counted));
    world.complete(world.live(job)[0]);
    assert_eq!(world.live(job).len(), 1);
    world.restart();
    assert_eq!(world.live(job).len(), 1);
}

#[test]
fn a_process_that_has_ended_holds_nothing_of_a_quota_but_its_execution() {
    let (mut world, _) = World::with_nodes(2);
    let quota = Quota { executions: Some(2), ..of_cpu(1_000) };
    put(&mut world, "default", quota);
    let jobs: Vec<_> = (0..3).map(|_| world.submit(&batch(1))).collect();
    let first = world.only_live(jobs[0]);
    world.run(first);
    world.process_ends(first);
    assert_eq!(live(&world, &jobs), [1, 1, 0]);
    let second = world.only_live(jobs[1]);
    world.run(second);
    world.process_ends(second);
    assert_eq!(live(&world, &jobs), [1, 1, 0]);
    let counted = "2 of 2 executions of namespace 'default' are live";
    assert_eq!(gate(&world, jobs[2]).as_deref(), Some(counted));
    world.restart();
    world.report(first, ComputeState::Completed);
    assert_eq!(world.live(jobs[2]).len(), 1);
}

#[test]
fn a_quota_can_be_lowered_and_raised() {
    let (mut world, _) = World::with_nodes(4);
    put(&mut world, "default", of_cpu(3_000));
    let job = world.submit(&batch(10));
    assert_eq!(world.live(job).len(), 3);
    put(&mut world, "default", of_cpu(1_000));
    assert_eq!(world.live(job).len(), 3, "a lower quota stops nothing");
    world.restart();
    for left in [2, 1, 1] {
        world.complete(world.live(job)[0]);
        assert_eq!(world.live(job).len(), left);
    }
    put(&mut world, "default", of_cpu(4_000));
    assert_eq!(world.live(job).len(), 4);
    put(&mut world, "default", Quota { executions: Some(0), ..Quota::default() });
    world.stop(job);
    assert_eq!(world.state(job), JobStateType::Stopped);
}

#[test]
fn a_job_with_a_slot_per_node_starts_when_a_quota_is_raised_right_after_a_restart() {
    let (mut world, _) = World::with_nodes(2);
    put(&mut world, "default", of_cpu(0));
    let ops = world.submit(&job(JobType::Ops));
    world.restart_before_the_first_tick(SETTINGS);
    put(&mut world, "default", of_cpu(4_000));
    world.handle(Input::Tick);
    assert_eq!(world.live(ops).len(), 2);
    assert_eq!(gate(&world, ops), None);
}

#[test]
fn ops_and_daemons_wait_for_a_quota_too() {
    let (mut world, nodes) = World::with_nodes(3);
    put(&mut world, "default", of_cpu(1_000));
    let before = world.submit(&batch(1));
    let ops = world.submit(&job(JobType::Ops));
    let daemon = world.submit(&job(JobType::Daemon));
    assert_eq!(live(&world, &[before, ops, daemon]), [1, 0, 0]);
    assert!(gate(&world, ops).is_some());
    world.restart();
    world.complete(world.only_live(before));
    for _ in &nodes {
        world.complete(world.only_live(ops));
        world.pass(SECOND);
    }
    assert_eq!(world.state(ops), JobStateType::Completed);
    assert_eq!(world.live(daemon).len(), 1);
    put(&mut world, "default", of_cpu(3_000));
    assert_eq!(world.live(daemon).len(), 3);
}

#[test]
fn what_is_given_back_while_many_jobs_are_to_be_held_goes_to_the_first_in_rank() {
    let mut world = World::new();
    world.join_node(&node(4.0, 4_000_000_000, &[]));
    let before = world.submit(&batch(1));
    let in_zone = |spec, cpu| with_constraint(with_cpu(spec, cpu), "zone", "a");
    world.join_node(&node(4.0, 4_000_000_000, &[("zone", "a")]));
    let other = world.submit(&in_namespace("other", in_zone(batch(1), "4")));
    world.is_checked = false;
    let ops = || in_zone(job(JobType::Ops), "4");
    for _ in 0..700 {
        world.submit(&ops());
    }
    let urgent = world.submit(&JobSpec { priority: 90, ..ops() });
    put(&mut world, "default", Quota { executions: Some(1), ..Quota::default() });
    world.complete(world.only_live(other));
    world.complete(world.only_live(before));
    world.is_checked = true;
    world.pass(SECOND);
    assert_eq!(world.live(urgent).len(), 1);
}

#[test]
fn more_than_may_be_queued_is_refused() {
    let (mut world, _) = World::with_nodes(2);
    let quota = Quota { executions: Some(2), queued: Some(5), ..Quota::default() };
    put(&mut world, "default", quota);
    let alone = refused(&mut world, &batch(6));
    let namespace = "default".to_owned();
    assert_eq!(alone, Refusal::TooManySlots { namespace: namespace.clone(), slots: 6, most: 5 });
    let job = world.submit(&with_retries(batch(5), 3));
    assert_eq!(world.scheduler.quota_use("default").queued, 3);
    let full = Refusal::QuotaExceeded { namespace, slots: 3, queued: 3, most: 5 };
    assert_eq!(refused(&mut world, &batch(3)), full);
    let second = world.submit(&batch(2));
    assert!(matches!(refused(&mut world, &batch(1)), Refusal::QuotaExceeded { .. }));
    assert!(matches!(refused(&mut world, &self::job(JobType::Ops)), Refusal::QuotaExceeded { .. }));
    world.submit(&in_namespace("other", batch(50)));
    // A retry is not a submission.
    world.fail(world.live(job)[0]);
    assert_eq!(world.state(job), JobStateType::Running);
    assert_eq!(world.scheduler.quota_use("default").queued, 5);
    world.restart();
    assert_eq!(world.scheduler.quota_use("default").queued, 5);
    world.stop(job);
    assert_eq!(live(&world, &[second]), [0], "what is stopped holds its executions until they end");
    assert_eq!(world.scheduler.quota_use("default").queued, 2);
}

#[test]
fn a_long_queue_is_not_visited_for_each_end() {
    let (mut world, _) = World::with_nodes(1);
    world.is_checked = false;
    put(&mut world, "default", of_cpu(1_000));
    let first = world.submit(&batch(1));
    let sizes = (0..1_500).map(|size| with_cpu(batch(1), &format!("{}m", 200 + size % 800)));
    let jobs: Vec<_> = sizes.map(|spec| world.submit(&spec)).collect();
    world.is_checked = true;
    world.bound = Some(64);
    world.complete(world.only_live(first));
    let placed = jobs.iter().filter(|job| !world.live(**job).is_empty()).count();
    assert_eq!((live(&world, &jobs[..5]), placed), (vec![1, 1, 1, 1, 0], 4));
    assert!(world.scheduler.next_wake(world.now) > world.now, "nothing is left over");
    world.restart();
    world.complete(world.only_live(jobs[0]));
    world.pass(SECOND);
    assert!(world.scheduler.quota_use("default").held.cpu_millis <= 1_000);
}

#[test]
fn classes_without_room_are_passed_over_several_turns() {
    let (mut world, _) = World::with_nodes(1);
    world.is_checked = false;
    put(&mut world, "default", of_cpu(100_000));
    let block = world.submit(&with_cpu(batch(1), "1"));
    for size in 0..700 {
        world.submit(&with_cpu(batch(1), &format!("{}", 110 + size)));
    }
    let last = world.submit(&with_cpu(batch(1), "4"));
    assert_eq!(world.live(last).len(), 0);
    world.is_checked = true;
    world.bound = Some(512 * 4);
    put(&mut world, "default", of_cpu(10_000_000));
    world.complete(world.only_live(block));
    world.pass(SECOND);
    assert_eq!(world.live(last).len(), 1);
    put(&mut world, "default", of_cpu(100_000));
    world.pass(SECOND);
    world.restart();
    world.pass(SECOND);
}
