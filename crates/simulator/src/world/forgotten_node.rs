//! After the faults: a node with a daemon on it is forgotten, and joins again.

use std::time::Duration;

use api_types::node::{Connection, Membership, NodeAction};

use super::epilogue::SOON;
use super::{LAST_JOINS, SimEvent, World};
use crate::network::RequestBody;
use crate::workload::{self, ExpectedEnd};

impl World {
    /// The daemon runs there again. The orchestrator restarts before the node may take work, when
    /// its store still has the daemon's execution of before.
    pub(super) fn forgotten_node(&mut self) -> Result<(), String> {
        let staying = self.agents.iter().position(|agent| !agent.gone);
        let agent = staying.expect("at least one machine stays");
        let node = self.agents[agent].id;
        // By then, every machine that the faults had stopped is on again.
        self.run_for(LAST_JOINS);
        self.orchestrator.settings.approve_new_nodes = false;
        self.crash_orchestrator_briefly();
        let daemon = workload::daemon(&mut self.random);
        // It is stopped below.
        let request = self.submit(daemon, ExpectedEnd::Ends, Duration::ZERO);
        let before = self.wait_for(SOON, "the daemon", |world| {
            world.job_of(request).and_then(|job| world.live_on(job, node))
        })?;

        self.agents[agent].process = None;
        self.wait_for(SOON, "the node to be silent", |world| {
            let row = world.row_of(node)?;
            (row.connection == Connection::Disconnected).then_some(())
        })?;
        self.add_request(RequestBody::Forget { node, now: true }, Duration::ZERO);
        self.wait_for(SOON, "the node to be forgotten", |world| {
            world.row_of(node).is_none().then_some(())
        })?;
        self.at(Duration::ZERO, SimEvent::StartAgent { agent });
        self.wait_for(SOON, "the node to join", |world| {
            let row = world.row_of(node)?;
            (row.membership == Membership::Pending).then_some(())
        })?;
        self.crash_orchestrator_briefly();
        self.add_request(RequestBody::Act { node, action: NodeAction::Approve }, Duration::ZERO);
        let job = self.job_of(request).ok_or("the daemon was not submitted")?;
        let after =
            self.wait_for(SOON, "the daemon to come back", |world| world.live_on(job, node))?;
        assert_ne!(before, after);
        self.add_request(RequestBody::Stop { job }, Duration::ZERO);
        Ok(())
    }
}
