//! What the step asks for in each phase, whatever the store says.

mod leading;
mod records;
mod removals;
mod schedules;
mod submissions;

use std::collections::BTreeMap;
use std::sync::Arc;

use api_types::engine::EngineType;
use api_types::job::{JobSpec, JobType, RetryPolicy, Task};
use api_types::node::ComputeNodeInfo;
use api_types::protocol::SessionRequest;
use api_types::quantity::Capacity;
use api_types::version::VersionRecord;
use api_types::{JobId, NodeId, Timestamp};
use scheduler::Settings;
use scheduler::input::{Answer, Refusal, Submit};
use scheduler::mint::Mint;
use scheduler::silence::HeartbeatArrival;
use scheduler::time::Now;
use uuid::Uuid;

use super::*;
use crate::clock::{Reading, UNKNOWN_BOOT};
use crate::store::memory::{MemoryStore, spec_json};
use crate::store::{KEY_RETENTION, Store};

/// A step over a store in memory; callers are numbers.
struct World {
    step: Step<u32>,
    store: MemoryStore,
    now: Moment,
    /// What the store says instead of writing.
    refusal: Option<fn() -> StoreError>,
    /// What left, and what did not.
    replies: Vec<(u32, Reply)>,
    refused: Vec<(u32, Refused)>,
    commits: Vec<NumberedCommit>,
    due: Vec<DueTime>,
    /// How far the wall clock is off, in nanoseconds.
    shift: i64,
    takes: Vec<Reason>,
    closed_streams: u32,
    stepped_down: Option<Failure>,
}

fn full() -> StoreError {
    StoreError::Full { path: "test".into() }
}

fn job(number: u128) -> JobId {
    JobId::from_uuid(Uuid::from_u128(number))
}

fn enveloped(arrived: Now, (caller, request): (u32, Request)) -> Envelope<u32> {
    Envelope { origin: Origin::User, arrived, request, audit: None, caller }
}

/// Refused by the scheduler, so that it changes nothing.
fn stop(caller: u32) -> (u32, Request) {
    (caller, Request::Input(Input::Stop { job: job(99), reason: String::new() }))
}

fn submit(caller: u32, id: u128, namespace: &str, key: Option<(&str, u8)>) -> (u32, Request) {
    let spec = JobSpec {
        name: "a".to_owned(),
        namespace: namespace.to_owned(),
        job_type: JobType::Daemon,
        priority: 50,
        count: 1,
        max_running: 0,
        constraints: Vec::new(),
        meta: Default::default(),
        labels: Default::default(),
        retry_policy: RetryPolicy::default_for(JobType::Daemon),
        max_failed: 0,
        concurrency_groups: Vec::new(),
        on_conflict: api_types::job::OnConflict::Queue,
        depends_on: Vec::new(),
        tasks: vec![Task::new("main", EngineType::Noop)],
    };
    let submit = Submit::new(job(id), Arc::new(spec.clone()), spec_json(&spec));
    let key = key.map(|(key, hash)| IdempotencyKey { key: key.to_owned(), body_hash: [hash; 32] });
    let submission = Submission { submit, id_given: id < 10, warnings: Vec::new(), key };
    (caller, Request::Submit(Box::new(submission)))
}

// === impl World ===

impl World {
    fn new(trust: Trust) -> Self {
        let now = Moment(1_000_000_000);
        let (step, actions) = Step::start(Retention::default(), trust, now);
        let mut world = Self {
            step,
            store: MemoryStore::default(),
            now,
            refusal: None,
            replies: Vec::new(),
            refused: Vec::new(),
            commits: Vec::new(),
            due: Vec::new(),
            shift: 0,
            takes: Vec::new(),
            closed_streams: 0,
            stepped_down: None,
        };
        world.perform(actions);
        world.commits.clear();
        world
    }

    fn stamp(&self) -> Stamp {
        let wall = Timestamp(self.now.0.cast_signed() + self.shift);
        let reading = Reading { boot_id: UNKNOWN_BOOT, boot: self.now.0, wall };
        Stamp { reading, moment: self.now }
    }

    fn perform(&mut self, actions: Vec<Action<u32>>) {
        for action in actions {
            let event = match action {
                Action::Take(reason) => {
                    self.takes.push(reason);
                    Event::Took(self.take())
                }
                Action::Commit(commit) => {
                    self.commits.push(commit.clone());
                    let result = match self.refusal {
                        Some(refusal) => Err(refusal()),
                        None => commit.write_to(&mut self.store),
                    };
                    Event::Committed(commit.id, result)
                }
                Action::Release(release) => {
                    self.replies.extend(release.held.into_iter().filter_map(|held| match held {
                        Delivery::Effect(_) => None,
                        Delivery::Reply(caller, reply) => Some((caller, reply)),
                    }));
                    continue;
                }
                Action::Due(due) => {
                    self.due.extend(due);
                    continue;
                }
                Action::Refuse { callers, why } => {
                    self.refused.extend(callers.into_iter().map(|caller| (caller, why)));
                    continue;
                }
                Action::CloseStreams => {
                    self.closed_streams += 1;
                    continue;
                }
                Action::StepDown(failure) => {
                    self.stepped_down = Some(failure);
                    continue;
                }
            };
            let actions = self.step.on(event, self.stamp());
            self.perform(actions);
        }
    }

