//! Dependencies: a job starts when its conditions hold, and ends when they no longer can.

use std::sync::Arc;
use std::time::Duration;

use api_types::dependency::{Condition, Dependency, Indexes};
use api_types::execution::ComputeState;
use api_types::gate::GateType;
use api_types::job::{JobSpec, JobStateType, JobType};
use api_types::{GraphId, JobId, NodeId, Timestamp};
use control_plane::clock::{Reading, Stamp, UNKNOWN_BOOT};
use control_plane::store::memory::spec_json;
use control_plane::store::{Commit, CommitId, Removal, Retention, Store, Term, Write};
use scheduler::input::{Answer, Input, Refusal, Submit, SubmitGraph};
use scheduler::rerun::Rerun;

use crate::specs::{batch, job};
use crate::world::{SETTINGS, World};

const SECOND: Duration = Duration::from_secs(1);

fn on(job_id: JobId, name: &str, condition: Condition) -> Dependency {
    Dependency { job_id, job: name.to_owned(), condition, indexes: Indexes::All }
}

fn after(spec: JobSpec, others: &[(JobId, Condition)]) -> JobSpec {
    let depends_on = others.iter().map(|(id, condition)| on(*id, "build", *condition)).collect();
    JobSpec { depends_on, ..spec }
}

/// Ends a job that runs in this state.
fn end(world: &mut World, job: JobId, state: JobStateType) {
    match state {
        JobStateType::Completed => world.complete(world.only_live(job)),
        JobStateType::Failed => world.fail(world.only_live(job)),
        _ => drop(world.stop(job)),
    }
    world.pass(SECOND);
}

#[test]
fn each_condition_decides_after_each_end_also_when_the_job_is_submitted_later() {
    use Condition::{Completed, Ended, Failed};
    let runs = None;
    let rows = [
        (JobStateType::Completed, Completed, runs),
        (JobStateType::Completed, Failed, Some(JobStateType::Stopped)),
        (JobStateType::Completed, Ended, runs),
        (JobStateType::Failed, Completed, Some(JobStateType::Failed)),
        (JobStateType::Failed, Failed, runs),
        (JobStateType::Failed, Ended, runs),
        (JobStateType::Stopped, Completed, Some(JobStateType::Stopped)),
        (JobStateType::Stopped, Failed, Some(JobStateType::Stopped)),
        (JobStateType::Stopped, Ended, runs),
    ];
    for (state, condition, expected) in rows {
        let (mut world, _) = World::with_nodes(1);
        let first = world.submit(&batch(1));
        let earlier = world.submit(&after(batch(1), &[(first, condition)]));
        assert_eq!(world.state(earlier), JobStateType::Queued);
        assert!(world.executions(earlier).is_empty());
        end(&mut world, first, state);
        let later = world.submit(&after(batch(1), &[(first, condition)]));
        for job in [earlier, later] {
            let ran = !world.executions(job).is_empty();
            let ended = Some(world.state(job)).filter(|state| state.is_terminal());
            assert_eq!((ran, ended), (expected.is_none(), expected), "{condition} after {state}");
        }
    }
}

#[test]
fn a_clean_up_job_is_skipped_when_all_went_well() {
    let (mut world, _) = World::with_nodes(1);
    let first = world.submit(&batch(1));
    let clean_up = world.submit(&after(batch(1), &[(first, Condition::Failed)]));
    end(&mut world, first, JobStateType::Completed);
    assert_eq!(world.state(clean_up), JobStateType::Stopped);
    assert_eq!(world.message(clean_up), "skipped: job 'build' completed, so it did not fail");
}

#[test]
fn a_handler_two_steps_below_a_failure_runs() {
    let (mut world, _) = World::with_nodes(1);
    let first = world.submit(&batch(1));
    let second = world.submit(&after(batch(1), &[(first, Condition::Completed)]));
    let third = world.submit(&after(batch(1), &[(second, Condition::Completed)]));
    let handler = world.submit(&after(batch(1), &[(third, Condition::Failed)]));
    end(&mut world, first, JobStateType::Failed);
    assert_eq!(world.message(second), "not run: job 'build' failed");
    assert_eq!(world.state(third), JobStateType::Failed);
    end(&mut world, handler, JobStateType::Completed);
    assert_eq!(world.state(handler), JobStateType::Completed);
}

