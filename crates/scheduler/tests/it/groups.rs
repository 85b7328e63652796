//! Concurrency groups: units, those that wait for one, and jobs that replace others.

use std::time::Duration;

use api_types::JobId;
use api_types::execution::ComputeState;
use api_types::gate::GateType;
use api_types::job::{JobSpec, JobStateType, JobType, OnConflict};
use control_plane::store::memory::spec_json;
use scheduler::input::{Answer, Input, Refusal, Submit};
use scheduler::plan::JobPlan;
use scheduler::{Entitlement, Quota};

use crate::specs::{batch, job, node, with_constraint, with_cpu, with_retries};
use crate::world::{SETTINGS, World};

const SECOND: Duration = Duration::from_secs(1);

fn put(world: &mut World, name: &str, limit: u32) {
    world.groups.insert(name.to_owned(), limit);
    let group = |limit| Input::Group { namespace: "default".into(), name: name.into(), limit };
    assert_eq!(world.handle(group(Some(limit))), Answer::Done);
}

fn delete(world: &mut World, name: &str) -> Answer {
    let input = Input::Group { namespace: "default".into(), name: name.into(), limit: None };
    let answer = world.handle(input);
    if answer == Answer::Done {
        world.groups.remove(name);
    }
    answer
}

fn within(groups: &[&str], spec: JobSpec) -> JobSpec {
    let concurrency_groups = groups.iter().map(|name| (*name).to_owned()).collect();
    JobSpec { concurrency_groups, ..spec }
}

fn replacing(spec: JobSpec) -> JobSpec {
    JobSpec { on_conflict: OnConflict::Replace, ..within(&["db"], spec) }
}

fn live(world: &World, jobs: &[JobId]) -> Vec<usize> {
    jobs.iter().map(|job| world.live(*job).len()).collect()
}

fn gate(world: &World, job: JobId) -> Option<String> {
    let gates = world.scheduler.standing(job).expect("the job is live").gates;
    let of_group = gates.iter().find(|gate| gate.gate_type == GateType::ConcurrencyGroup);
    of_group.map(|gate| gate.message.to_string())
}

#[test]
fn jobs_of_a_group_share_its_units_in_the_order_of_their_rank() {
    let (mut world, _) = World::with_nodes(2);
    put(&mut world, "db", 2);
    let jobs: Vec<_> = (0..4).map(|_| world.submit(&within(&["db"], batch(1)))).collect();
    let urgent = JobSpec { priority: 90, ..within(&["db"], with_cpu(batch(1), "500m")) };
    let urgent = world.submit(&urgent);
    assert_eq!(live(&world, &jobs), [1, 1, 0, 0]);
    assert_eq!(world.state(jobs[2]), JobStateType::Queued);
    let says = "the concurrency group 'db' allows no further execution now";
    assert_eq!(world.message(jobs[2]), says);
    let counted = "2 of 2 executions of the concurrency group 'db' are live";
    assert_eq!(gate(&world, jobs[2]).as_deref(), Some(counted));
    assert!(world.scheduler.standing(jobs[2]).expect("it is live").waits.is_none());
    world.restart();
    assert_eq!(live(&world, &jobs), [1, 1, 0, 0]);
    world.complete(world.only_live(jobs[0]));
    assert_eq!((live(&world, &jobs), world.live(urgent).len()), (vec![0, 1, 0, 0], 1));
    world.complete(world.only_live(urgent));
    assert_eq!(live(&world, &jobs), [0, 1, 1, 0]);
    world.complete(world.only_live(jobs[1]));
    assert_eq!(live(&world, &jobs), [0, 0, 1, 1]);
    let gated = world.scheduler.waiting(world.now).gated;
    assert!(gated.values().all(|jobs| *jobs == 0), "{gated:?}");
}

#[test]
fn a_limit_can_be_raised_lowered_and_set_to_zero() {
    let (mut world, _) = World::with_nodes(4);
    put(&mut world, "db", 3);
    let job = world.submit(&within(&["db"], batch(10)));
    assert_eq!(world.live(job).len(), 3);
    put(&mut world, "db", 1);
    assert_eq!(world.live(job).len(), 3, "a lower limit stops nothing");
    for left in [2, 1, 1] {
        world.complete(world.live(job)[0]);
        assert_eq!(world.live(job).len(), left);
    }
    put(&mut world, "db", 0);
    world.complete(world.only_live(job));
    assert_eq!(world.live(job).len(), 0);
    let paused = "the concurrency group 'db' is paused: its limit is 0";
    assert_eq!(gate(&world, job).as_deref(), Some(paused));
    world.restart();
    put(&mut world, "db", 4);
    assert_eq!(world.live(job).len(), 4);
    put(&mut world, "db", 6);
    assert_eq!(world.live(job).len(), 6);
    world.stop(job);
    assert_eq!(world.state(job), JobStateType::Stopped);
}

