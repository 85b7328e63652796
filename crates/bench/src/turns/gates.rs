//! Inputs that open or close what many jobs wait for.

use std::time::Duration;

use api_types::dependency::{Condition, Dependency, Indexes};
use api_types::execution::ComputeState;
use api_types::job::{JobSpec, JobType};
use api_types::{GraphId, JobId};
use scheduler::input::{Answer, Input, SubmitGraph};
use scheduler::{Entitlement, Quota};
use uuid::Uuid;

use super::driven::{Driven, row};
use crate::measure::{Measure, millis};
use crate::scale::Scale;
use crate::seed;

const NAMESPACE: &str = "default";

const GROUP: &str = "full";

/// Executions of the large arrays that are live at the same time.
const LIVE: u32 = 100_000;

/// A job of one core that is in a class of its namespace with no other job.
fn alone(number: u32) -> JobSpec {
    let mut spec = seed::spec(number.into(), 1);
    let resources = &mut spec.tasks[0].resources;
    "1".clone_into(&mut resources.cpu);
    resources.memory = ((1 << 20) + number).to_string();
    spec
}

/// An array runs whose every second execution fails.
pub(super) fn half_failed(scale: Scale) -> Measure {
    let slots = u32::try_from(scale.jobs).expect("a Count");
    let mut driven = Driven::new();
    driven.join(f64::from(LIVE));
    let mut spec = seed::spec(1, slots);
    "1".clone_into(&mut spec.tasks[0].resources.cpu);
    spec.max_failed = -1;
    let job = driven.submit(&spec);
    let (mut turns, mut ended) = (0, 0);
    while driven.scheduler.standing(job).is_some() {
        turns += driven.wake(Duration::ZERO);
        ended += driven.end_offered(|at| {
            if at % 2 == 0 { ComputeState::Completed } else { ComputeState::Failed }
        });
    }
    assert_eq!(ended, slots as usize);
    let what = format!("the longest input while half of {slots} executions of a job fail");
    row(what, driven.longest, format!("{turns} turns"))
}

/// Jobs of as many classes wait for the only unit of a group, which passes from one to the next. Then
/// the group gets a unit for each, and loses them all while half of the jobs run and half wait for
/// the room that those leave.
pub(super) fn full_group(scale: Scale) -> Measure {
    const PASSES: u32 = 100;
    let jobs = scale.live;
    let mut driven = Driven::new();
    driven.join(f64::from(jobs / 2));
    driven.limit(1);
    for number in 0..jobs {
        driven.submit(&grouped(alone(number)));
    }
    let submitted = std::mem::take(&mut driven.longest);
    for _ in 0..PASSES {
        assert_eq!(driven.end_offered(|_| ComputeState::Completed), 1, "one unit");
        driven.wake(Duration::ZERO);
    }
    driven.limit(jobs);
    let mut turns = driven.wake(Duration::ZERO);
    driven.limit(0);
    assert_eq!(driven.end_offered(|_| ComputeState::Completed), jobs as usize / 2);
    turns += driven.wake(Duration::ZERO);
    assert_eq!(driven.scheduler.live_executions(), 0);
    let what = format!("the longest input with {jobs} jobs in one full group");
    let context = format!("{turns} turns; submissions up to {:.2} ms", millis(submitted));
    row(what, driven.longest.max(submitted), context)
}

/// Ops jobs wait for a group that is paused, on a node whose other executions end in their thousands.
pub(super) fn paused_group(scale: Scale) -> Measure {
    const RUNNING: usize = 1000;
    const ROUNDS: usize = 3;
    let jobs = scale.live / 10;
    let mut driven = Driven::new();
    driven.join(RUNNING as f64);
    driven.limit(0);
    for _ in 0..jobs {
        driven.submit(&JobSpec { job_type: JobType::Ops, ..grouped(alone(0)) });
    }
    let submitted = std::mem::take(&mut driven.longest);
    let count = u32::try_from(ROUNDS * RUNNING).expect("a Count");
    driven.submit(&JobSpec { count, ..alone(0) });
    let mut turns = driven.wake(Duration::ZERO);
    for _ in 0..ROUNDS {
        assert_eq!(driven.end_offered(|_| ComputeState::Completed), RUNNING);
        turns += driven.wake(Duration::ZERO);
    }
    let what = format!("the longest input with {jobs} ops jobs in a paused group");
    let context = format!("{turns} turns; submissions up to {:.2} ms", millis(submitted));
    row(what, driven.longest.max(submitted), context)
}

/// The job names the group of the rows about groups.
fn grouped(spec: JobSpec) -> JobSpec {
    JobSpec { concurrency_groups: vec![GROUP.to_owned()], ..spec }
}

