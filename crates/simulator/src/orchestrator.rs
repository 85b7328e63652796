//! The orchestrator's process: the scheduler, its stored state, and its open streams.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use api_types::protocol::{Assignment, Work};
use api_types::{NodeId, Timestamp};
use control_plane::batch::{self, Held};
use control_plane::clock::{Reading, ServiceClock, Stamp};
use control_plane::store::memory::MemoryStore;
use control_plane::store::{IdempotencyRow, RequestKey, Store};
use scheduler::change::{AssignmentChange, Effect};
use scheduler::input::{self, Input};
use scheduler::mint::Mint;
use scheduler::time::{Moment, Now};
use scheduler::{Restore, Scheduler, Settings, invariants};

use super::machine::Machine;
use super::network::{Answer, Request, RequestBody, Sender, StreamLine};
use super::summary::Sabotage;
use crate::random::Random;

/// A short lease, so that many fit into one run.
pub(super) const SETTINGS: Settings = Settings {
    lease: Duration::from_secs(10),
    approve_new_nodes: true,
    drain_deadline: Duration::from_secs(20),
    node_retention: Duration::from_secs(3600),
    starvation: Some(Duration::from_secs(30)),
};

/// The shortest duration of a turn, so that virtual time advances.
const SHORTEST_SLEEP: Duration = Duration::from_micros(100);

/// The machine, its disk, and the process if it runs.
pub(super) struct Orchestrator {
    pub(super) machine: Machine,
    sabotage: Option<Sabotage>,
    /// The clock readings of the machine at the last commit, and the time of that commit.
    committed: Option<(Reading, Timestamp)>,
    pub(super) store: MemoryStore,
    pub(super) process: Option<Process>,
    /// The number of processes started.
    pub(super) started: u64,
}

pub(super) struct Process {
    pub(super) scheduler: Scheduler,
    clock: ServiceClock,
    pub(super) inbox: VecDeque<Request>,
    /// The connection on which each node's stream is open.
    streams: BTreeMap<NodeId, Stream>,
    commits: u64,
    /// The process does nothing before this moment.
    pub(super) paused_until: Timestamp,
    /// The length of the last pause, until it is reported to the scheduler.
    pub(super) deaf: Duration,
    /// When the scheduler's next tick is due.
    wake: Moment,
    /// How long after the last turn that tick is due.
    pub(super) sleep: Duration,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Stream {
    pub(super) agent: usize,
    pub(super) process: u64,
    pub(super) connection: u64,
}

/// A message released after a commit.
#[derive(Debug)]
pub(super) enum Outgoing {
    Answer(Request, Answer),
    Line(Stream, StreamLine),
}

/// Where a turn of the process crashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CrashPoint {
    BeforeCommit,
    AfterCommit,
}

// === impl Orchestrator ===

impl Orchestrator {
    pub(super) fn new(now: Timestamp, sabotage: Option<Sabotage>) -> Self {
        Self {
            machine: Machine::new(now),
            sabotage,
            committed: None,
            store: MemoryStore::default(),
            process: None,
            started: 0,
        }
    }

    /// Restarts the machine while no process runs.
    pub(super) fn reboot(&mut self, now: Timestamp, random: &mut Random) {
        self.machine.reboot(self.committed, now, random);
    }

    pub(super) fn start(&mut self, now: Timestamp, random: &mut Random) {
        let mut restore = Restore::new(SETTINGS, Mint::from_seed(random.seed()));
        let live = self.store.load(&mut |job| restore.job(job));
        let live = live.expect("the store holds what the scheduler wrote");
        let stamp = self.store.last_stamp().expect("memory answers");
        let reading = self.machine.reading(now);
        let mut clock = ServiceClock::resume(stamp, &reading);
        let wake = sabotaged(clock.stamp(&reading), self.sabotage).moment;
        let scheduler = restore.finish(live, wake).expect("stored records are whole");
        invariants::check(&scheduler);
        let commits = self.store.last_commit().expect("the store counts its commits");
        self.started += 1;
        self.process = Some(Process {
            scheduler,
            clock,
            inbox: VecDeque::new(),
            streams: BTreeMap::new(),
            commits,
            paused_until: Timestamp::ZERO,
            deaf: Duration::ZERO,
            wake,
            sleep: Duration::ZERO,
        });
    }