/// Neither what holds a slot of each node nor its message may depend on a first tick.
#[test]
fn a_job_with_a_slot_per_node_starts_when_its_group_is_resumed_right_after_a_restart() {
    let (mut world, _) = World::with_nodes(2);
    put(&mut world, "db", 0);
    let ops = |cpu| within(&["db"], with_cpu(job(JobType::Ops), cpu));
    let (fits, large) = (world.submit(&ops("1")), world.submit(&ops("64")));
    world.restart_before_the_first_tick(SETTINGS);
    put(&mut world, "db", 4);
    world.handle(Input::Tick);
    assert_eq!(live(&world, &[fits, large]), [2, 0]);
    assert!(world.message(large).contains("not enough CPU"), "{}", world.message(large));
    assert_eq!(gate(&world, large), None);
}

#[test]
fn a_slot_takes_a_unit_of_each_group_or_of_none() {
    let (mut world, _) = World::with_nodes(2);
    put(&mut world, "a", 1);
    put(&mut world, "b", 1);
    let first = world.submit(&within(&["a"], batch(1)));
    let both = world.submit(&within(&["b", "a"], batch(1)));
    let other = world.submit(&within(&["b"], batch(1)));
    assert_eq!(live(&world, &[first, both, other]), [1, 0, 1], "it holds no unit of b");
    world.complete(world.only_live(first));
    assert_eq!(world.live(both).len(), 0);
    let says = gate(&world, both).expect("it waits");
    assert!(says.contains("'b'"), "{says}");
    world.complete(world.only_live(other));
    assert_eq!(world.live(both).len(), 1);
}

#[test]
fn a_unit_goes_past_a_job_that_has_no_room() {
    let (mut world, nodes) = World::with_nodes(1);
    put(&mut world, "db", 1);
    let first = world.submit(&within(&["db"], batch(1)));
    let large = world.submit(&within(&["db"], with_cpu(batch(1), "64")));
    let small = world.submit(&within(&["db"], with_cpu(batch(1), "500m")));
    world.complete(world.only_live(first));
    assert_eq!(live(&world, &[large, small]), [0, 1]);
    assert!(world.comments(large).iter().any(|it| it.starts_with("waits for room")));
    // It is not offered room while the group is full, and no node is reserved for it.
    world.run(world.only_live(small));
    world.pass_with(Duration::from_secs(200), &nodes);
    assert!(world.reserved().is_empty());
    let roomy = world.join_node(&crate::specs::node(100.0, 4_000_000_000, &[]));
    assert_eq!(world.on_node(roomy), 0);
    world.report(world.only_live(small), ComputeState::Completed);
    assert_eq!(world.live(large).len(), 1);
}

#[test]
fn a_delay_before_a_retry_holds_no_unit() {
    let (mut world, _) = World::with_nodes(1);
    put(&mut world, "db", 1);
    let first = world.submit(&within(&["db"], with_retries(batch(1), 3)));
    let second = world.submit(&within(&["db"], batch(1)));
    world.fail(world.only_live(first));
    assert_eq!(live(&world, &[first, second]), [0, 1]);
    world.pass(Duration::from_secs(3));
    assert_eq!(live(&world, &[first, second]), [0, 1]);
    world.complete(world.only_live(second));
    assert_eq!(world.live(first).len(), 1);
}

#[test]
fn a_stopped_job_keeps_its_units_until_its_executions_have_ended() {
    let (mut world, _) = World::with_nodes(1);
    put(&mut world, "db", 1);
    let first = world.submit(&within(&["db"], batch(1)));
    let execution = world.only_live(first);
    world.run(execution);
    let second = world.submit(&within(&["db"], batch(1)));
    world.stop(first);
    assert_eq!(world.live(second).len(), 0);
    world.restart();
    assert_eq!(world.live(second).len(), 0);
    assert!(matches!(
        delete(&mut world, "db"),
        Answer::Refused(Refusal::GroupInUse { jobs: 2, .. })
    ));
    world.report(execution, ComputeState::Cancelled);
    assert_eq!(world.live(second).len(), 1);
    world.complete(world.only_live(second));
    assert_eq!(delete(&mut world, "db"), Answer::Done);
    assert_eq!(world.scheduler.group("default", "db", 10), None);
}