#[test]
fn a_job_says_for_whom_it_waits_and_its_history_says_it_once() {
    let (mut world, _) = World::with_nodes(1);
    let others = [world.submit(&batch(1)), world.submit(&batch(1))];
    let conditions = others.map(|other| (other, Condition::Completed));
    let job = world.submit(&after(batch(3), &conditions));
    assert_eq!(
        world.message(job),
        "job 'build' has not completed yet, and 1 more job has not ended"
    );
    let gates = world.scheduler.standing(job).expect("it is live").gates;
    assert_eq!((gates[0].gate_type, gates[0].slots), (GateType::DependsOn, 3));
    assert_eq!(world.scheduler.waiting(world.now).gated[&GateType::DependsOn], 1);
    end(&mut world, others[0], JobStateType::Completed);
    assert_eq!(world.message(job), "job 'build' has not completed yet");
    end(&mut world, others[1], JobStateType::Completed);
    assert_eq!(world.live(job).len(), 3);
    let comments = world.comments(job);
    let of_gate = comments.iter().filter(|comment| comment.contains("waits:"));
    assert_eq!(of_gate.count(), 1, "{comments:?}");
    assert!(comments.contains(&"no slot waits for DependsOn any more".to_owned()), "{comments:?}");
}

#[test]
fn timeouts_begin_when_the_last_condition_holds_also_across_a_restart() {
    for restarts in [false, true] {
        let (mut world, nodes) = World::with_nodes(1);
        let first = world.submit(&batch(1));
        let mut spec = after(batch(1), &[(first, Condition::Completed)]);
        spec.tasks[0].timeouts.total_timeout = 60;
        spec.tasks[0].timeouts.queue_timeout = 30;
        let job = world.submit(&spec);
        let execution = world.only_live(first);
        world.run(execution);
        world.pass_with(90 * SECOND, &nodes);
        assert_eq!(world.state(job), JobStateType::Queued);
        world.report(execution, ComputeState::Completed);
        world.pass(SECOND);
        world.run(world.only_live(job));
        world.pass_with(40 * SECOND, &nodes);
        if restarts {
            world.restart();
        }
        world.pass_with(15 * SECOND, &nodes);
        assert!(!world.state(job).is_terminal());
        world.pass_with(10 * SECOND, &nodes);
        assert_eq!(world.message(job), "took longer than TotalTimeout (60 s)");
    }
}

#[test]
fn a_job_waits_for_others_since_its_submission_also_after_a_restart() {
    let (mut world, nodes) = World::with_nodes(2);
    let others = [world.submit(&batch(1)), world.submit(&batch(1))];
    let ended = others.map(|other| (other, Condition::Ended));
    let job = world.submit(&after(batch(1), &ended));
    let since = |world: &World| {
        let standing = world.scheduler.standing(job).expect("it waits");
        standing.gates.iter().map(|gate| gate.since).collect::<Vec<_>>()
    };
    let before = since(&world);
    world.pass_with(SECOND, &nodes);
    // What the job says changes with that.
    world.complete(world.only_live(others[0]));
    world.pass_with(SECOND, &nodes);
    world.restart();
    assert_eq!((before.len(), since(&world)), (1, before));
}

#[test]
fn a_restart_finds_conditions_as_they_were_and_decides_what_was_not_decided() {
    let (mut world, _) = World::with_nodes(1);
    let open = world.submit(&batch(1));
    let waits = world.submit(&after(batch(1), &[(open, Condition::Completed)]));
    let first = world.submit(&batch(1));
    let next = world.submit(&after(batch(1), &[(first, Condition::Completed)]));
    let skipped = world.submit(&after(batch(1), &[(first, Condition::Failed)]));
    let on_nodes = world.submit(&after(job(JobType::Ops), &[(first, Condition::Completed)]));
    let daemon = world.submit(&after(job(JobType::Daemon), &[(first, Condition::Completed)]));
    world.restart();
    assert_eq!(world.state(waits), JobStateType::Queued);
    world.complete(world.only_live(first));
    // The tick that would say so is lost.
    assert!(world.executions(next).is_empty() && !world.state(skipped).is_terminal());
    world.restart_before_the_first_tick(SETTINGS);
    world.pass(SECOND);
    assert_eq!(world.live(next).len() + world.live(on_nodes).len() + world.live(daemon).len(), 3);
    assert_eq!(world.state(skipped), JobStateType::Stopped);
    assert!(world.executions(waits).is_empty());
    world.complete(world.only_live(open));
    world.pass(SECOND);
    assert_eq!(world.live(waits).len(), 1);
}