    fn take(&mut self) -> Result<TermState, TakeError> {
        if let Some(refusal) = self.refusal {
            return Err(refusal().into());
        }
        let progress = self.store.take()?;
        let mint = Mint::from_seed([7; 32]);
        TermState::load(&mut self.store, progress, Settings::default(), mint, || self.now, &|| {})
    }

    fn request(&mut self, requests: impl IntoIterator<Item = (u32, Request)>) {
        let arrived = self.stamp().now();
        let envelope = |request| enveloped(arrived, request);
        let inputs: Vec<_> = requests.into_iter().map(envelope).collect();
        let known = Lookups::for_inputs(&inputs).ask(&mut self.store, self.now).ok();
        let actions = self.step.on(Event::Inputs { inputs, known }, self.stamp());
        self.perform(actions);
    }

    fn pass(&mut self, time: Duration) {
        self.now = self.now + time;
        let actions = self.step.on(Event::Tick, self.stamp());
        self.perform(actions);
    }

    fn created(&self) -> Vec<(u32, Result<JobId, NotCreated>)> {
        let created = |(caller, reply): &(u32, Reply)| match reply {
            Reply::Created(created) => {
                Some((*caller, created.as_ref().map(|job| job.job_id).map_err(Clone::clone)))
            }
            Reply::Answer(_)
            | Reply::GraphCreated(_)
            | Reply::Recorded(_)
            | Reply::Asked(_)
            | Reply::Proved => None,
        };
        self.replies.iter().filter_map(created).collect()
    }

    fn numbers(&self) -> Vec<u64> {
        self.commits.iter().map(|commit| commit.id.number).collect()
    }
}

#[test]
fn replies_leave_after_one_commit_and_in_the_order_of_their_requests() {
    let mut world = World::new(Trust::Always);
    world.request([stop(1), submit(2, 20, "a", None), stop(3), (4, Request::Ask)]);
    let callers: Vec<_> = world.replies.iter().map(|(caller, _)| *caller).collect();
    assert_eq!(callers, [1, 2, 3, 4]);
    assert!(matches!(world.replies[0].1, Reply::Answer(Answer::Refused(_))));
    assert_eq!(world.created(), [(2, Ok(job(20)))]);
    assert_eq!(world.numbers(), [1]);
    assert!(world.store.jobs.contains_key(&job(20)));
    world.request([stop(5)]);
    assert_eq!(world.numbers(), [1], "a refusal changes nothing");
    assert_eq!(world.replies.len(), 5);
}

/// A node that any job of these tests may run on.
fn join(caller: u32, node: NodeId) -> (u32, Request) {
    let capacity = Capacity { cpu: 4.0, memory: 1 << 30, disk: 1 << 30, gpu: 0 };
    let request = SessionRequest {
        name: String::new(),
        addrs: Vec::new(),
        labels: BTreeMap::new(),
        compute_node_info: ComputeNodeInfo {
            execution_engines: vec![EngineType::Noop],
            max_capacity: capacity,
            ..ComputeNodeInfo::default()
        },
        default_resources: Capacity::default(),
        service_version: VersionRecord::default(),
        probes: false,
        process: None,
    };
    (caller, Request::Input(Input::Join { node, request: Box::new(request) }))
}

#[test]
fn heartbeats_count_before_the_requests_that_came_after_them() {
    let node = NodeId::from_uuid(Uuid::from_u128(30));
    for (stalled, executions) in [(Duration::ZERO, 1), (Duration::from_secs(6), 0)] {
        let mut world = World::new(Trust::Always);
        world.request([join(1, node)]);
        let lease = Settings::default().lease;
        let heard = HeartbeatArrival {
            node,
            session: 1,
            at: world.now,
            stalled,
            granted: lease,
            kept: None,
            probed: None,
        };
        let heard = Event::Heard { gap: Duration::ZERO, arrivals: vec![heard] };
        assert!(world.step.on(heard, world.stamp()).is_empty());
        world.request([submit(2, 20, "a", None)]);
        assert_eq!(world.store.executions.len(), executions, "stalled for {stalled:?}");
    }
}

