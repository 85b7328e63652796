//! After the faults: a node with a daemon on it is forgotten, and joins again.

use std::time::Duration;

use api_types::node::{Connection, Membership, NodeAction};
use api_types::{ExecutionId, JobId, NodeId};
use scheduler::change::NodeRow;

use super::{LAST_JOINS, SimEvent, World};
use crate::network::RequestBody;
use crate::workload::{self, ExpectedEnd};

/// How long each step may take: the longest is a lease that ends.
const SOON: Duration = Duration::from_mins(1);

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
        let before = self.wait_for("the daemon", |world| {
            world.job_of(request).and_then(|job| world.live_on(job, node))
        })?;

        self.agents[agent].process = None;
        self.wait_for("the node to be silent", |world| {
            let row = world.row_of(node)?;
            (row.connection == Connection::Disconnected).then_some(())
        })?;
        self.add_request(RequestBody::Forget { node, now: true }, Duration::ZERO);
        self.wait_for("the node to be forgotten", |world| {
            world.row_of(node).is_none().then_some(())
        })?;
        self.at(Duration::ZERO, SimEvent::StartAgent { agent });
        self.wait_for("the node to join", |world| {
            let row = world.row_of(node)?;
            (row.membership == Membership::Pending).then_some(())
        })?;
        self.crash_orchestrator_briefly();
        self.add_request(RequestBody::Act { node, action: NodeAction::Approve }, Duration::ZERO);
        let job = self.job_of(request).ok_or("the daemon was not submitted")?;
        let after = self.wait_for("the daemon to come back", |world| world.live_on(job, node))?;
        assert_ne!(before, after);
        self.add_request(RequestBody::Stop { job }, Duration::ZERO);
        Ok(())
    }

    fn row_of(&self, node: NodeId) -> Option<&NodeRow> {
        self.orchestrator.disk.store.nodes.get(&node)
    }

    fn live_on(&self, job: JobId, node: NodeId) -> Option<ExecutionId> {
        let rows = self.orchestrator.disk.store.executions_of(job);
        let live = rows.iter().find(|row| row.node == node && !row.compute.is_terminal());
        live.map(|row| row.id)
    }

    fn wait_for<T>(&mut self, what: &str, is_so: impl Fn(&Self) -> Option<T>) -> Result<T, String> {
        let end = self.now + SOON;
        while self.now < end {
            if let Some(found) = is_so(self) {
                return Ok(found);
            }
            self.run_for(Duration::from_secs(1));
        }
        Err(format!("waited {SOON:?} for {what}"))
    }
}