/// Namespaces with ten jobs each wait: all for room, and every second one for its quota, too. What
/// runs ends twice, and another node joins.
pub(super) fn namespaces(scale: Scale) -> Measure {
    const JOBS: u32 = 10;
    const NODES: u32 = 10;
    let namespaces = scale.live / 10;
    let mut driven = Driven::new();
    for _ in 0..NODES {
        driven.join(f64::from(namespaces / NODES / 2));
    }
    for number in (0..namespaces).step_by(2) {
        driven.quota(&name(number), Quota { executions: Some(1), ..Quota::default() });
    }
    for number in 0..JOBS * namespaces {
        let namespace = name(number % namespaces);
        driven.submit(&JobSpec { namespace, ..alone(number) });
    }
    let submitted = std::mem::take(&mut driven.longest);
    let mut turns = 0;
    for _ in 0..2 {
        assert_eq!(driven.end_offered(|_| ComputeState::Completed), namespaces as usize / 2);
        turns += driven.wake(Duration::ZERO);
    }
    driven.join(f64::from(namespaces));
    turns += driven.wake(Duration::ZERO);
    let what = format!("the longest input with {namespaces} namespaces that wait");
    let context = format!("{turns} turns; submissions up to {:.2} ms", millis(submitted));
    row(what, driven.longest.max(submitted), context)
}

fn name(number: u32) -> String {
    format!("n{number}")
}

/// The largest graph: every job but the first five depends on five before it. Half of it runs, and
/// then a job fails that all others depend on.
pub(super) fn graph() -> Measure {
    const JOBS: usize = 1000;
    const EDGES: usize = 5;
    let mut driven = Driven::new();
    driven.join(JOBS as f64);
    let mut jobs = Vec::with_capacity(JOBS);
    for at in 0..JOBS {
        let mut spec = alone(0);
        spec.depends_on = (at.saturating_sub(EDGES)..at).map(|at| depends(&jobs, at)).collect();
        let name = format!("job{at}");
        jobs.push((name, driven.submission(&spec)));
    }
    let (id, name) = (GraphId::from_uuid(Uuid::from_u128(1)), "graph".to_owned());
    let last = jobs[JOBS - 1].1.id;
    let graph = SubmitGraph { id, name, namespace: NAMESPACE.to_owned(), jobs };
    assert_eq!(driven.handle(Input::SubmitGraph(Box::new(graph))), Answer::Done);
    let submitted = driven.longest;
    let mut turns = driven.wake(Duration::ZERO);
    for _ in 0..JOBS / 2 {
        assert_eq!(driven.end_offered(|_| ComputeState::Completed), 1, "one after the other");
        turns += driven.wake(Duration::ZERO);
    }
    assert_eq!(driven.end_offered(|_| ComputeState::Failed), 1);
    turns += driven.wake(Duration::ZERO);
    assert!(driven.scheduler.standing(last).is_none(), "the rest does not run");
    let what = format!("the longest input with a graph of {JOBS} jobs");
    let context = format!("{turns} turns; its submission {:.2} ms", millis(submitted));
    row(what, driven.longest, context)
}

fn depends(jobs: &[(String, scheduler::input::Submit)], at: usize) -> Dependency {
    let (job, submit) = &jobs[at];
    let job_id: JobId = submit.id;
    Dependency { job_id, job: job.clone(), condition: Condition::Completed, indexes: Indexes::All }
}

/// One execution holds the quota that as many classes wait for, and ends.
pub(super) fn freed_quota(scale: Scale) -> Measure {
    let classes = scale.live / 10;
    let mut driven = Driven::new();
    driven.join(f64::from(2 * classes));
    let quota = Quota { cpu_millis: Some(u64::from(classes) * 1000), ..Quota::default() };
    driven.quota(NAMESPACE, quota);
    let mut all = alone(classes);
    all.tasks[0].resources.cpu = classes.to_string();
    driven.submit(&all);
    for number in 0..classes {
        driven.submit(&alone(number));
    }
    let submitted = std::mem::take(&mut driven.longest);
    assert_eq!(driven.end_offered(|_| ComputeState::Completed), 1, "it alone has a node");
    let turns = driven.wake(Duration::ZERO);
    assert_eq!(driven.offers.len(), classes as usize, "all have");
    let what = format!("the longest input when an end frees quota for {classes} classes");
    let context = format!("{turns} turns; submissions up to {:.2} ms", millis(submitted));
    row(what, driven.longest.max(submitted), context)
}

// === impl Driven ===

impl Driven {
    /// The group has this limit from now on.
    fn limit(&mut self, limit: u32) {
        let (namespace, name, limit) = (NAMESPACE.to_owned(), GROUP.to_owned(), Some(limit));
        assert_eq!(self.handle(Input::Group { namespace, name, limit }), Answer::Done);
    }

    fn quota(&mut self, namespace: &str, quota: Quota) {
        let namespace = namespace.to_owned();
        let to = Entitlement { quota, ..Entitlement::default() };
        assert_eq!(self.handle(Input::Entitle { namespace, to }), Answer::Done);
    }
}
