//! An agent's process: the pure core, what its ledger holds, and when it sends what.
//!
//! The session's few rules are modelled after `compute_agent::session`: join first and again when
//! the session is refused, renew, keep one stream open, send what is not acknowledged.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use api_types::protocol::{Heartbeat, Report, SessionRequest, Work};
use api_types::quantity::Capacity;
use api_types::{ExecutionId, NodeId, Timestamp};
use compute_agent::core::{Contents, Core, Input, Limits, StoredReport, Turn};
use compute_agent::execution::Effect;

use super::docker::Docker;
use super::network::{Answer, Asker, Request, RequestBody, StreamLine};

/// After this long an answer is not waited for any more.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);

/// Between two heartbeats; a third of the lease.
const HEARTBEAT: Duration = Duration::from_millis(3300);

/// The most reports in one request, small so that batches are cut often.
const REPORTS: usize = 8;

/// A machine with its agent.
pub(super) struct Agent {
    pub(super) id: NodeId,
    pub(super) record: SessionRequest,
    /// On disk.
    pub(super) ledger: Contents,
    pub(super) docker: Docker,
    pub(super) process: Option<Process>,
    /// Counts processes.
    pub(super) started: u64,
    /// Nothing gets through before this moment.
    pub(super) cut_off_until: Timestamp,
    /// It left for good.
    pub(super) gone: bool,
}

pub(super) struct Process {
    pub(super) core: Core,
    pub(super) number: u64,
    pub(super) paused_until: Timestamp,
    /// Containers whose end is waited for.
    pub(super) watched: BTreeSet<ExecutionId>,
    session: Option<u64>,
    next_heartbeat: Timestamp,
    connection: u64,
    stream_open: bool,
    /// When the stream was asked for.
    asked_at: Timestamp,
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
            cut_off_until: Timestamp::ZERO,
            gone: false,
        }
    }

    /// Starts a process on what the ledger holds; says what it takes up again.
    pub(super) fn start(&mut self, now: Timestamp) -> Vec<(ExecutionId, Effect)> {
        let limits = Limits {
            capacity: self.record.compute_node_info.max_capacity.into(),
            retain: Duration::from_secs(60),
        };
        self.started += 1;
        let core = Core::restore(&self.ledger, limits);
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
            asked_at: Timestamp::ZERO,
            outbox,
            waiting: BTreeMap::new(),
            requests: 0,
        });
        let mut turn = Turn::default();
        if let Some(process) = &mut self.process {
            process.core.resume(now, &mut turn);
        }
        self.commit(turn, now)
    }

    /// Hands an input to the core; says what is to be done once the ledger has the outcome.
    pub(super) fn take(&mut self, input: Input, now: Timestamp) -> Vec<(ExecutionId, Effect)> {
        let Some(process) = &mut self.process else { return Vec::new() };
        let mut turn = Turn::default();
        process.core.take(input, &admit, now, &mut turn);
        self.commit(turn, now)
    }

    fn commit(&mut self, mut turn: Turn, now: Timestamp) -> Vec<(ExecutionId, Effect)> {
        let Some(process) = &mut self.process else { return Vec::new() };
        // Never settled: the harder case is that what can wait is lost.
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
                Some(Input::Snapshot(process.asked_at, assignments))
            }
            StreamLine::Change(assignment) => Some(Input::Change(assignment)),
            StreamLine::Closed => {
                process.stream_open = false;
                None
            }
        }
    }

    /// Takes an answer in; reports that were acknowledged are the core's business too.
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

    /// What it sends now.
    pub(super) fn poll(&mut self, agent: usize, now: Timestamp) -> Vec<Request> {
        let Some(process) = &mut self.process else { return Vec::new() };
        let asker = Asker::Agent { agent, process: process.number };
        let mut requests = Vec::new();
        for (kind, body) in process.wishes(self.id, &self.record, now) {
            process.requests += 1;
            let number = process.requests;
            process.waiting.insert(kind, Waiting { number, until: now + REQUEST_TIMEOUT });
            requests.push(Request { asker, number, body });
        }
        requests
    }

    /// Sabotage: what was sent is taken for delivered.
    pub(super) fn forget_reports(&mut self) {
        let Some(process) = &mut self.process else { return };
        if process.waiting.contains_key(&Kind::Reports) {
            process.outbox.clear();
            self.ledger.reports.clear();
        }
    }

    /// For the message of a run that does not come to rest.
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

    pub(super) fn is_quiet(&self) -> bool {
        self.process.as_ref().is_some_and(|p| p.outbox.is_empty())
            && self.docker.containers.is_empty()
    }
}

// === impl Process ===

impl Process {
    fn wishes(
        &mut self,
        node: NodeId,
        record: &SessionRequest,
        now: Timestamp,
    ) -> Vec<(Kind, RequestBody)> {
        // A stream whose opening was never answered is given up with its request.
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
        let mut wishes = Vec::new();
        if self.next_heartbeat <= now && !self.waiting.contains_key(&Kind::Heartbeat) {
            let heartbeat = Heartbeat {
                session,
                used_capacity: Capacity::default(),
                running_executions: 0,
                enqueued_executions: 0,
            };
            wishes.push((Kind::Heartbeat, RequestBody::Heartbeat { node, heartbeat }));
        }
        if !self.stream_open {
            self.stream_open = true;
            self.connection += 1;
            self.asked_at = now;
            let connection = self.connection;
            wishes.push((Kind::Open, RequestBody::Open { node, session, connection }));
        }
        if !self.outbox.is_empty() && !self.waiting.contains_key(&Kind::Reports) {
            let reports: Vec<Report> =
                self.outbox.values().take(REPORTS).map(|stored| stored.report.clone()).collect();
            wishes.push((Kind::Reports, RequestBody::Reports { node, session, reports }));
        }
        wishes
    }

    pub(super) fn connection(&self) -> u64 {
        self.connection
    }

    /// The stream broke; the agent notices.
    pub(super) fn break_stream(&mut self, connection: u64) {
        if connection == self.connection {
            self.stream_open = false;
        }
    }
}

/// Every simulated node declines what names it in the job's name, so that declining is met too.
fn admit(work: &Work) -> Result<(), String> {
    if work.job_name == "declined" && work.index % 2 == 1 {
        return Err("this node does not take it".to_owned());
    }
    Ok(())
}
