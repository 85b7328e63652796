//! What follows the faults, once everything is healed: one situation with its own guarantee.

use std::time::Duration;

use api_types::execution::ComputeState;
use api_types::job::JobSpec;
use api_types::{ExecutionId, JobId, NodeId};
use control_plane::store::memory::spec_json;
use scheduler::change::NodeRow;
use scheduler::input::Submit;

use super::{SETTLE_TIMEOUT, World};
use crate::faults::Faults;
use crate::network::RequestBody;
use crate::random::Random;
use crate::workload::{self, ExpectedEnd, RequestState};

/// How long a step may take that waits for nothing longer than a lease.
pub(super) const SOON: Duration = Duration::from_mins(1);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Epilogue {
    None,
    /// Small jobs never stop coming while a large one waits.
    Crowd,
    BrokenNode,
    LostRegistry,
    LongRun,
    MassSilence,
    FullLedger,
    ChangedLease,
    ForgottenNode,
    /// A node on which one thing is broken.
    HalfBrokenNode,
    /// No node can create the container of an array.
    RefusedArray,
    /// Every execution of one namespace fails, and another one has work.
    HostileNamespace,
    /// Two namespaces of different weights wait for room.
    SharedCluster,
}

// === impl Epilogue ===

impl Epilogue {
    pub(super) fn draw(faults: &Faults, random: &mut Random) -> Self {
        // A node that backs off after failures of its Docker may be the only one with room.
        let all_work = faults.docker_failure == 0;
        match random.within(0..1000) {
            0..25 if all_work => Self::Crowd,
            25..50 if all_work => Self::ForgottenNode,
            50..100 if all_work => Self::BrokenNode,
            100..150 if all_work => Self::LostRegistry,
            150..190 => Self::LongRun,
            190..250 => Self::MassSilence,
            250..290 => Self::FullLedger,
            290..320 => Self::ChangedLease,
            320..430 if all_work => Self::HalfBrokenNode,
            430..455 if all_work => Self::RefusedArray,
            455..480 if all_work => Self::HostileNamespace,
            480..520 if all_work => Self::SharedCluster,
            _ => Self::None,
        }
    }
}

// === impl World: epilogues ===

impl World {
    pub(super) fn epilogue(&mut self) -> Result<(), String> {
        match self.epilogue {
            Epilogue::None => self.rerun_some()?,
            Epilogue::Crowd => self.crowd()?,
            Epilogue::BrokenNode => self.broken_node()?,
            Epilogue::LostRegistry => self.lost_registry()?,
            Epilogue::LongRun => self.long_run()?,
            Epilogue::MassSilence => self.mass_silence()?,
            Epilogue::FullLedger => self.full_ledger()?,
            Epilogue::ChangedLease => self.changed_lease()?,
            Epilogue::ForgottenNode => self.forgotten_node()?,
            Epilogue::HalfBrokenNode => self.half_broken_node()?,
            Epilogue::RefusedArray => self.refused_array()?,
            Epilogue::HostileNamespace => self.hostile_namespace()?,
            Epilogue::SharedCluster => self.shared_cluster(),
        }
        self.settle()
    }

    pub(super) fn run_for(&mut self, length: Duration) {
        self.run_until(self.now + length, |_| false);
    }

    /// Submits a job after this delay, and returns the number of its request.
    pub(super) fn submit(
        &mut self,
        spec: JobSpec,
        expected_end: ExpectedEnd,
        delay: Duration,
    ) -> usize {
        let id = JobId::from_uuid(self.uuid());
        let submit = Submit::new(id, spec.clone().into(), spec_json(&spec));
        let number = self.requests.len();
        let body = RequestBody::Submit { key: number.to_string(), submit: Box::new(submit) };
        self.expected_ends.insert(number, expected_end);
        self.add_request(body, delay);
        number
    }

    /// Submits a job that any node can run, for this many seconds, and returns its request.
    pub(super) fn submit_sleep(&mut self, seconds: u64) -> usize {
        let mut spec = workload::plain(&mut self.random, "0.25", 50);
        spec.name = workload::sleep(seconds);
        self.submit(spec, ExpectedEnd::Ends, Duration::ZERO)
    }

    pub(super) fn wait_for_start(&mut self, request: usize) -> Result<ExecutionId, String> {
        let end = self.now + SETTLE_TIMEOUT;
        while self.now < end {
            if let Some(job) = self.job_of(request)
                && let [.., row] = &self.orchestrator.disk.store.executions_of(job)[..]
                && matches!(row.compute, ComputeState::BidAccepted | ComputeState::Completed)
            {
                return Ok(row.id);
            }
            self.run_for(Duration::from_secs(1));
        }
        Err(format!("request {request} never started: {:?}", self.history_of(request)))
    }

    pub(super) fn row_of(&self, node: NodeId) -> Option<&NodeRow> {
        self.orchestrator.disk.store.nodes.get(&node)
    }

    pub(super) fn live_on(&self, job: JobId, node: NodeId) -> Option<ExecutionId> {
        let rows = self.orchestrator.disk.store.executions_of(job);
        let live = rows.iter().find(|row| row.node == node && !row.compute.is_terminal());
        live.map(|row| row.id)
    }

    pub(super) fn wait_for<T>(
        &mut self,
        longest: Duration,
        what: &str,
        is_so: impl Fn(&Self) -> Option<T>,
    ) -> Result<T, String> {
        let end = self.now + longest;
        while self.now < end {
            if let Some(found) = is_so(self) {
                return Ok(found);
            }
            self.run_for(Duration::from_secs(1));
        }
        Err(format!("waited {longest:?} for {what}"))
    }

    /// The agent on whose node the execution is.
    pub(super) fn agent_of(&self, execution: ExecutionId) -> usize {
        let node = self.orchestrator.disk.store.executions[&execution].node;
        let agent = self.agents.iter().position(|agent| agent.id == node);
        agent.expect("every node has an agent")
    }

    pub(super) fn job_of(&self, request: usize) -> Option<JobId> {
        match self.requests[request].state {
            RequestState::Answered { job } => job,
            RequestState::Open => None,
        }
    }

    pub(super) fn history_of(&self, request: usize) -> Vec<String> {
        let job = self.job_of(request);
        let events = self.orchestrator.disk.store.events.iter();
        let events = events.filter(|event| event.job().is_some() && event.job() == job);
        events.map(|event| format!("{} {}", event.time.rfc3339(), event.comment)).collect()
    }

    /// The job of this request is completed by this execution, which has been seen running.
    pub(super) fn has_run_on(&self, request: usize, execution: ExecutionId) -> Result<(), String> {
        match self.orchestrator.disk.store.executions[&execution].compute {
            ComputeState::Completed => Ok(()),
            _ => Err(format!("a run was thrown away: {:?}", self.history_of(request))),
        }
    }
}
