//! A simulated agent: a machine, and a process with the agent's pure core, its ledger and session.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use agent_core::execution::{Effect, Phase};
use agent_core::node_state::{Input, Limits, Transaction};
use agent_core::session::Outbox;
use agent_core::{BootId, Contents, NodeState, Now};
use api_types::protocol::{AgentProcess, SessionRequest, Work};
use api_types::{ExecutionId, NodeId, Timestamp};

use super::docker::{Answers, Docker};
use super::network::{Request, Sender};
use super::session::{Session, Speaker};
use super::trouble::Trouble;
use crate::random::Random;
use crate::workload::DECLINED;

/// A machine with its agent.
pub(super) struct Agent {
    pub(super) id: NodeId,
    pub(super) record: SessionRequest,
    /// The ledger on disk.
    pub(super) ledger: Contents,
    pub(super) docker: Docker,
    pub(super) answers: Answers,
    pub(super) process: Option<Process>,
    /// Number of processes started so far.
    pub(super) started: u64,
    pub(super) trouble: Trouble,
    /// Its disk is replaced before it starts again, if it was forgotten in the meantime.
    pub(super) loses_ledger_when_forgotten: bool,
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
    pub(super) session: Session,
    /// The ledger cannot be written before this moment.
    pub(super) ledger_full_until: Timestamp,
    /// Inputs that wait for room in the ledger.
    pub(super) waiting: VecDeque<Input>,
    /// Since when they wait.
    pub(super) waits_since: Option<Timestamp>,
    /// Time of its next poll; polls scheduled for other times are void.
    pub(super) next_poll: Option<Timestamp>,
}

// === impl Agent ===

impl Agent {
    pub(super) fn new(id: NodeId, record: SessionRequest) -> Self {
        Self {
            id,
            record,
            ledger: Contents::default(),
            docker: Docker::default(),
            answers: Answers::default(),
            process: None,
            started: 0,
            trouble: Trouble::default(),
            loses_ledger_when_forgotten: false,
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
            retain_bytes: u64::MAX,
        };
        self.started += 1;
        self.record.process = Some(AgentProcess {
            machine: self.id.to_string(),
            boot: self.boots.to_string(),
            started: self.started,
        });
        let core = NodeState::restore(&self.ledger, limits);
        let mut outbox = Outbox::default();
        outbox.push(self.ledger.reports.clone());
        self.process = Some(Process {
            core,
            number: self.started,
            paused_until: Timestamp::ZERO,
            watched: BTreeSet::new(),
            session: Session::new(now, outbox),
            ledger_full_until: Timestamp::ZERO,
            waiting: VecDeque::new(),
            waits_since: None,
            next_poll: None,
        });
        let (mut transaction, resumed_at) = (Transaction::default(), self.now(now));
        if let Some(process) = &mut self.process {
            process.core.resume(resumed_at, &mut transaction);
        }
        self.commit(transaction, now)
    }

    /// Handles an input and commits it to the ledger; returns the effects to execute.
    pub(super) fn take(&mut self, input: Input, now: Timestamp) -> Vec<(ExecutionId, Effect)> {
        let taken_at = self.now(now);
        let Some(process) = &mut self.process else { return Vec::new() };
        let mut transaction = Transaction::default();
        process.core.take(input, &admit, taken_at, &mut transaction);
        self.commit(transaction, now)
    }

    fn commit(
        &mut self,
        mut transaction: Transaction,
        now: Timestamp,
    ) -> Vec<(ExecutionId, Effect)> {
        let Some(process) = &mut self.process else { return Vec::new() };
        // Deferred records are never flushed: losing them in a crash is the harder case.
        process.core.close(now, false, &mut transaction);
        self.ledger.apply(&transaction.batch);
        process.session.outbox.push(transaction.batch.reports);
        transaction.effects
    }

    /// The requests to send now.
    pub(super) fn poll(
        &mut self,
        agent: usize,
        now: Timestamp,
        random: &mut Random,
    ) -> Vec<Request> {
        let Some(process) = &mut self.process else { return Vec::new() };
        let sender = Sender::Agent { agent, process: process.number };
        let stalled = process.waits_since.map_or(Duration::ZERO, |since| now.since(since));
        let (answers, finds) = (self.answers, self.docker.probe());
        let node = Speaker { id: self.id, record: &self.record, stalled, answers, finds };
        let requests = process.session.poll(node, now, random).into_iter();
        requests.map(|(number, body)| Request { sender, number, body }).collect()
    }

    /// Sabotage: treats sent reports as acknowledged.
    pub(super) fn drop_reports(&mut self) {
        let Some(process) = &mut self.process else { return };
        if process.session.forget_reports() {
            self.ledger.reports.clear();
        }
    }

    /// Whether it is being started, and no longer wanted.
    pub(super) fn is_overtaken(&self, id: ExecutionId) -> bool {
        let execution = self.process.as_ref().and_then(|process| process.core.execution(id));
        execution.is_some_and(|execution| matches!(execution.phase, Phase::Overtaken { .. }))
    }

    pub(super) fn work(&self, id: ExecutionId) -> Option<&Work> {
        let execution = self.process.as_ref()?.core.execution(id)?;
        Some(&execution.work)
    }

    /// Description for the message of a run that does not settle.
    pub(super) fn describe(&self) -> String {
        let process = self.process.as_ref().map(|process| {
            let Process { number, session, paused_until, .. } = process;
            format!("process {number}: {}, paused until {paused_until:?}", session.describe())
        });
        let capacity = self.record.compute_node_info.max_capacity.cpu;
        format!("of {capacity} CPU, gone: {}, {process:?}", self.gone)
    }

    pub(super) fn is_idle(&self) -> bool {
        self.process.as_ref().is_some_and(|p| p.session.outbox.is_empty())
            && self.docker.containers.is_empty()
    }
}

/// Declines half of the executions of jobs named `declined`, so that runs include rejections.
fn admit(work: &Work) -> Result<(), String> {
    if work.job_name == DECLINED && work.index % 2 == 1 {
        return Err("this node declines it".to_owned());
    }
    Ok(())
}