    /// Handles up to `most` requests and everything due, commits, and returns the messages to
    /// release. A crash leaves the store as it is at that moment and releases nothing.
    pub(super) fn turn(
        &mut self,
        now: Timestamp,
        most: usize,
        crash: Option<CrashPoint>,
    ) -> Vec<Outgoing> {
        let Some(process) = &mut self.process else { return Vec::new() };
        let true_time = now;
        let stamp = process.clock.stamp(&self.machine.reading(true_time));
        let stamp = sabotaged(stamp, self.sabotage);
        let now = stamp.now();
        let mut batch = Batch::default();
        let deaf = std::mem::take(&mut process.deaf);
        if !deaf.is_zero() {
            process.handle(now, Input::WasDeaf(deaf), &mut batch);
        }
        // Heartbeats bypass the queue and are handled first.
        let is_heartbeat =
            |request: &Request| matches!(request.body, RequestBody::Heartbeat { .. });
        let inbox = std::mem::take(&mut process.inbox);
        let (heartbeats, others): (VecDeque<_>, _) = inbox.into_iter().partition(is_heartbeat);
        process.inbox = others;
        for request in heartbeats {
            process.serve(&mut self.store, now, request, &mut batch);
        }
        for _ in 0..most {
            let Some(request) = process.inbox.pop_front() else { break };
            process.serve(&mut self.store, now, request, &mut batch);
        }
        if process.wake <= now.moment {
            process.handle(now, Input::Tick, &mut batch);
        }
        let soonest = now.moment + SHORTEST_SLEEP;
        process.wake = process.scheduler.next_wake(now.moment).max(soonest);
        process.sleep = process.wake.since(now.moment);
        if crash == Some(CrashPoint::BeforeCommit) {
            let told = match self.sabotage {
                Some(Sabotage::AnswerBeforeCommit) => {
                    batch.into_held().into_iter().flat_map(|held| self.release(held)).collect()
                }
                Some(Sabotage::ForgetReports | Sabotage::ForgetBoot | Sabotage::TrustWallClock)
                | None => Vec::new(),
            };
            self.process = None;
            return told;
        }
        if !batch.is_empty() {
            process.commits += 1;
            let number = process.commits;
            batch.commit(&mut self.store, number, stamp).expect("commits follow each other");
            self.committed = Some((stamp.reading, true_time));
        }
        if crash == Some(CrashPoint::AfterCommit) {
            self.process = None;
            return Vec::new();
        }
        batch.into_held().into_iter().flat_map(|held| self.release(held)).collect()
    }

    fn release(&mut self, held: Held<Reply>) -> Vec<Outgoing> {
        let Some(process) = &mut self.process else { return Vec::new() };
        match held {
            Held::Reply(Reply::Answer(request, answer)) => vec![Outgoing::Answer(request, answer)],
            Held::Reply(Reply::Open(stream, node, snapshot)) => {
                // This ends the previous stream: its agent sees the end of the body.
                let before = process.streams.insert(node, stream);
                let ended = before.map(|before| Outgoing::Line(before, StreamLine::Closed));
                let lines = snapshot.into_iter().map(|change| self.assignment(change)).collect();
                let opened = Outgoing::Line(stream, StreamLine::Snapshot(lines));
                ended.into_iter().chain([opened]).collect()
            }
            Held::Effect(Effect::CloseStream { node }) => {
                let closed = process.streams.remove(&node);
                closed
                    .map(|stream| Outgoing::Line(stream, StreamLine::Closed))
                    .into_iter()
                    .collect()
            }
            Held::Effect(Effect::Assign { node, change }) => {
                let Some(stream) = process.streams.get(&node).copied() else { return Vec::new() };
                vec![Outgoing::Line(stream, StreamLine::Change(Box::new(self.assignment(change))))]
            }
        }
    }

