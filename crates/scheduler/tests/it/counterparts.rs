//! Slots that wait for the same slots of another job: each starts when its counterpart has completed,
//! and fails when that never will.

use std::collections::BTreeSet;
use std::time::Duration;

use api_types::dependency::{Condition, Dependency, Indexes};
use api_types::execution::ComputeState;
use api_types::gate::GateType;
use api_types::job::{JobSpec, JobStateType};
use api_types::{JobId, Timestamp};
use control_plane::store::memory::spec_json;
use scheduler::input::{Answer, Input, Submit};
use scheduler::outcomes::SlotOutcome;
use scheduler::time::Now;
use scheduler::{Entitlement, Output, Quota, invariants};

use crate::specs::{batch, with_cpu, with_retries};
use crate::world::{SETTINGS, World};

const SECOND: Duration = Duration::from_secs(1);

/// So small that all of them have room.
fn small(count: u32) -> JobSpec {
    let mut spec = with_cpu(batch(count), "1m");
    spec.tasks[0].resources.memory = "1kb".to_owned();
    spec
}

fn tolerant(spec: JobSpec) -> JobSpec {
    JobSpec { max_failed: -1, ..spec }
}

fn after(mut spec: JobSpec, other: JobId, indexes: Indexes) -> JobSpec {
    let (job, condition) = ("first".to_owned(), Condition::Completed);
    spec.depends_on.push(Dependency { job_id: other, job, condition, indexes });
    spec
}

fn same(spec: JobSpec, other: JobId) -> JobSpec {
    after(spec, other, Indexes::Same)
}

/// The slots of the job that have run so far.
fn ran(world: &World, job: JobId) -> BTreeSet<u32> {
    world.executions(job).iter().map(|row| row.index).collect()
}

/// Ends the execution of this slot.
fn end(world: &mut World, job: JobId, index: u32, to: ComputeState) {
    let rows = world.executions(job);
    let is_meant = |row: &&_| {
        let row: &scheduler::change::ExecutionRow = row;
        row.index == index && !row.compute.is_terminal()
    };
    let execution = rows.iter().find(is_meant).expect("the slot runs").id;
    match to {
        ComputeState::Completed => world.complete(execution),
        _ => world.fail(execution),
    }
    world.handle(Input::Tick);
}

fn complete(world: &mut World, job: JobId, index: u32) {
    end(world, job, index, ComputeState::Completed);
}

fn fail(world: &mut World, job: JobId, index: u32) {
    end(world, job, index, ComputeState::Failed);
}

fn outcome(world: &World, job: JobId, index: u32) -> SlotOutcome {
    world.store.outcomes_of(job).get(index)
}

fn gates(world: &World, job: JobId) -> Vec<(GateType, u32, String)> {
    let gates = world.scheduler.standing(job).expect("the job is live").gates;
    gates.iter().map(|gate| (gate.gate_type, gate.slots, gate.message.to_string())).collect()
}

const WAITS: &str = "each index waits for the same one of job 'first'";

#[test]
fn each_slot_starts_when_its_counterpart_has_completed_also_across_restarts() {
    for restarts in [false, true] {
        let (mut world, _) = World::with_nodes(1);
        let first = world.submit(&small(5));
        let next = world.submit(&same(small(5), first));
        let restart = |world: &mut World| {
            if restarts {
                world.restart_before_the_first_tick(SETTINGS);
                invariants::check(&world.scheduler);
                world.handle(Input::Tick);
            }
        };
        assert_eq!((world.state(next), world.message(next)), (JobStateType::Queued, WAITS));
        assert_eq!(gates(&world, next), [(GateType::DependsOn, 5, WAITS.to_owned())]);
        assert_eq!(world.scheduler.waiting(world.now).gated[&GateType::DependsOn], 1);
        let mut expected = BTreeSet::new();
        for index in [3, 0, 4, 1, 2] {
            restart(&mut world);
            complete(&mut world, first, index);
            restart(&mut world);
            expected.insert(index);
            assert_eq!(ran(&world, next), expected, "restarts: {restarts}");
            if index == 0 {
                complete(&mut world, next, 3);
                assert_eq!(world.state(next), JobStateType::Running);
                assert_eq!(gates(&world, next), [(GateType::DependsOn, 3, WAITS.to_owned())]);
            }
        }
        assert_eq!((world.state(first), gates(&world, next)), (JobStateType::Completed, vec![]));
        for index in [0, 1, 2, 4] {
            restart(&mut world);
            complete(&mut world, next, index);
        }
        assert_eq!(world.state(next), JobStateType::Completed);
        assert_eq!(world.message(next), "all 5 executions completed");
    }
}

