//! The orchestrator's process: the engine, what the store holds of it, and its open streams.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;

use api_types::protocol::{Assignment, Work};
use api_types::{NodeId, Timestamp};
use orchestrator::engine::change::{AssignmentChange, Effect};
use orchestrator::engine::input::{self, Input};
use orchestrator::engine::mint::Mint;
use orchestrator::engine::{Engine, Output, Restore, Settings, invariants};
use orchestrator::store::memory::MemoryStore;
use orchestrator::store::{IdempotencyRow, Store};

use super::network::{Answer, Asker, Request, RequestBody, StreamLine};
use super::summary::Sabotage;
use crate::random::Random;

/// As short as a lease may be set, so that many fit into one run.
pub(super) const SETTINGS: Settings = Settings {
    lease: Duration::from_secs(10),
    approve_new_nodes: true,
    drain_deadline: Duration::from_secs(20),
    node_retention: Duration::from_secs(3600),
};

/// A turn takes this long at least, so that virtual time goes on.
const SHORTEST_SLEEP: Duration = Duration::from_micros(100);

/// What is on disk, and the process if there is one.
pub(super) struct Orchestrator {
    pub(super) store: MemoryStore,
    pub(super) process: Option<Process>,
    /// Counts processes.
    pub(super) started: u64,
}

pub(super) struct Process {
    pub(super) engine: Engine,
    pub(super) inbox: VecDeque<Request>,
    /// The connection on which each node's stream is open.
    streams: BTreeMap<NodeId, Stream>,
    commits: u64,
    /// It does nothing before this moment.
    pub(super) paused_until: Timestamp,
    /// When the engine wants to be handed the time.
    pub(super) wake: Timestamp,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Stream {
    pub(super) agent: usize,
    pub(super) process: u64,
    pub(super) connection: u64,
}

/// What leaves the process after a commit.
#[derive(Debug)]
pub(super) enum Outgoing {
    Answer(Request, Answer),
    Line(Stream, StreamLine),
}

/// Where a turn of the process is cut off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Death {
    BeforeCommit,
    AfterCommit,
}

// === impl Orchestrator ===

impl Orchestrator {
    pub(super) fn new() -> Self {
        Self { store: MemoryStore::default(), process: None, started: 0 }
    }

    pub(super) fn start(&mut self, now: Timestamp, random: &mut Random) {
        let mut restore = Restore::new(SETTINGS, Mint::from_seed(random.seed()));
        let live = self.store.load(&mut |job| restore.job(job));
        let live = live.expect("the store holds what the engine wrote");
        let engine = restore.finish(live, now).expect("stored records are whole");
        invariants::check(&engine);
        let commits = self.store.last_commit().expect("the store counts its commits");
        self.started += 1;
        self.process = Some(Process {
            engine,
            inbox: VecDeque::new(),
            streams: BTreeMap::new(),
            commits,
            paused_until: Timestamp::ZERO,
            wake: now,
        });
    }

    /// Handles up to `most` requests and what is due, commits, and says what leaves. A death
    /// leaves the store as it was at that moment, and nothing leaves.
    pub(super) fn turn(
        &mut self,
        now: Timestamp,
        most: usize,
        death: Option<Death>,
        sabotage: Option<Sabotage>,
    ) -> Vec<Outgoing> {
        let Some(process) = &mut self.process else { return Vec::new() };
        let mut output = Output::default();
        let mut outgoing = Vec::new();
        let mut keys: HashMap<String, IdempotencyRow> = HashMap::new();
        for _ in 0..most {
            let Some(request) = process.inbox.pop_front() else { break };
            process.serve(&mut self.store, now, request, &mut output, &mut keys, &mut outgoing);
        }
        if process.wake <= now {
            process.handle(now, Input::Tick, &mut output, &mut outgoing);
        }
        process.wake = process.engine.next_wake(now).max(now + SHORTEST_SLEEP);
        if death == Some(Death::BeforeCommit) {
            let told = match sabotage {
                Some(Sabotage::AnswerBeforeCommit) => {
                    outgoing.into_iter().flat_map(|pending| self.release(pending)).collect()
                }
                Some(Sabotage::ForgetReports) | None => Vec::new(),
            };
            self.process = None;
            return told;
        }
        if !output.changes.is_empty() || !keys.is_empty() {
            process.commits += 1;
            let keys: Vec<_> = keys.into_values().collect();
            let number = process.commits;
            self.store.commit(number, &output.changes, &keys).expect("commits follow each other");
        }
        if death == Some(Death::AfterCommit) {
            self.process = None;
            return Vec::new();
        }
        outgoing.into_iter().flat_map(|pending| self.release(pending)).collect()
    }

