//! The wall clock decides nothing, and the times of a history never go back.

use std::time::Duration;

use api_types::execution::ComputeState;
use api_types::job::{JobStateType, JobType};
use api_types::node::{Connection, NodeAction};
use api_types::{JobId, Timestamp};

use crate::specs::{batch, job, with_retries};
use crate::world::{LEASE, World};

const DAY: i64 = 86_400_000_000_000;

const STEPS: [i64; 4] = [0, DAY, -DAY, 2 * DAY];

fn times(world: &World, job: JobId) -> Vec<Timestamp> {
    world
        .store
        .events
        .iter()
        .filter(|event| event.job() == Some(job))
        .map(|event| event.time)
        .collect()
}

#[test]
fn a_lease_ends_on_time_whatever_the_wall_clock_shows() {
    for step in STEPS {
        let (mut world, nodes) = World::with_nodes(2);
        world.wall += step;
        world.heartbeat(nodes[0]);
        world.wall -= 2 * step;
        world.pass_with(LEASE - Duration::from_secs(1), &nodes[1..]);
        assert_eq!(world.store.nodes[&nodes[0]].connection, Connection::Connected, "{step}");
        world.pass_with(Duration::from_secs(2), &nodes[1..]);
        assert_eq!(world.store.nodes[&nodes[0]].connection, Connection::Disconnected, "{step}");
        assert_eq!(world.store.nodes[&nodes[1]].connection, Connection::Connected, "{step}");
    }
}

#[test]
fn delays_and_timeouts_come_on_time_after_a_restart_with_another_wall_clock() {
    for step in STEPS {
        let (mut world, nodes) = World::with_nodes(1);
        let retried = world.submit(&with_retries(batch(1), 2));
        let first = world.only_live(retried);
        let mut bounded = batch(1);
        bounded.tasks[0].timeouts.total_timeout = 60;
        let bounded = world.submit(&bounded);
        world.act(nodes[0], NodeAction::Drain);
        let deadline = world.store.nodes[&nodes[0]].drain_deadline;
        world.fail(first);
        let due = world.store.pending_slots[&(retried, 0)].due.unwrap();

        world.wall += step;
        world.restart();
        assert_eq!(world.store.pending_slots[&(retried, 0)].due, Some(due), "{step}");
        world.act(nodes[0], NodeAction::Uncordon);
        assert!(deadline.is_some());
        world.pass_with(due.since(world.now) - Duration::from_millis(1), &nodes);
        assert_eq!(world.live(retried), [], "{step}");
        world.pass_with(Duration::from_millis(2), &nodes);
        world.only_live(retried);

        let spent = world.now.since(world.store.new_jobs[&bounded].created_at);
        world.pass_with(Duration::from_secs(59) - spent, &nodes);
        assert_ne!(world.state(bounded), JobStateType::Failed, "{step}");
        world.pass_with(Duration::from_secs(2), &nodes);
        assert_eq!(world.state(bounded), JobStateType::Failed, "{step}");
    }
}

#[test]
fn the_times_of_a_history_never_go_back_and_those_of_other_jobs_show_the_clock() {
    let (mut world, nodes) = World::with_nodes(1);
    let old = world.submit(&with_retries(batch(1), 9));
    world.wall += DAY;
    world.fail(world.only_live(old));
    let ahead = *times(&world, old).last().unwrap();
    // Ended executions are not loaded, but the job still knows its last event's time.
    world.wall -= 2 * DAY;
    world.restart();
    world.pass_with(Duration::from_secs(60), &nodes);
    let again = world.only_live(old);
    assert_eq!(world.row(again).create_time, ahead);
    let new = world.submit(&job(JobType::Service));
    world.report(again, ComputeState::AskForBidAccepted);
    let times_of_old = times(&world, old);
    assert!(times_of_old.is_sorted(), "{times_of_old:?}");
    assert_eq!(*times_of_old.last().unwrap(), ahead);
    assert!(times(&world, new).iter().all(|time| *time < Timestamp(ahead.0 - DAY)));
}