#[test]
fn the_first_failed_counterpart_ends_a_job_that_tolerates_none() {
    let (mut world, _) = World::with_nodes(1);
    let first = world.submit(&tolerant(small(3)));
    let next = world.submit(&same(small(3), first));
    let third = world.submit(&same(small(3), next));
    complete(&mut world, first, 0);
    fail(&mut world, first, 2);
    assert_eq!(world.state(next), JobStateType::Failed);
    assert_eq!(world.message(next), "not run: [2] of job 'first' failed");
    world.pass(SECOND);
    assert_eq!(world.message(third), "not run: [2] of job 'first' failed");
    assert!(ran(&world, third).is_empty());
}

#[test]
fn a_failed_counterpart_counts_as_a_failed_index() {
    for restarts in [false, true] {
        let (mut world, _) = World::with_nodes(1);
        let first = world.submit(&tolerant(small(4)));
        let next = world.submit(&JobSpec { max_failed: 1, ..same(small(4), first) });
        fail(&mut world, first, 1);
        let says = "first failed index: not run: [1] of job 'first' failed; the job goes on";
        assert!(world.comments(next).contains(&says.to_owned()), "{:?}", world.comments(next));
        if restarts {
            world.restart();
        }
        assert_eq!(outcome(&world, next, 1), SlotOutcome::Failed);
        complete(&mut world, first, 0);
        assert_eq!(world.live(next).len(), 1);
        fail(&mut world, next, 0);
        let says = "2 of 4 indexes failed, more than MaxFailed (1); the first, not run: [1] of job \
                    'first' failed";
        assert_eq!((world.state(next), world.message(next)), (JobStateType::Failed, says));
    }
}

#[test]
fn a_job_all_of_whose_counterparts_failed_fails_without_a_run() {
    for count in [1, 3] {
        let (mut world, _) = World::with_nodes(1);
        let first = world.submit(&tolerant(small(count)));
        let next = world.submit(&tolerant(same(small(count), first)));
        (0..count).for_each(|index| fail(&mut world, first, index));
        assert_eq!(world.state(next), JobStateType::Failed);
        let says = match count {
            1 => "not run: [0] of job 'first' failed",
            _ => "3 of 3 indexes failed; the first, not run: [0] of job 'first' failed",
        };
        assert_eq!(world.message(next), says);
        assert!(ran(&world, next).is_empty());
    }
}

#[test]
fn slots_whose_counterparts_their_failed_job_left_fail_and_the_others_run() {
    for is_later in [false, true] {
        let (mut world, _) = World::with_nodes(1);
        let first = world.submit(&small(4));
        let spec = tolerant(same(small(4), first));
        let earlier = (!is_later).then(|| world.submit(&spec));
        complete(&mut world, first, 0);
        fail(&mut world, first, 3);
        assert_eq!(world.state(first), JobStateType::Failed);
        if is_later {
            world.pass(SECOND);
            world.live(first).into_iter().for_each(|id| world.report(id, ComputeState::Cancelled));
        }
        let next = earlier.unwrap_or_else(|| world.submit(&spec));
        world.pass(SECOND);
        assert_eq!(ran(&world, next), [0].into());
        complete(&mut world, next, 0);
        assert_eq!(world.state(next), JobStateType::Failed);
        let left = [1, 2, 3].map(|index| outcome(&world, next, index));
        assert_eq!(left, [SlotOutcome::Failed; 3]);
        let says = world.message(next);
        let told = says.contains("not run: job 'first' failed before its [1] completed");
        assert!(told || says.contains("not run: [3] of job 'first' failed"), "{says}");
    }
}