#[test]
fn a_job_of_an_unknown_group_is_refused() {
    let mut world = World::new();
    let refused = |world: &mut World, spec: &JobSpec| {
        let id = JobId::from_uuid(world.id());
        let submit = Submit::new(id, spec.clone().into(), spec_json(spec));
        let answer = world.handle(Input::Submit(Box::new(submit)));
        world.refusal(answer)
    };
    let spec = within(&["db"], batch(1));
    assert_eq!(refused(&mut world, &spec), Refusal::NoSuchGroup("db".into()));
    put(&mut world, "db", 2);
    let expected = Refusal::GroupShared { name: "db".into(), limit: 2 };
    assert_eq!(refused(&mut world, &replacing(batch(1))), expected);
    let elsewhere = JobSpec { namespace: "other".into(), ..spec };
    assert_eq!(refused(&mut world, &elsewhere), Refusal::NoSuchGroup("db".into()));
}

#[test]
fn an_ops_job_is_placed_on_one_node_after_the_other() {
    let (mut world, nodes) = World::with_nodes(3);
    put(&mut world, "db", 1);
    let before = world.submit(&within(&["db"], batch(1)));
    let ops = world.submit(&within(&["db"], job(JobType::Ops)));
    assert_eq!(live(&world, &[before, ops]), [1, 0]);
    assert!(gate(&world, ops).is_some());
    world.restart();
    world.complete(world.only_live(before));
    for _ in &nodes {
        world.complete(world.only_live(ops));
        world.pass(SECOND);
    }
    assert_eq!(world.state(ops), JobStateType::Completed);
}

#[test]
fn a_unit_that_is_returned_before_the_first_tick_goes_to_an_ops_job() {
    let (mut world, _) = World::with_nodes(1);
    put(&mut world, "db", 1);
    let before = world.submit(&within(&["db"], batch(1)));
    let ops = world.submit(&within(&["db"], with_cpu(job(JobType::Ops), "500m")));
    world.restart_before_the_first_tick(SETTINGS);
    world.complete(world.only_live(before));
    world.pass(SECOND);
    assert_eq!(world.live(ops).len(), 1);
}

#[test]
fn a_unit_that_is_returned_while_many_jobs_are_to_be_held_goes_to_the_first_in_rank() {
    let mut world = World::new();
    world.join_node(&node(4.0, 4_000_000_000, &[]));
    put(&mut world, "db", 2_000);
    let before = world.submit(&within(&["db"], batch(1)));
    let in_zone = |spec, cpu| with_constraint(with_cpu(spec, cpu), "zone", "a");
    world.join_node(&node(4.0, 4_000_000_000, &[("zone", "a")]));
    let other = world.submit(&in_zone(batch(1), "4"));
    world.is_checked = false;
    let ops = || within(&["db"], in_zone(job(JobType::Ops), "4"));
    for _ in 0..700 {
        world.submit(&ops());
    }
    let urgent = world.submit(&JobSpec { priority: 90, ..ops() });
    put(&mut world, "db", 1);
    world.complete(world.only_live(other));
    world.complete(world.only_live(before));
    world.is_checked = true;
    world.pass(SECOND);
    assert_eq!(world.live(urgent).len(), 1);
}

#[test]
fn the_newest_job_replaces_those_before_it_once_their_executions_are_gone() {
    let (mut world, _) = World::with_nodes(2);
    put(&mut world, "db", 1);
    let holder = world.submit(&within(&["db"], batch(1)));
    world.run(world.only_live(holder));
    let jobs: Vec<_> = (0..3).map(|_| world.submit(&replacing(batch(1)))).collect();
    for stopped in [holder, jobs[0], jobs[1]] {
        assert_eq!(world.state(stopped), JobStateType::Stopped);
        assert_eq!(world.message(stopped), "replaced by a newer job of its concurrency group");
    }
    assert_eq!(world.live(jobs[2]).len(), 0);
    world.restart();
    world.report(world.only_live(holder), ComputeState::Cancelled);
    assert_eq!(world.live(jobs[2]).len(), 1);
    let last = world.submit(&within(&["db"], batch(1)));
    world.restart();
    assert_eq!(live(&world, &[jobs[2], last]), [1, 0], "later jobs wait");
}

