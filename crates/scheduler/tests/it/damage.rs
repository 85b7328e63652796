//! Specifications that cannot be read any more, and slots with gaps between them.

use api_types::JobId;
use api_types::execution::{ComputeState, DesiredState};
use api_types::job::JobStateType;
use api_types::node::HealthState;
use scheduler::change::Effect;
use scheduler::input::{Answer, Input};

use crate::specs::{batch, with_cpu, with_retries};
use crate::world::{SETTINGS, World};

impl World {
    fn damage_plan(&mut self, job: JobId) {
        let row = self.store.new_jobs.get_mut(&job).expect("the job is stored");
        row.plan = row.plan[..20].into();
    }

    fn damage_spec(&mut self, job: JobId) {
        self.store.new_jobs.get_mut(&job).expect("the job is stored").spec_json = "{".into();
    }
}

#[test]
fn a_job_of_which_nothing_can_be_read_fails_at_the_start_and_no_other() {
    let (mut world, _) = World::with_nodes(1);
    let running = world.submit(&with_cpu(batch(1), "2"));
    let other = world.submit(&with_cpu(batch(1), "2"));
    let waiting = world.submit(&batch(2));
    let next = world.submit(&with_cpu(batch(1), "2"));
    let execution = world.only_live(running);
    world.run(execution);
    for job in [running, waiting] {
        world.damage_plan(job);
        world.damage_spec(job);
    }
    world.restart();
    for job in [running, waiting] {
        assert_eq!(world.state(job), JobStateType::Failed);
        let said = world.message(job);
        assert!(said.starts_with("its stored specification cannot be read (EOF"), "{said}");
        assert!(said.contains("submit the job again, or restore the database"), "{said}");
    }
    assert_eq!(world.desired(execution), DesiredState::Stopped);
    assert_eq!((world.state(other), world.live(next).len()), (JobStateType::Pending, 0));
    world.report(execution, ComputeState::Cancelled);
    assert_eq!(world.live(next).len(), 1, "its room is free");
    let execution = world.only_live(other);
    world.complete(execution);
    assert_eq!(world.state(other), JobStateType::Completed);
}

#[test]
fn a_damaged_job_that_is_stopped_before_the_first_tick_stays_stopped() {
    let (mut world, _) = World::with_nodes(1);
    let job = world.submit(&batch(1));
    world.run(world.only_live(job));
    world.damage_plan(job);
    world.damage_spec(job);
    world.restart_before_the_first_tick(SETTINGS);
    world.stop(job);
    world.handle(Input::Tick);
    assert_eq!(world.state(job), JobStateType::Stopped);
}

#[test]
fn a_job_without_a_readable_plan_is_planned_from_its_specification() {
    let (mut world, _) = World::with_nodes(1);
    let job = world.submit(&with_retries(with_cpu(batch(2), "3"), 2));
    let first = world.only_live(job);
    world.damage_plan(job);
    world.restart();
    assert_eq!(world.live(job), [first], "there is no room for another one");
    world.complete(first);
    let second = world.only_live(job);
    world.complete(second);
    assert_eq!(world.state(job), JobStateType::Completed);
}

#[test]
fn an_offer_that_cannot_be_made_fails_its_job_and_blames_nobody() {
    let (mut world, nodes) = World::with_nodes(1);
    let damaged = world.submit(&with_cpu(with_retries(batch(3), 5), "2"));
    let next = world.submit(&with_cpu(batch(2), "2"));
    let [offered, accepted] = world.live(damaged)[..] else { panic!("two have room") };
    world.run(accepted);
    world.effects.clear();
    let reason = "expected value at line 1 column 1".to_owned();
    let unreadable = |execution| Input::Unreadable { execution, reason: reason.clone() };
    assert_eq!(world.handle(unreadable(accepted)), Answer::Done);
    assert_eq!(world.state(damaged), JobStateType::Running, "its node has what it needs");
    assert_eq!(world.handle(unreadable(offered)), Answer::Done);
    assert_eq!(world.state(damaged), JobStateType::Failed);
    assert!(world.message(damaged).contains(&reason), "{}", world.message(damaged));
    assert_eq!(world.row(offered).compute, ComputeState::Failed);
    assert_eq!(world.row(offered).tries.attempt, 1, "it is not tried again");
    assert_eq!(world.live(next).len(), 1, "its room is free");
    let is_notified = world.effects.iter().any(|effect| match effect {
        Effect::Assign { change, .. } => {
            change.execution == offered && change.desired == DesiredState::Stopped
        }
        Effect::CloseStream { .. } => false,
    });
    assert!(is_notified, "a node that knows it after all stops it");
    // It had been one of several that the job is to stop.
    assert_eq!(world.desired(accepted), DesiredState::Stopped);
    world.report(accepted, ComputeState::Cancelled);
    assert_eq!(world.live(next).len(), 2);
    let health = world.scheduler.take_touched_nodes();
    let health = health.into_iter().find(|(id, _)| *id == nodes[0]).unwrap().1.unwrap().health;
    assert_eq!(health.state, HealthState::Healthy);
}

#[test]
fn an_accepted_execution_that_cannot_get_what_it_may_read_fails_its_job() {
    let (mut world, _) = World::with_nodes(1);
    let damaged = world.submit(&batch(1));
    let accepted = world.only_live(damaged);
    world.report(accepted, ComputeState::AskForBidAccepted);
    let unreadable = || Input::Unreadable { execution: accepted, reason: "EOF".to_owned() };
    for _ in 0..2 {
        assert_eq!(world.handle(unreadable()), Answer::Done);
        assert_eq!(world.state(damaged), JobStateType::Failed);
        assert_eq!(world.desired(accepted), DesiredState::Stopped);
    }
    world.report(accepted, ComputeState::Cancelled);
    assert!(world.live(damaged).is_empty());
    assert_eq!(world.handle(unreadable()), Answer::Done, "it is long over");
}

#[test]
fn a_job_whose_slots_have_gaps_runs_these_and_no_others() {
    let mut world = World::new();
    let job = world.submit(&batch(4));
    world.store.jobs.get_mut(&job).unwrap().slots = "3,7-9".parse().unwrap();
    world.restart();
    let only = world.join_node(&crate::specs::node(2.0, 4_000_000_000, &[]));
    let indexes =
        |world: &World| -> Vec<u32> { world.executions(job).iter().map(|row| row.index).collect() };
    assert_eq!(indexes(&world), [3, 7]);
    assert_eq!(world.store.jobs[&job].fresh, 8);
    let work: Vec<_> = world.snapshot(only).into_iter().filter_map(|change| change.work).collect();
    assert!(work.iter().all(|work| work.count == 4 && work.version == 1), "{work:?}");
    for execution in world.live(job) {
        world.complete(execution);
    }
    assert_eq!(indexes(&world), [3, 7, 8, 9]);
    for execution in world.live(job) {
        world.complete(execution);
    }
    assert_eq!(world.state(job), JobStateType::Completed);
    assert_eq!(world.message(job), "all 4 executions completed");
}