#[test]
fn a_stop_of_the_other_job_stops_this_one_with_what_runs() {
    let (mut world, _) = World::with_nodes(1);
    let first = world.submit(&small(2));
    let next = world.submit(&same(small(2), first));
    complete(&mut world, first, 1);
    world.run(world.only_live(next));
    world.stop(first);
    world.pass(SECOND);
    let later = world.submit(&same(small(2), first));
    world.pass(SECOND);
    for job in [next, later] {
        assert_eq!(world.state(job), JobStateType::Stopped);
        assert_eq!(world.message(job), "not run: job 'first' was stopped");
    }
}

#[test]
fn a_job_whose_counterparts_are_over_starts_or_fails_immediately() {
    for count in [1, 3] {
        let (mut world, _) = World::with_nodes(1);
        let first = world.submit(&small(count));
        (0..count).for_each(|index| complete(&mut world, first, index));
        let next = world.submit(&same(small(count), first));
        world.restart();
        world.handle(Input::Tick);
        assert_eq!(world.live(next).len(), count as usize);
        let failed = world.submit(&tolerant(small(count)));
        (0..count).for_each(|index| fail(&mut world, failed, index));
        let never = world.submit(&tolerant(same(small(count), failed)));
        world.handle(Input::Tick);
        assert_eq!(world.state(never), JobStateType::Failed);
    }
}

#[test]
fn a_job_that_is_submitted_in_the_turn_in_which_the_other_ends_knows_its_slots() {
    let (mut world, _) = World::with_nodes(1);
    let first = world.submit(&small(3));
    complete(&mut world, first, 0);
    complete(&mut world, first, 1);
    let last = world.only_live(first);
    world.run(last);
    let spec = same(small(3), first);
    let named = world.store.named_by(&spec);
    let id = JobId::from_uuid(world.id());
    let submit = Submit { named, ..Submit::new(id, spec.clone().into(), spec_json(&spec)) };
    // Both are in one batch, as one commit stores it.
    let (mut out, now) = (Output::default(), Now { moment: world.now, wall: Timestamp::ZERO });
    let node = world.row(last).node;
    let report = api_types::protocol::Report::new(last, 9, ComputeState::Completed);
    let reports = Input::Reports { node, session: 1, reports: vec![report] };
    world.scheduler.handle(now, reports, &mut out);
    assert_eq!(out.changes.jobs[&first].state, JobStateType::Completed);
    let answer = world.scheduler.handle(now, Input::Submit(Box::new(submit)), &mut out);
    assert!(matches!(answer, Answer::Submitted { .. }), "{answer:?}");
    world.scheduler.handle(now, Input::Tick, &mut out);
    invariants::check(&world.scheduler);
    assert_eq!(out.changes.executions.values().filter(|row| row.job == id).count(), 3);
}

#[test]
fn conditions_on_whole_jobs_hold_before_any_slot_starts() {
    let (mut world, _) = World::with_nodes(1);
    let (first, whole) = (world.submit(&small(2)), world.submit(&small(1)));
    let second = world.submit(&tolerant(small(2)));
    let spec = same(after(same(small(2), first), whole, Indexes::All), second);
    let next = world.submit(&tolerant(spec));
    complete(&mut world, first, 0);
    complete(&mut world, second, 0);
    assert_eq!(world.message(next), format!("{WAITS}, and 2 more jobs have not ended"));
    fail(&mut world, second, 1);
    assert_eq!(world.message(next), format!("{WAITS}, and 1 more job has not ended"));
    assert!(ran(&world, next).is_empty() && world.state(next) == JobStateType::Queued);
    // Decided by the other one already.
    assert_eq!(outcome(&world, next, 1), SlotOutcome::Failed);
    world.restart();
    complete(&mut world, whole, 0);
    assert_eq!(ran(&world, next), [0].into());
    complete(&mut world, next, 0);
    assert_eq!(world.state(next), JobStateType::Failed);
}