#[test]
fn many_waiting_jobs_are_replaced_over_several_turns_and_restarts() {
    let (mut world, _) = World::with_nodes(1);
    world.is_checked = false;
    put(&mut world, "db", 1);
    let holder = world.submit(&within(&["db"], batch(1)));
    let waiting: Vec<_> = (0..1_300).map(|_| world.submit(&within(&["db"], batch(1)))).collect();
    world.bound = Some(512 * 4);
    world.is_checked = true;
    let newest = world.submit(&replacing(batch(1)));
    let left = |world: &World| {
        waiting.iter().filter(|job| world.state(**job) != JobStateType::Stopped).count()
    };
    assert!(left(&world) > 0);
    world.report(world.only_live(holder), ComputeState::Cancelled);
    assert_eq!(live(&world, &waiting).iter().sum::<usize>(), 0, "none of them starts");
    world.restart();
    world.pass(SECOND);
    assert_eq!(left(&world), 0);
    assert_eq!(world.live(newest).len(), 1);
}

#[test]
fn a_unit_passes_through_a_long_queue_without_visiting_it() {
    let (mut world, _) = World::with_nodes(1);
    world.is_checked = false;
    put(&mut world, "db", 1);
    let jobs: Vec<_> = (0..3_000).map(|_| world.submit(&within(&["db"], batch(1)))).collect();
    world.is_checked = true;
    world.bound = Some(16);
    for job in &jobs[..3] {
        world.complete(world.only_live(*job));
        assert!(world.scheduler.next_wake(world.now) > world.now, "nothing is left over");
    }
    let state = world.scheduler.group("default", "db", 2).expect("it is known");
    assert_eq!((state.units, state.holding, state.waiting), (1, 1, 2_996));
    assert_eq!((&*state.holders, &*state.waiters), (&[(jobs[3], 1)][..], &jobs[4..6]));
}

#[test]
fn classes_without_room_are_passed_over_several_turns() {
    let (mut world, _) = World::with_nodes(1);
    world.is_checked = false;
    put(&mut world, "db", 1);
    let first = world.submit(&within(&["db"], batch(1)));
    for size in 0..700 {
        let large = with_cpu(batch(1), &format!("{}", 64 + size));
        world.submit(&within(&["db"], large));
    }
    let last = world.submit(&within(&["db"], with_cpu(batch(1), "500m")));
    world.is_checked = true;
    world.bound = Some(512 * 4);
    world.complete(world.only_live(first));
    assert_eq!(world.live(last).len(), 0);
    world.pass(SECOND);
    assert_eq!(world.live(last).len(), 1);
}

#[test]
fn a_dry_run_counts_the_units_that_are_left() {
    let (mut world, _) = World::with_nodes(2);
    put(&mut world, "db", 3);
    let spec = within(&["db"], batch(5));
    let plan = JobPlan::from_spec(&spec).expect("a checked job");
    let given = |world: &World| {
        let nodes = world.scheduler.preview(&plan, spec.count).nodes;
        nodes.into_iter().map(|node| node.reason).collect::<Vec<_>>()
    };
    let before = given(&world);
    assert!(before.contains(&"would get 2 executions".to_owned()), "{before:?}");
    world.submit(&spec);
    assert_eq!(given(&world), ["has room, but its concurrency group is full"; 2]);
}

#[test]
fn what_a_quota_and_a_full_group_hold_runs_when_both_allow_it() {
    let (mut world, _) = World::with_nodes(2);
    put(&mut world, "db", 1);
    let job = world.submit(&within(&["db"], batch(1)));
    put(&mut world, "db", 0);
    let quota = Quota { executions: Some(0), ..Quota::default() };
    world.entitle("default", Entitlement { quota, ..Entitlement::default() });
    // It is to run on another node, without a delay.
    world.report(world.live(job)[0], ComputeState::AskForBidRejected);
    assert_eq!((live(&world, &[job]), gate(&world, job).is_some()), (vec![0], true));
    world.restart();
    world.entitle("default", Entitlement::default());
    assert_eq!(live(&world, &[job]), [0]);
    put(&mut world, "db", 1);
    assert_eq!(live(&world, &[job]), [1]);
}
