//! Operators who reject, approve and forget nodes, and machines that come back afterwards.

use std::time::Duration;

use agent_core::Contents;
use api_types::node::NodeAction;

use super::{SimEvent, World};
use crate::network::RequestBody;

/// How long a machine stays off until it is forgotten, in milliseconds: longer than a lease.
const OFF: std::ops::Range<u64> = 12_000..40_000;

/// When it is forgotten, counted from the moment when it is switched off.
const FORGET: std::ops::Range<u64> = 11_000..18_000;

/// How long a node is rejected.
const REJECTED: std::ops::Range<u64> = 500..20_000;

// === impl World: membership ===

impl World {
    pub(super) fn operate_on_a_node(&mut self) {
        let agent = self.any_agent();
        match self.random.chance(300) {
            true => self.reject(agent),
            false => self.forget(agent),
        }
    }

    fn reject(&mut self, agent: usize) {
        self.summary.rejected_nodes += 1;
        let node = self.agents[agent].id;
        let reject = RequestBody::Act { node, action: NodeAction::Reject };
        let approve = RequestBody::Act { node, action: NodeAction::Approve };
        let later = self.random.millis(REJECTED);
        let restart = self.random.chance(200).then(|| self.random.millis(REJECTED));
        self.add_request(reject, Duration::ZERO);
        self.add_request(approve, later);
        if let Some(delay) = restart {
            self.switch_off(agent, delay);
        }
    }

    /// A machine is switched off and forgotten. It joins again under the same ID, perhaps without
    /// its ledger.
    fn forget(&mut self, agent: usize) {
        let off = self.random.millis(OFF);
        self.switch_off(agent, off);
        let machine = &mut self.agents[agent];
        machine.loses_ledger_when_forgotten = self.random.chance(500);
        let (node, now) = (machine.id, self.random.chance(700));
        let delay = self.random.millis(FORGET).min(off);
        self.add_request(RequestBody::Forget { node, now }, delay);
    }

    fn switch_off(&mut self, agent: usize, length: Duration) {
        let machine = &mut self.agents[agent];
        machine.trouble.is_away(self.now + length);
        if machine.process.take().is_some() {
            self.at(length, SimEvent::StartAgent { agent });
        }
    }

    /// The machine starts that was forgotten: its disk may be another.
    pub(super) fn forget_ledger(&mut self, agent: usize) {
        let machine = &mut self.agents[agent];
        let is_forgotten = !self.orchestrator.disk.store.nodes.contains_key(&machine.id);
        if is_forgotten && machine.started > 0 {
            self.summary.forgotten_nodes += 1;
        }
        if is_forgotten && std::mem::take(&mut machine.loses_ledger_when_forgotten) {
            machine.ledger = Contents::default();
        }
    }
}
