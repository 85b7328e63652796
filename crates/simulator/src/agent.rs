//! A simulated agent: the pure core, its ledger, and a model of its session.
//!
//! The session follows the rules of `compute_agent::session`: join first and again when the session
//! is refused, renew the lease, keep one stream open, send reports until they are acknowledged.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use agent_core::execution::Effect;
use agent_core::node_state::{Input, Limits, Turn};
use agent_core::{BootId, Contents, NodeState, Now, StoredReport};
use api_types::protocol::{Heartbeat, Report, SessionRequest, Work};
use api_types::quantity::Capacity;
use api_types::{ExecutionId, NodeId, Timestamp};

use super::docker::Docker;
use super::network::{Answer, Request, RequestBody, Sender, StreamLine};

/// Time limit of a request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);

/// Interval between heartbeats; a third of the lease.
const HEARTBEAT: Duration = Duration::from_millis(3300);

/// Most reports per request; small, so that batches are split often.
const REPORTS: usize = 8;

/// A machine with its agent.
pub(super) struct Agent {
    pub(super) id: NodeId,
    pub(super) record: SessionRequest,
    /// The ledger on disk.
    pub(super) ledger: Contents,
    pub(super) docker: Docker,
    pub(super) process: Option<Process>,
    /// Number of processes started so far.
    pub(super) started: u64,
    /// End of a network outage.
    pub(super) disconnected_until: Timestamp,
    /// Counts the boots of its machine.
    boots: u128,
    /// The machine has left permanently.
    pub(super) gone: bool,
}

pub(super) struct Process {
    pub(super) core: NodeState,
    pub(super) number: u64,
    pub(super) paused_until: Timestamp,
    /// Containers whose end the process awaits.
    pub(super) watched: BTreeSet<ExecutionId>,
    session: Option<u64>,
    next_heartbeat: Timestamp,
    connection: u64,
    stream_open: bool,
    /// When the stream was requested.
    opened_at: Timestamp,
    outbox: BTreeMap<u64, StoredReport>,
    waiting: BTreeMap<Kind, Waiting>,
    requests: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Join,
    Heartbeat,
    Open,
    Reports,
}

#[derive(Debug, Clone, Copy)]
struct Waiting {
    number: u64,
    until: Timestamp,
}

// === impl Agent ===

impl Agent {
    pub(super) fn new(id: NodeId, record: SessionRequest) -> Self {
        Self {
            id,
            record,
            ledger: Contents::default(),
            docker: Docker::default(),
            process: None,
            started: 0,
            disconnected_until: Timestamp::ZERO,
            boots: 1,
            gone: false,
        }
    }

    /// The machine restarts: no process outlives it, and the ledger does.
    pub(super) fn reboot(&mut self) {
        self.boots += 1;
        self.process = None;
        self.docker.reboot();
    }

    /// Sabotage: the agent takes every boot for the same.
    pub(super) fn forget_boot(&mut self) {
        self.boots = 1;
    }

    fn now(&self, time: Timestamp) -> Now {
        Now { time, boot_id: BootId::from_number(self.boots) }
    }

    /// Starts a process from the ledger; returns the effects that it resumes.
    pub(super) fn start(&mut self, now: Timestamp) -> Vec<(ExecutionId, Effect)> {
        let limits = Limits {
            capacity: self.record.compute_node_info.max_capacity.into(),
            retain: Duration::from_secs(60),
        };
        self.started += 1;
        let core = NodeState::restore(&self.ledger, limits);
        let outbox = self.ledger.reports.iter().map(|r| (r.position, r.clone())).collect();
        self.process = Some(Process {
            core,
            number: self.started,
            paused_until: Timestamp::ZERO,
            watched: BTreeSet::new(),
            session: None,
            next_heartbeat: now,
            connection: 0,
            stream_open: false,
            opened_at: Timestamp::ZERO,
            outbox,
            waiting: BTreeMap::new(),
            requests: 0,
        });
        let (mut turn, resumed_at) = (Turn::default(), self.now(now));
        if let Some(process) = &mut self.process {
            process.core.resume(resumed_at, &mut turn);
        }
        self.commit(turn, now)
    }

    /// Handles an input and commits it to the ledger; returns the effects to execute.
    pub(super) fn take(&mut self, input: Input, now: Timestamp) -> Vec<(ExecutionId, Effect)> {
        let taken_at = self.now(now);
        let Some(process) = &mut self.process else { return Vec::new() };
        let mut turn = Turn::default();
        process.core.take(input, &admit, taken_at, &mut turn);
        self.commit(turn, now)
    }

    fn commit(&mut self, mut turn: Turn, now: Timestamp) -> Vec<(ExecutionId, Effect)> {
        let Some(process) = &mut self.process else { return Vec::new() };
        // Deferred records are never flushed: losing them in a crash is the harder case.
        process.core.close(now, false, &mut turn);
        self.ledger.apply(&turn.batch);
        process.outbox.extend(turn.batch.reports.iter().map(|r| (r.position, r.clone())));
        turn.effects
    }

    pub(super) fn line(&mut self, connection: u64, line: StreamLine) -> Option<Input> {
        let process = self.process.as_mut()?;
        if connection != process.connection {
            return None;
        }
        match line {
            StreamLine::Snapshot(assignments) => {
                Some(Input::Snapshot(process.opened_at, assignments))
            }
            StreamLine::Change(assignment) => Some(Input::Change(assignment)),
            StreamLine::Closed => {
                process.stream_open = false;
                None
            }
        }
    }