#[test]
fn ten_thousand_jobs_that_depend_on_one_are_told_in_bounded_turns() {
    let mut world = World::new();
    world.is_checked = false;
    let first = world.submit(&job(JobType::Batch));
    let dependants: Vec<_> = (0..10_000)
        .map(|_| world.submit(&after(batch(1), &[(first, Condition::Completed)])))
        .collect();
    world.bound = Some(2 * 512);
    world.stop(first);
    world.is_checked = true;
    world.pass(SECOND);
    assert!(dependants.iter().all(|job| world.state(*job) == JobStateType::Stopped));
}

#[test]
fn retention_keeps_what_live_jobs_depend_on() {
    let (mut world, _) = World::with_nodes(1);
    let first = world.submit(&batch(1));
    let open = world.submit(&batch(1));
    let job = world
        .submit(&after(batch(1), &[(first, Condition::Completed), (open, Condition::Completed)]));
    end(&mut world, first, JobStateType::Completed);
    remove_all(&mut world);
    assert!(world.store.jobs.contains_key(&first));
    world.restart();
    end(&mut world, open, JobStateType::Completed);
    end(&mut world, job, JobStateType::Completed);
    remove_all(&mut world);
    assert!(world.store.jobs.is_empty());
}

fn remove_all(world: &mut World) {
    let mut store = world.store.clone();
    let number = store.progress().expect("memory answers").last_commit + 1;
    let retention = Retention { age: None, count: Some(0) };
    let write = Write::Removal(Removal::Jobs { retention, rows: 1000 });
    let reading = Reading { boot_id: UNKNOWN_BOOT, boot: world.now.0, wall: Timestamp::ZERO };
    let stamp = Stamp { reading, moment: world.now };
    let id = CommitId { term: Term::default(), number };
    store.commit(&Commit { id, stamp, write }).expect("commits follow each other");
    (world.store.jobs, world.store.new_jobs) = (store.jobs, store.new_jobs);
}

#[test]
fn a_job_that_depends_on_one_that_was_removed_fails_at_a_start() {
    let (mut world, _) = World::with_nodes(1);
    let first = world.submit(&batch(1));
    let job = world.submit(&after(batch(1), &[(first, Condition::Completed)]));
    world.store.jobs.remove(&first);
    world.store.new_jobs.remove(&first);
    world.store.executions.clear();
    world.restart();
    assert_eq!(world.state(job), JobStateType::Failed);
    assert_eq!(world.message(job), "not run: job 'build', on which it depends, was removed");
}

#[test]
fn a_job_that_depends_on_an_unknown_one_is_refused() {
    let (mut world, _) = World::with_nodes(1);
    let [id, other] = [(); 2].map(|()| JobId::from_uuid(world.id()));
    let spec = after(batch(1), &[(other, Condition::Ended)]);
    let answer = world.handle(Input::Submit(Box::new(submission(id, spec))));
    let name = "build".to_owned();
    assert_eq!(world.refusal(answer), Refusal::DependencyMissing { job: other, name });
}

#[test]
fn a_graph_is_recorded_in_one_turn_and_begins_with_the_next_ticks() {
    let (mut world, nodes) = World::with_nodes(2);
    let ids: Vec<_> = (0..40).map(|_| JobId::from_uuid(world.id())).collect();
    let spec = |at: usize| match at {
        0 => job(JobType::Ops),
        _ => after(batch(1), &[(ids[at / 2], Condition::Completed)]),
    };
    submit_graph(&mut world, &ids, spec);
    assert_eq!(world.store.graphs[0].jobs.len(), 40);
    assert!(ids.iter().all(|id| world.state(*id) == JobStateType::Pending));
    world.restart();
    world.pass(SECOND);
    assert_eq!(world.live(ids[0]).len(), 2);
    assert!(ids[1..].iter().all(|id| world.state(*id) == JobStateType::Queued));
    for _ in 0..10 {
        for id in &ids {
            world.live(*id).into_iter().for_each(|execution| world.complete(execution));
        }
        world.pass_with(SECOND, &nodes);
    }
    assert!(ids.iter().all(|id| world.state(*id) == JobStateType::Completed));
}

