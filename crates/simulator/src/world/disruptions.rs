//! Disruptions other than message faults and crashes, once per second.

use std::time::Duration;

use agent_core::session::SessionEnd;
use api_types::node::NodeAction;
use api_types::{JobId, Timestamp};

use super::{SimEvent, World};
use crate::network::RequestBody;
use crate::workload::{self, ExpectedEnd, RequestState};

/// The wall clock is set this many times less often in each second of uptime than in each restart.
const STEPS_WHILE_RUNNING: u64 = 4;

/// How many pauses are those of a virtual machine whose clocks stand still, in thousandths.
const STILL_CLOCKS: u64 = 500;

/// Daemons that are submitted around the time in which a Docker Engine is broken.
const DAEMONS: usize = 2;

// === impl World: disruptions ===

impl World {
    pub(super) fn disrupt(&mut self) {
        if self.ending {
            return;
        }
        self.at(Duration::from_secs(1), SimEvent::Disruption);
        self.orchestrator.second_of_the_database();
        if self.random.chance(100) {
            self.stop_some_job();
        }
        if self.random.chance(50) {
            let agent = self.any_agent();
            let node = self.agents[agent].id;
            let action = workload::node_action(&mut self.random);
            self.add_request(RequestBody::Act { node, action }, Duration::ZERO);
        }
        if self.random.chance(self.faults.operators) {
            self.operate_on_a_node();
        }
        if self.random.chance(self.faults.approvals) {
            let agent = self.any_agent();
            let node = self.agents[agent].id;
            let approve = RequestBody::Act { node, action: NodeAction::Approve };
            self.add_request(approve, Duration::ZERO);
        }
        if self.random.chance(self.faults.clock_steps / STEPS_WHILE_RUNNING) {
            self.step_wall_clock();
        }
        if self.random.chance(self.faults.disruption) {
            self.disrupt_somebody();
        }
    }

    fn disrupt_somebody(&mut self) {
        let agent = self.any_agent();
        let length = self.random.millis(100..25_000);
        let until = self.now + length;
        match self.random.within(0..16) {
            0..=2 => self.disconnect(agent, until),
            3..=5 => {
                if let Some(process) = &mut self.agents[agent].process {
                    process.paused_until = until;
                    self.agents[agent].trouble.is_away(until);
                }
            }
            6..=8 => {
                self.pause_orchestrators(until);
            }
            9..=10 => {
                for process in self.orchestrator.processes() {
                    process.cut_off_until = until;
                }
            }
            11 => {
                if let Some(process) = &mut self.agents[agent].process {
                    process.ledger_full_until = until.max(process.ledger_full_until);
                    self.agents[agent].trouble.is_away(until);
                }
            }
            12 => {
                if let Some(process) = &mut self.agents[agent].process
                    && process.paused_until <= self.now
                {
                    let end = SessionEnd::RecordChanged;
                    process.session.end(end, self.now, &mut self.random);
                    self.poll_now(agent);
                }
            }
            13 if self.faults.docker_failure > 0 => self.break_docker(agent, length),
            13..=14 => {
                self.summary.full_disks += 1;
                self.orchestrator.disk.full_until = until;
            }
            _ => {
                // At least one machine stays.
                let staying = self.agents.iter().filter(|agent| !agent.gone).count();
                if staying > 1 {
                    self.agents[agent].gone = true;
                    self.agents[agent].process = None;
                    self.agents[agent].trouble.leaves(self.now);
                }
            }
        }
    }

    /// A pause within a pause makes it longer, and all of it is noticed, unless no clock counts it.
    fn pause_orchestrators(&mut self, until: Timestamp) {
        let stands_still = self.orchestrator.is_shared() && self.random.chance(STILL_CLOCKS);
        if let Some(process) = self.orchestrator.process.as_ref().filter(|_| stands_still) {
            let begin = process.paused_until.max(self.now);
            self.orchestrator.machine.stand_still(until.since(begin));
        }
        let leader = self.orchestrator.process.as_ref().map(|process| process.number);
        for process in self.orchestrator.processes() {
            let begin = process.paused_until.max(self.now);
            if !stands_still || Some(process.number) != leader {
                process.gap += until.since(begin);
            }
            process.paused_until = until.max(begin);
        }
    }

    /// The network of the agent is away.
    pub(super) fn disconnect(&mut self, agent: usize, until: Timestamp) {
        self.agents[agent].disconnected_until = until;
        self.agents[agent].trouble.is_away(until);
    }

    fn break_docker(&mut self, agent: usize, length: Duration) {
        self.agents[agent].docker.is_broken = true;
        self.at(length, SimEvent::MendDocker { agent });
        // Some while the node backs off or is probed, which is no reason to be left out.
        for _ in 0..DAEMONS {
            let spec = workload::daemon(&mut self.random);
            let delay = self.random.millis(5_000..30_000);
            self.submit(spec, ExpectedEnd::RunsUntilStopped, delay);
        }
    }

    /// The wall clock of the orchestrator's machine is set, but not between a restart of the
    /// machine and the first commit after it: that outage is measured by the wall clock.
    pub(super) fn step_wall_clock(&mut self) {
        if !self.orchestrator.has_committed_since_boot(self.now) {
            return;
        }
        self.summary.clock_steps += 1;
        self.orchestrator.machine.set_wall_clock(&mut self.random);
    }

    pub(super) fn stop_some_job(&mut self) {
        let jobs: Vec<JobId> = self
            .requests
            .iter()
            .filter_map(|request| match request.state {
                RequestState::Answered { job } => job,
                RequestState::Open => None,
            })
            .collect();
        if !jobs.is_empty() {
            let job = self.random.one_of(&jobs);
            self.add_request(RequestBody::Stop { job }, Duration::ZERO);
        }
    }

    pub(super) fn any_agent(&mut self) -> usize {
        let count = u64::try_from(self.agents.len()).expect("few agents");
        usize::try_from(self.random.within(0..count)).expect("few agents")
    }
}