    /// Handles a response; returns an input for the core when reports are acknowledged.
    pub(super) fn answered(
        &mut self,
        number: u64,
        answer: Answer,
        now: Timestamp,
    ) -> Option<Input> {
        let process = self.process.as_mut()?;
        let kind =
            process.waiting.iter().find(|(_, w)| w.number == number).map(|(kind, _)| *kind)?;
        process.waiting.remove(&kind);
        match answer {
            Answer::Joined { session } => {
                process.session = Some(session);
                process.next_heartbeat = now + HEARTBEAT;
                process.stream_open = false;
                None
            }
            Answer::Opened => None,
            Answer::Renewed => {
                process.next_heartbeat = now + HEARTBEAT;
                None
            }
            Answer::Acknowledged(acknowledged) => {
                let known: BTreeSet<_> =
                    acknowledged.iter().map(|ack| (ack.execution_id, ack.sequence)).collect();
                process.outbox.retain(|_, stored| {
                    !known.contains(&(stored.report.execution_id, stored.report.sequence))
                });
                Some(Input::Acknowledged(acknowledged))
            }
            Answer::Refused => {
                process.session = None;
                process.stream_open = false;
                None
            }
            Answer::Lost => {
                if kind == Kind::Open {
                    process.stream_open = false;
                }
                None
            }
            Answer::Submitted { .. } | Answer::Done => None,
        }
    }

    /// The requests to send now.
    pub(super) fn poll(&mut self, agent: usize, now: Timestamp) -> Vec<Request> {
        let Some(process) = &mut self.process else { return Vec::new() };
        let sender = Sender::Agent { agent, process: process.number };
        let mut requests = Vec::new();
        for (kind, body) in process.due_requests(self.id, &self.record, now) {
            process.requests += 1;
            let number = process.requests;
            process.waiting.insert(kind, Waiting { number, until: now + REQUEST_TIMEOUT });
            requests.push(Request { sender, number, body });
        }
        requests
    }

    /// Sabotage: treats sent reports as acknowledged.
    pub(super) fn drop_reports(&mut self) {
        let Some(process) = &mut self.process else { return };
        if process.waiting.contains_key(&Kind::Reports) {
            process.outbox.clear();
            self.ledger.reports.clear();
        }
    }

    pub(super) fn names_a_secret(&self, id: ExecutionId) -> bool {
        let execution = self.process.as_ref().and_then(|process| process.core.execution(id));
        execution.is_some_and(|execution| !execution.work.task.secrets.is_empty())
    }

    /// Description for the message of a run that does not settle.
    pub(super) fn describe(&self) -> String {
        let process = self.process.as_ref().map(|process| {
            format!(
                "process {} in session {:?}, stream {} open: {}, paused until {:?}",
                process.number,
                process.session,
                process.connection,
                process.stream_open,
                process.paused_until
            )
        });
        let capacity = self.record.compute_node_info.max_capacity.cpu;
        format!("of {capacity} CPU, gone: {}, {process:?}", self.gone)
    }

    pub(super) fn is_idle(&self) -> bool {
        self.process.as_ref().is_some_and(|p| p.outbox.is_empty())
            && self.docker.containers.is_empty()
    }
}

// === impl Process ===

impl Process {
    fn due_requests(
        &mut self,
        node: NodeId,
        record: &SessionRequest,
        now: Timestamp,
    ) -> Vec<(Kind, RequestBody)> {
        // A stream is abandoned when the request to open it times out.
        let lapsed: Vec<_> =
            self.waiting.iter().filter(|(_, w)| w.until <= now).map(|(kind, _)| *kind).collect();
        for kind in lapsed {
            self.waiting.remove(&kind);
            if kind == Kind::Open {
                self.stream_open = false;
            }
        }
        let Some(session) = self.session else {
            if self.waiting.contains_key(&Kind::Join) {
                return Vec::new();
            }
            return vec![(
                Kind::Join,
                RequestBody::Join { node, record: Box::new(record.clone()) },
            )];
        };
        let mut requests = Vec::new();
        if self.next_heartbeat <= now && !self.waiting.contains_key(&Kind::Heartbeat) {
            let heartbeat = Heartbeat {
                session,
                used_capacity: Capacity::default(),
                running_executions: 0,
                enqueued_executions: 0,
                stalled_millis: 0,
            };
            requests.push((Kind::Heartbeat, RequestBody::Heartbeat { node, heartbeat }));
        }
        if !self.stream_open {
            self.stream_open = true;
            self.connection += 1;
            self.opened_at = now;
            let connection = self.connection;
            requests.push((Kind::Open, RequestBody::Open { node, session, connection }));
        }
        if !self.outbox.is_empty() && !self.waiting.contains_key(&Kind::Reports) {
            let reports: Vec<Report> =
                self.outbox.values().take(REPORTS).map(|stored| stored.report.clone()).collect();
            requests.push((Kind::Reports, RequestBody::Reports { node, session, reports }));
        }
        requests
    }

    pub(super) fn connection(&self) -> u64 {
        self.connection
    }

    /// Handles the end of a stream.
    pub(super) fn break_stream(&mut self, connection: u64) {
        if connection == self.connection {
            self.stream_open = false;
        }
    }
}

/// Declines half of the executions of jobs named `declined`, so that runs include rejections.
fn admit(work: &Work) -> Result<(), String> {
    if work.job_name == "declined" && work.index % 2 == 1 {
        return Err("this node declines it".to_owned());
    }
    Ok(())
}
