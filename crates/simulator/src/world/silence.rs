//! After the faults: nodes fall silent, or seem to, for less time than their work deserves to be
//! waited for.

use std::collections::BTreeSet;
use std::time::Duration;

use api_types::node::Connection;
use api_types::{ExecutionId, NodeId, Timestamp};

use super::{SimEvent, World};
use crate::orchestrator::LEASE;

/// A run after which the orchestrator waits longer than a lease for its node, in seconds: 2 % of it.
const LONG_RUN: std::ops::Range<u64> = 1_000..1_400;

/// The part of a run for which its node may be silent.
const PATIENCE_PER_RUN: u32 = 50;

/// What a silence takes longer than the network is away: the interval before its last heartbeat, and
/// after it a heartbeat that fails, one that is refused, and the messages of joining.
const AROUND: Duration = Duration::from_secs(8);

/// The length of runs that a mass silence interrupts, in seconds: their own patience is the lease.
const SHORT_RUN: std::ops::Range<u64> = 200..300;

/// How long a mass silence takes, in milliseconds: the orchestrator waits for two minutes, from the
/// end of the first lease on.
const MASS_SILENCE: std::ops::Range<u64> = 15_000..100_000;

/// The fewest nodes that can be a mass.
const MASS_NODES: usize = 3;

/// Nodes that have been silent for this long are no part of a mass silence any more.
const FORGOTTEN_SILENCE: Duration = Duration::from_secs(75);

/// A lease with an interval of twice the usual lease.
const LONG_LEASE: Duration = Duration::from_mins(1);

/// How long the answers to heartbeats are lost around a restart with a shorter lease, in
/// milliseconds.
const UNANSWERED: std::ops::Range<u64> = 1_000..60_000;

/// How long a node is silent around such a restart, in milliseconds: less than the lease that it was
/// told, with what an agent then takes to be heard.
const SILENT: std::ops::Range<u64> = 5_000..40_000;

impl World {
    /// A node is silent in the middle of a long run, for less than 2 % of it. The orchestrator may
    /// crash during it.
    pub(super) fn long_run(&mut self) -> Result<(), String> {
        self.summary.long_runs += 1;
        let length = self.random.within(LONG_RUN);
        let request = self.submit_sleep(length + 100);
        let execution = self.wait_for_start(request)?;
        self.run_for(Duration::from_secs(length));
        let patience = Duration::from_secs(length) / PATIENCE_PER_RUN;
        let agent = self.agent_of(execution);
        self.disconnect(agent, self.now + patience - AROUND);
        if self.random.chance(500) {
            self.crash_orchestrator_briefly();
        }
        self.settle()?;
        self.has_run_on(request, execution)
    }

    /// Most nodes fall silent together, and come back before the orchestrator has given up waiting.
    /// It may crash during it, or load its state anew because its disk was full.
    pub(super) fn mass_silence(&mut self) -> Result<(), String> {
        let mut staying: Vec<_> =
            (0..self.agents.len()).filter(|agent| !self.agents[*agent].gone).collect();
        if staying.len() < MASS_NODES {
            return Ok(());
        }
        self.summary.mass_silences += 1;
        self.run_for(FORGOTTEN_SILENCE);
        let mut requests = Vec::new();
        for _ in 0..2 * staying.len() {
            let length = self.random.within(SHORT_RUN);
            requests.push(self.submit_sleep(length));
        }
        let mut runs = Vec::new();
        for request in requests {
            runs.push((request, self.wait_for_start(request)?));
        }
        let least = MASS_NODES.max(staying.len() / 2 + 1);
        while staying.len() > least && self.random.chance(500) {
            staying.pop();
        }
        let until = self.now + self.random.millis(MASS_SILENCE);
        for agent in staying {
            self.disconnect(agent, until);
        }
        self.interrupt_orchestrator(until);
        self.settle()?;
        runs.into_iter().try_for_each(|(request, execution)| self.has_run_on(request, execution))
    }

    /// The operator sets a shorter lease. Each agent keeps to the interval of the longer one until it
    /// is told, also if answers to heartbeats are lost for a while, and none is silent for longer than
    /// the longer lease.
    pub(super) fn changed_lease(&mut self) -> Result<(), String> {
        self.summary.changed_leases += 1;
        self.orchestrator.settings.lease = LONG_LEASE;
        self.crash_orchestrator_briefly();
        self.run_for(LONG_LEASE);
        let request = self.submit_sleep(LONG_LEASE.as_secs());
        let execution = self.wait_for_start(request)?;
        let part = self.random.millis(0..20_000);
        self.run_for(part);
        let present = self.present();
        self.lose_heartbeat_answers();
        self.silence_around_restart(execution);
        self.orchestrator.settings.lease = LEASE;
        let end = self.now + LONG_LEASE;
        self.crash_orchestrator_briefly();
        while self.now < end {
            self.run_for(Duration::from_secs(1));
            if let Some(lost) = present.difference(&self.present()).next() {
                return Err(format!("{lost} lost its lease, though it was never silent"));
            }
        }
        self.settle()?;
        self.has_run_on(request, execution)
    }

    /// The answers to heartbeats may be lost for a while, and nothing else.
    fn lose_heartbeat_answers(&mut self) {
        if self.random.chance(500) {
            self.heartbeats_unanswered_until = self.now + self.random.millis(UNANSWERED);
        }
    }

    /// The node of the execution may be silent when the orchestrator restarts. It could be heard for
    /// as long as it was told, and is heard before.
    fn silence_around_restart(&mut self, execution: ExecutionId) {
        if self.random.chance(500) {
            let agent = self.agent_of(execution);
            let until = self.now + self.random.millis(SILENT);
            self.disconnect(agent, until);
            let before = self.random.millis(0..5_000);
            self.run_for(before);
        }
    }

    /// The orchestrator may crash, or load its state anew, at some moment before this one.
    fn interrupt_orchestrator(&mut self, until: Timestamp) {
        let length = u64::try_from(until.since(self.now).as_millis()).expect("some minutes");
        match self.random.within(0..3) {
            0 => {}
            1 => {
                let wait = self.random.millis(0..length);
                self.run_for(wait);
                self.crash_orchestrator_briefly();
            }
            _ => {
                let wait = self.random.millis(0..length);
                self.run_for(wait);
                self.orchestrator.disk.full_until = self.now + self.random.millis(0..5_000);
            }
        }
    }

    /// The nodes that hold a lease.
    fn present(&self) -> BTreeSet<NodeId> {
        let rows = self.orchestrator.disk.store.nodes.values();
        rows.filter(|row| row.connection == Connection::Connected).map(|row| row.id).collect()
    }

    /// The orchestrator is back before a lease has ended.
    pub(super) fn crash_orchestrator_briefly(&mut self) {
        self.summary.orchestrator_crashes += 1;
        self.orchestrator.process = None;
        let delay = self.random.millis(10..1_000);
        self.at(delay, SimEvent::StartOrchestrator);
        self.break_streams();
    }
}
