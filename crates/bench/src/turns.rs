//! The longest time that one input occupies the driver, in the most demanding situations.
//!
//! The scheduler runs alone, since the store's part of a turn grows with what the scheduler brings
//! about. Time is the thread's own CPU time: a neighbour on the machine is not the scheduler's work.

mod driven;
mod gates;

use std::time::Duration;

use api_types::execution::ComputeState;
use api_types::job::Constraint;
use api_types::{JobId, NodeId};
use scheduler::input::{Answer, Input};
use scheduler::plan::JobPlan;

use driven::{Driven, LABEL, row, thread_time};

use super::measure::{Measure, millis};
use super::scale::Scale;
use super::seed;

/// Nodes of the cluster for which a dry run is made.
const NODES: u32 = 1000;

pub(super) async fn measure(scale: Scale) -> anyhow::Result<Vec<Measure>> {
    tokio::task::spawn_blocking(move || {
        Ok(vec![
            dry_run(),
            explanation(),
            classes(scale),
            kinds(scale),
            timers(scale),
            stop(scale),
            lost_node(scale),
            gates::half_failed(scale),
            gates::full_group(scale),
            gates::paused_group(scale),
            gates::namespaces(scale),
            gates::graph(),
            gates::freed_quota(scale),
        ])
    })
    .await?
}

fn dry_run() -> Measure {
    let mut driven = Driven::new();
    for _ in 0..NODES {
        driven.join(4e6);
    }
    let mut spec = seed::spec(1, 1_000_000);
    "1".clone_into(&mut spec.tasks[0].resources.cpu);
    spec.constraints = most_constraints();
    let plan = JobPlan::from_spec(&spec).expect("a readable demand");
    let begin = thread_time();
    let preview = driven.scheduler.preview(&plan, spec.count);
    let took = thread_time().saturating_sub(begin);
    let chosen = preview.nodes.iter().filter(|node| node.chosen).count();
    let what = format!("a dry run of Count 1,000,000 on {NODES} nodes");
    row(what, took, format!("{chosen} nodes chosen"))
}

/// All nodes meet what the job demands of labels, and none is large enough.
fn explanation() -> Measure {
    const EXPLAINED: u32 = 10 * NODES;
    let mut driven = Driven::new();
    for _ in 0..EXPLAINED {
        driven.join(4.0);
    }
    let mut spec = seed::spec(1, 1);
    "8".clone_into(&mut spec.tasks[0].resources.cpu);
    spec.constraints = most_constraints();
    let job = driven.submit(&spec);
    let begin = thread_time();
    let standing = driven.scheduler.standing(job).expect("the job waits");
    let took = thread_time().saturating_sub(begin);
    assert_eq!((standing.nodes.len(), standing.reasons.hopeless), (EXPLAINED as usize, true));
    row(
        format!("the scheduler's part of an explanation over {EXPLAINED} nodes"),
        took,
        String::new(),
    )
}

/// As much as a job may demand of a node's labels, which fails at nothing: 64 constraints that list
/// 256 values.
fn most_constraints() -> Vec<Constraint> {
    let not_in = |number: usize| Constraint {
        key: LABEL.to_owned(),
        operator: "notin".to_owned(),
        values: (0..4).map(|value| format!("host-{number:04}-{value}")).collect(),
    };
    (0..64).map(not_in).collect()
}

/// Jobs that all ask for a different amount of memory wait, and a node gains room.
fn classes(scale: Scale) -> Measure {
    let classes = scale.live;
    let mut driven = Driven::new();
    let node = driven.join(1.0);
    driven.submit(&seed::spec(1, 1));
    let (_, running) = driven.offers.pop().expect("the first job has a node");
    for number in 0..u64::from(classes) {
        let mut spec = seed::spec(number, 1);
        "2".clone_into(&mut spec.tasks[0].resources.cpu);
        spec.tasks[0].resources.memory = format!("{}", (1 << 30) + number);
        driven.submit(&spec);
    }
    let submitted = std::mem::take(&mut driven.longest);
    driven.report(node, running, ComputeState::AskForBidAccepted);
    driven.report(node, running, ComputeState::Completed);
    driven.wake(Duration::from_secs(120));
    let what = format!("the longest input with {classes} classes waiting");
    let context = format!("submissions up to {:.2} ms", millis(submitted));
    row(what, driven.longest.max(submitted), context)
}