#[test]
fn retries_limits_and_quotas_count_only_slots_that_may_be_placed() {
    let (mut world, _) = World::with_nodes(1);
    let quota = Quota { queued: Some(7), ..Quota::default() };
    world.entitle("default", Entitlement { quota, ..Entitlement::default() });
    let first = world.submit(&small(4));
    let spec = JobSpec { max_running: 1, ..same(with_retries(small(4), 2), first) };
    let next = world.submit(&spec);
    complete(&mut world, first, 2);
    complete(&mut world, first, 1);
    assert_eq!(world.live(next).len(), 1);
    let expected = [(GateType::MaxRunning, 1), (GateType::DependsOn, 2)];
    let found: Vec<_> = gates(&world, next).into_iter().map(|gate| (gate.0, gate.1)).collect();
    assert_eq!(found, expected);
    // One is ready, and two wait for others.
    let spec = small(5);
    let id = JobId::from_uuid(world.id());
    let submit = Submit::new(id, spec.clone().into(), spec_json(&spec));
    assert!(matches!(world.handle(Input::Submit(Box::new(submit))), Answer::Refused(_)));
    let failing = world.only_live(next);
    world.fail(failing);
    world.restart();
    world.pass(2 * SECOND);
    complete(&mut world, first, 0);
    complete(&mut world, first, 3);
    for _ in 0..4 {
        world.complete(world.only_live(next));
        world.pass(2 * SECOND);
    }
    assert_eq!(world.state(next), JobStateType::Completed);
}

#[test]
fn one_event_says_that_slots_wait_for_others_however_many_do() {
    let (mut world, nodes) = World::with_nodes(1);
    // Each slot that is ready finds no room until the one before it has ended.
    let first = world.submit(&JobSpec { max_running: 1, ..with_cpu(batch(30), "2") });
    let next = world.submit(&same(with_cpu(batch(30), "3"), first));
    world.pass(SECOND);
    while let Some(execution) = world.live(first).first().or(world.live(next).first()).copied() {
        world.complete(execution);
        world.pass_with(SECOND, &nodes);
    }
    assert_eq!(world.state(next), JobStateType::Completed);
    assert!(world.comments(next).len() < 12, "{:?}", world.comments(next));
}

#[test]
fn timeouts_begin_with_the_first_slot_that_may_start_also_across_a_restart() {
    for restarts in [false, true] {
        let (mut world, nodes) = World::with_nodes(1);
        let first = world.submit(&small(2));
        let mut spec = same(small(2), first);
        spec.tasks[0].timeouts.total_timeout = 60;
        spec.tasks[0].timeouts.queue_timeout = 30;
        let next = world.submit(&spec);
        let running = world.live(first);
        running.iter().for_each(|execution| world.run(*execution));
        world.pass_with(90 * SECOND, &nodes);
        world.report(running[1], ComputeState::Completed);
        world.pass(SECOND);
        world.run(world.only_live(next));
        world.pass_with(40 * SECOND, &nodes);
        if restarts {
            world.restart();
        }
        assert!(!world.state(next).is_terminal());
        world.pass_with(25 * SECOND, &nodes);
        assert_eq!(world.message(next), "took longer than TotalTimeout (60 s)");
    }
}

#[test]
fn a_hundred_thousand_slots_are_decided_in_bounded_turns() {
    const PER_TURN: u32 = 512 * 16 + 16;
    let mut world = World::new();
    world.is_checked = false;
    let first = world.submit(&small(100_000));
    let next = world.submit(&tolerant(same(small(100_000), first)));
    let node = world.join_node(&crate::specs::node(1.0, 1_000_000_000, &[]));
    world.fail(world.live(first)[0]);
    let mut turns = 0;
    while !world.state(next).is_terminal() {
        let before = world.store.jobs[&next].failed_slots;
        world.handle(Input::Tick);
        let decided = world.store.jobs[&next].failed_slots - before;
        assert!(decided <= PER_TURN, "one turn decided about {decided} slots");
        turns += 1;
        assert!(turns < 100, "after {turns} turns, {node} is still busy");
    }
    assert_eq!(world.store.jobs[&next].failed_slots, 100_000);
    world.restart();
    invariants::check(&world.scheduler);
}