#[test]
fn a_commit_of_unknown_outcome_is_repeated_unchanged() {
    let mut world = World::new(Trust::Always);
    world.refusal = Some(|| StoreError::Unavailable);
    world.request([submit(1, 20, "a", None)]);
    assert!(world.step.is_committing());
    let actions = world
        .step
        .on(Event::Heard { gap: Duration::from_secs(1), arrivals: Vec::new() }, world.stamp());
    assert!(actions.is_empty(), "heartbeats are taken at any time");
    world.pass(Duration::from_millis(1));
    assert_eq!(world.numbers(), [1], "not immediately");
    // The first attempt was written, and its answer lost.
    world.commits[0].write_to(&mut world.store).unwrap();
    world.pass(REPEAT_EVERY);
    assert_eq!(world.numbers(), [1, 1]);
    world.refusal = None;
    world.request([stop(2)]);
    assert_eq!(world.refused, [(2, Refused::NotStored)]);
    assert!(world.replies.is_empty());
    world.pass(REPEAT_EVERY);
    assert_eq!(world.created(), [(1, Ok(job(20)))]);
    assert_eq!(world.numbers(), [1, 1, 1]);
    world.request([submit(3, 21, "a", None)]);
    assert_eq!(world.numbers(), [1, 1, 1, 2]);
    assert_eq!(world.takes, [Reason::Start]);
}

#[test]
fn a_commit_that_remains_unknown_is_settled_by_a_new_term() {
    let mut world = World::new(Trust::Always);
    world.refusal = Some(|| StoreError::Unavailable);
    world.request([submit(1, 20, "a", None)]);
    world.pass(UNKNOWN_FOR);
    assert_eq!(world.refused, [(1, Refused::OutcomeUnknown)]);
    assert_eq!(world.takes, [Reason::Start, Reason::Unknown]);
    // The store does not answer yet; requests are refused until it does.
    world.request([stop(2)]);
    assert_eq!(world.refused.last(), Some(&(2, Refused::NotStored)));
    assert!(world.step.scheduler().is_none());
    world.refusal = None;
    world.pass(RETRY_EVERY);
    assert_eq!(world.takes.last(), Some(&Reason::Retry));
    let late = world.commits[0].write_to(&mut world.store);
    assert!(matches!(late, Err(StoreError::Fenced)), "{late:?}");
    world.request([submit(3, 21, "a", None)]);
    assert_eq!(world.created(), [(3, Ok(job(21)))]);
}

#[test]
fn while_the_disk_is_full_callers_are_refused_and_the_probe_is_numbered() {
    let mut world = World::new(Trust::Always);
    world.refusal = Some(full);
    world.request([submit(1, 20, "a", None), stop(2)]);
    world.request([stop(3)]);
    let not_stored = |caller| (caller, Refused::NotStored);
    assert_eq!(world.refused, [1, 2, 3].map(not_stored));
    assert!(world.closed_streams > 0);
    assert!(world.step.scheduler().is_some(), "questions are still answered");
    world.pass(RETRY_EVERY);
    world.pass(RETRY_EVERY);
    assert_eq!(world.numbers(), [1, 1, 1], "one batch, two probes");
    assert!(matches!(world.commits[2].content, Content::Probe));
    world.refusal = None;
    world.pass(RETRY_EVERY);
    assert_eq!(world.takes, [Reason::Start, Reason::Writable]);
    world.request([submit(4, 20, "a", None)]);
    assert_eq!(world.created(), [(4, Ok(job(20)))], "the first attempt left nothing in memory");
    assert_eq!(world.numbers().last(), Some(&2));
}

#[test]
fn a_fenced_step_drops_what_it_knew_and_reads_it_again() {
    let mut world = World::new(Trust::Always);
    world.request([submit(1, 20, "a", None)]);
    let before = world.commits[0].id.term;
    // Another process takes over and stores a job.
    let mut other = World::new(Trust::Always);
    std::mem::swap(&mut world.store, &mut other.store);
    other.step = Step::start(Retention::default(), Trust::Always, other.now).0;
    let taken = other.take();
    let actions = other.step.on(Event::Took(taken), other.stamp());
    other.perform(actions);
    other.request([submit(1, 5, "a", None)]);
    std::mem::swap(&mut world.store, &mut other.store);

    world.request([submit(2, 21, "a", None)]);
    assert_eq!(world.refused, [(2, Refused::NotStored)]);
    assert_eq!(world.takes, [Reason::Start, Reason::Fenced]);
    assert!(world.closed_streams > 0);
    assert!(!world.store.jobs.contains_key(&job(21)));
    world.request([submit(3, 22, "a", None)]);
    assert_ne!(world.commits.last().unwrap().id.term, before);
    assert_eq!(world.step.scheduler().unwrap().live_jobs(), 3);
}

#[test]
fn a_store_that_fails_otherwise_ends_the_step() {
    let mut world = World::new(Trust::Always);
    world.refusal = Some(|| StoreError::Record { detail: "test".to_owned() });
    world.request([submit(1, 20, "a", None)]);
    assert!(matches!(world.stepped_down, Some(Failure::Commit(_))));
    world.refusal = None;
    assert_eq!(world.refused, [(1, Refused::OutcomeUnknown)]);
    world.request([stop(2)]);
    assert_eq!(world.refused, [(1, Refused::OutcomeUnknown), (2, Refused::NotStored)]);
    assert_eq!(world.step.wake(), None);
}