/// Jobs wait that all demand something else of a node's labels, which each of 100 nodes has; one node
/// gains room for as many as a turn starts, and another one joins.
fn kinds(scale: Scale) -> Measure {
    const CORES: u32 = 1000;
    let kinds = scale.live;
    let mut driven = Driven::new();
    for _ in 0..100 {
        driven.join(f64::from(CORES));
    }
    let full = |cpu: u32| {
        let mut spec = seed::spec(1, 1);
        spec.tasks[0].resources.cpu = cpu.to_string();
        spec
    };
    for _ in 0..100 {
        driven.submit(&full(CORES));
    }
    let (node, running) = driven.offers.pop().expect("each node has one");
    for number in 0..kinds {
        let mut spec = full(1);
        spec.constraints = vec![Constraint {
            key: LABEL.to_owned(),
            operator: "notin".to_owned(),
            values: (0..4).map(|value| format!("other-{number}-{value}")).collect(),
        }];
        driven.submit(&spec);
    }
    let submitted = std::mem::take(&mut driven.longest);
    driven.report(node, running, ComputeState::AskForBidAccepted);
    driven.report(node, running, ComputeState::Completed);
    let turns = driven.wake(Duration::from_millis(1));
    driven.join(f64::from(CORES));
    let turns = turns + driven.wake(Duration::from_millis(1));
    let what = format!("the longest input with {kinds} kinds of work waiting for 100 nodes");
    let context = format!("{turns} turns; submissions up to {:.2} ms", millis(submitted));
    row(what, driven.longest.max(submitted), context)
}

/// The timeouts of all jobs end at the same time.
fn timers(scale: Scale) -> Measure {
    let mut driven = Driven::new();
    for number in 0..scale.jobs {
        let mut spec = seed::spec(number, 1);
        spec.tasks[0].timeouts.total_timeout = 3600;
        driven.submit(&spec);
    }
    let submitted = std::mem::take(&mut driven.longest);
    let turns = driven.wake(Duration::from_secs(3600));
    let what = format!("the longest input with {} timers due together", scale.jobs);
    let context = format!("{turns} turns; submissions up to {:.2} ms", millis(submitted));
    row(what, driven.longest, context)
}

fn stop(scale: Scale) -> Measure {
    let (mut driven, job, _) = running(scale.live);
    let answer = driven.handle(Input::Stop { job, reason: String::new() });
    assert!(matches!(answer, Answer::Stopped { .. }), "{answer:?}");
    let turns = driven.wake(Duration::ZERO);
    let what = format!("the longest input when a job of {} executions is stopped", scale.live);
    row(what, driven.longest, format!("{turns} turns"))
}

fn lost_node(scale: Scale) -> Measure {
    let executions = scale.live / 10;
    let (mut driven, _, node) = running(executions);
    let turns = driven.wake(Duration::from_secs(60));
    let left = driven.scheduler.live_executions();
    assert_eq!(left, 0, "{node} is lost");
    let what = format!("the longest input when a node of {executions} executions is lost");
    row(what, driven.longest, format!("{turns} turns"))
}

/// One node that runs all executions of one job.
fn running(executions: u32) -> (Driven, JobId, NodeId) {
    let mut driven = Driven::new();
    let node = driven.join(4e6);
    let job = driven.submit(&seed::spec(1, executions));
    driven.wake(Duration::ZERO);
    for (node, execution) in std::mem::take(&mut driven.offers) {
        driven.report(node, execution, ComputeState::AskForBidAccepted);
    }
    driven.longest = Duration::ZERO;
    (driven, job, node)
}