    fn assignment(&self, change: AssignmentChange) -> Assignment {
        let work = change.work.map(|order| {
            let job = &self.store.new_jobs[&order.job];
            let spec: api_types::job::JobSpec =
                serde_json::from_str(&job.spec_json).expect("a stored specification is readable");
            Work {
                job_id: order.job,
                job_name: spec.name,
                namespace: spec.namespace,
                job_type: spec.job_type,
                index: order.index,
                count: order.count,
                resources: order.resources.into(),
                task: spec.tasks.into_iter().next().expect("a job has a task"),
                traceparent: None,
            }
        });
        Assignment {
            execution_id: change.execution,
            desired_state: change.desired,
            compute_state: change.compute,
            message: change.message.to_string(),
            work,
        }
    }
}

/// The clock that a service would use if it decided by the wall clock.
fn sabotaged(stamp: Stamp, sabotage: Option<Sabotage>) -> Stamp {
    match sabotage {
        Some(Sabotage::TrustWallClock) => {
            Stamp { moment: Moment(stamp.reading.wall.0.cast_unsigned()), ..stamp }
        }
        Some(Sabotage::AnswerBeforeCommit | Sabotage::ForgetReports | Sabotage::ForgetBoot)
        | None => stamp,
    }
}

type Batch = batch::Batch<Reply>;

/// A reply held back until the commit.
enum Reply {
    Answer(Request, Answer),
    Open(Stream, NodeId, Vec<AssignmentChange>),
}

// === impl Process ===

impl Process {
    fn serve(&mut self, store: &mut MemoryStore, now: Now, request: Request, batch: &mut Batch) {
        let input = match request.body.clone() {
            RequestBody::Join { node, record } => Input::Join { node, request: record },
            RequestBody::Heartbeat { node, heartbeat } => Input::Heartbeat { node, heartbeat },
            RequestBody::Open { node, session, .. } => Input::OpenAssignments { node, session },
            RequestBody::Reports { node, session, reports } => {
                Input::Reports { node, session, reports }
            }
            RequestBody::Stop { job } => Input::Stop { job, reason: "simulated".to_owned() },
            RequestBody::Act { node, action } => {
                Input::NodeAction { node, action, message: String::new() }
            }
            RequestBody::Submit { key, submit } => {
                let namespace = submit.spec.namespace.clone();
                let key = RequestKey { namespace, key };
                let first = batch.first_answer(store, &key, now.moment).expect("memory answers");
                if let Some(row) = first {
                    let job = row.answer.parse().expect("the answer is a job ID");
                    batch.hold(Reply::Answer(request, Answer::Submitted { job }));
                    return;
                }
                let answer = submit.id.to_string();
                batch.remember(IdempotencyRow {
                    key,
                    body_hash: [0; 32],
                    answer,
                    stored_at: now.moment,
                });
                Input::Submit(submit)
            }
        };
        let answer = self.handle(now, input, batch);
        let answer = match answer {
            input::Answer::Submitted { job, .. } => Answer::Submitted { job },
            input::Answer::Stopped { .. } | input::Answer::Done => Answer::Done,
            input::Answer::Joined { session, .. } => Answer::Joined { session },
            input::Answer::Renewed { .. } => Answer::Renewed,
            input::Answer::Acknowledged(acknowledged) => Answer::Acknowledged(acknowledged),
            input::Answer::Refused(_) => Answer::Refused,
            input::Answer::Assignments(snapshot) => {
                if let (
                    Sender::Agent { agent, process },
                    RequestBody::Open { node, connection, .. },
                ) = (request.sender, &request.body)
                {
                    let stream = Stream { agent, process, connection: *connection };
                    batch.hold(Reply::Open(stream, *node, snapshot));
                }
                Answer::Opened
            }
        };
        batch.hold(Reply::Answer(request, answer));
    }

    fn handle(&mut self, now: Now, input: Input, batch: &mut Batch) -> input::Answer {
        let answer = batch.handle(&mut self.scheduler, now, input);
        invariants::check(&self.scheduler);
        invariants::check_capacity(&self.scheduler);
        answer
    }
}