#[test]
fn a_graph_of_which_one_job_depends_on_an_unknown_one_is_refused_as_a_whole() {
    let (mut world, _) = World::with_nodes(1);
    let ids: Vec<_> = (0..3).map(|_| JobId::from_uuid(world.id())).collect();
    let jobs = ids[..2].iter().map(|id| {
        let spec = after(batch(1), &[(ids[2], Condition::Ended)]);
        (id.to_string(), submission(*id, spec))
    });
    let answer = world.handle(Input::SubmitGraph(Box::new(graph(jobs.collect()))));
    let name = "build".to_owned();
    assert_eq!(world.refusal(answer), Refusal::DependencyMissing { job: ids[2], name });
    assert!(world.store.graphs.is_empty());
}

#[test]
fn a_graph_is_stopped_as_a_whole_and_nothing_of_it_runs_because_of_that() {
    let (mut world, _) = World::with_nodes(1);
    let ids: Vec<_> = (0..3).map(|_| JobId::from_uuid(world.id())).collect();
    let spec = |at: usize| match at {
        0 => batch(1),
        _ => after(batch(1), &[(ids[at - 1], Condition::Ended)]),
    };
    submit_graph(&mut world, &ids, spec);
    world.pass(SECOND);
    let reason = "enough".to_owned();
    let answer = world.handle(Input::StopJobs { jobs: ids.clone(), reason });
    assert_eq!(answer, Answer::StoppedJobs(3));
    world.pass(SECOND);
    assert!(ids.iter().all(|id| world.state(*id) == JobStateType::Stopped));
    assert!(world.executions(ids[1]).is_empty() && world.executions(ids[2]).is_empty());
}

#[test]
fn jobs_of_a_graph_run_some_slots_again_each_after_its_counterpart_if_that_runs() {
    let (mut world, nodes) = World::with_nodes(2);
    let ids: Vec<_> = (0..3).map(|_| JobId::from_uuid(world.id())).collect();
    let same = Dependency { indexes: Indexes::Same, ..on(ids[0], "first", Condition::Completed) };
    let again = |spec: JobSpec, id: JobId, slots: &str, nodes: &[(u32, NodeId)]| {
        let nodes = nodes.iter().copied().collect();
        let rerun = Rerun::new(slots.parse().expect("indexes"), nodes);
        let spec = JobSpec { count: rerun.slots.len(), ..spec };
        (id.to_string(), Submit { rerun: Some(Arc::new(rerun)), ..submission(id, spec) })
    };
    let next = JobSpec { depends_on: vec![same], ..batch(1) };
    let jobs = vec![
        again(batch(1), ids[0], "3", &[]),
        again(next, ids[1], "1,3", &[]),
        again(job(JobType::Ops), ids[2], "7", &[(7, nodes[1])]),
    ];
    let answer = world.handle(Input::SubmitGraph(Box::new(graph(jobs))));
    assert_eq!(answer, Answer::Done);
    world.restart();
    world.pass(SECOND);
    let ran = |world: &World, job| -> Vec<_> {
        world.executions(job).iter().map(|row| (row.index, row.node)).collect()
    };
    assert_eq!(ran(&world, ids[2]), [(7, nodes[1])]);
    let of = |world: &World| -> Vec<u32> {
        ran(world, ids[1]).into_iter().map(|(index, _)| index).collect()
    };
    // [1] of the first job had completed before.
    assert_eq!(of(&world), [1]);
    world.complete(world.only_live(ids[0]));
    world.pass(SECOND);
    assert_eq!(of(&world), [1, 3]);
}

fn submission(id: JobId, spec: JobSpec) -> Submit {
    Submit::new(id, spec.clone().into(), spec_json(&spec))
}

fn graph(jobs: Vec<(String, Submit)>) -> SubmitGraph {
    let id = GraphId::from_uuid(uuid::Uuid::from_u128(1));
    SubmitGraph { id, name: "graph".to_owned(), namespace: "default".to_owned(), jobs }
}

fn submit_graph(world: &mut World, ids: &[JobId], spec: impl Fn(usize) -> JobSpec) {
    let jobs = ids.iter().enumerate();
    let jobs = jobs.map(|(at, id)| (format!("job{at}"), submission(*id, spec(at)))).collect();
    let answer = world.handle(Input::SubmitGraph(Box::new(graph(jobs))));
    assert_eq!(answer, Answer::Done);
}