    fn release(&mut self, pending: Pending) -> Vec<Outgoing> {
        let Some(process) = &mut self.process else { return Vec::new() };
        match pending {
            Pending::Answer(request, answer) => vec![Outgoing::Answer(request, answer)],
            Pending::Open(stream, node, snapshot) => {
                // One that was open ends: its agent sees the end of the body.
                let before = process.streams.insert(node, stream);
                let ended = before.map(|before| Outgoing::Line(before, StreamLine::Closed));
                let lines = snapshot.into_iter().map(|change| self.assignment(change)).collect();
                let opened = Outgoing::Line(stream, StreamLine::Snapshot(lines));
                ended.into_iter().chain([opened]).collect()
            }
            Pending::Effect(Effect::CloseStream { node }) => {
                let closed = process.streams.remove(&node);
                closed
                    .map(|stream| Outgoing::Line(stream, StreamLine::Closed))
                    .into_iter()
                    .collect()
            }
            Pending::Effect(Effect::Assign { node, change }) => {
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

/// What waits for the commit.
enum Pending {
    Answer(Request, Answer),
    Open(Stream, NodeId, Vec<AssignmentChange>),
    Effect(Effect),
}

// === impl Process ===

impl Process {
    fn serve(
        &mut self,
        store: &mut MemoryStore,
        now: Timestamp,
        request: Request,
        output: &mut Output,
        keys: &mut HashMap<String, IdempotencyRow>,
        outgoing: &mut Vec<Pending>,
    ) {
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
                let stored = store.idempotency(&key, Timestamp::ZERO).expect("memory answers");
                if let Some(row) = keys.get(&key).cloned().or(stored) {
                    let job = row.answer.parse().expect("the answer is a job ID");
                    outgoing.push(Pending::Answer(request, Answer::Submitted { job }));
                    return;
                }
                let answer = submit.id.to_string();
                let row = IdempotencyRow {
                    key: key.clone(),
                    body_hash: [0; 32],
                    answer,
                    create_time: now,
                };
                keys.insert(key, row);
                Input::Submit(submit)
            }
        };
        let answer = self.handle(now, input, output, outgoing);
        let answer = match answer {
            input::Answer::Submitted { job, .. } => Answer::Submitted { job },
            input::Answer::Stopped { .. } | input::Answer::Done => Answer::Done,
            input::Answer::Joined { session, .. } => Answer::Joined { session },
            input::Answer::Renewed => Answer::Renewed,
            input::Answer::Acknowledged(acknowledged) => Answer::Acknowledged(acknowledged),
            input::Answer::Refused(_) => Answer::Refused,
            input::Answer::Assignments(snapshot) => {
                if let (
                    Asker::Agent { agent, process },
                    RequestBody::Open { node, connection, .. },
                ) = (request.asker, &request.body)
                {
                    let stream = Stream { agent, process, connection: *connection };
                    outgoing.push(Pending::Open(stream, *node, snapshot));
                }
                Answer::Opened
            }
        };
        outgoing.push(Pending::Answer(request, answer));
    }

    fn handle(
        &mut self,
        now: Timestamp,
        input: Input,
        output: &mut Output,
        outgoing: &mut Vec<Pending>,
    ) -> input::Answer {
        let answer = self.engine.handle(now, input, output);
        invariants::check(&self.engine);
        invariants::check_capacity(&self.engine);
        outgoing.extend(output.effects.drain(..).map(Pending::Effect));
        answer
    }
}
