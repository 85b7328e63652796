//! Whether the world has settled: no work is in progress.

use super::World;
use crate::schedule;
use crate::workload::RequestState;

// === impl World: settling ===

impl World {
    /// Whether no work is in progress.
    pub(super) fn has_settled(&self) -> bool {
        self.requests.iter().all(|request| request.state != RequestState::Open)
            && self.orchestrator.disk.store.jobs.values().all(|job| !job.live)
            && self.agents.iter().all(|agent| agent.gone || agent.is_idle())
            && self.schedule_has_caught_up()
    }

    fn schedule_has_caught_up(&self) -> bool {
        let wall = self.orchestrator.machine.reading(self.now).wall;
        schedule::has_caught_up(&self.orchestrator.disk.store, wall)
    }

    pub(super) fn why_not_settled(&self) -> String {
        let mut reasons = Vec::new();
        if !self.schedule_has_caught_up() {
            reasons.push("a schedule has due times that are not decided".to_owned());
        }
        for (number, request) in self.requests.iter().enumerate() {
            if request.state == RequestState::Open {
                reasons.push(format!("request {number} got no response: {:?}", request.body));
            }
        }
        for job in self.orchestrator.disk.store.jobs.values().filter(|job| job.live) {
            reasons.push(format!("job {} is still {}: {}", job.id, job.state, job.message));
            reasons.push(format!("  {}", self.orchestrator.disk.store.new_jobs[&job.id].spec_json));
            for row in self.orchestrator.disk.store.executions_of(job.id) {
                if !row.compute.is_terminal() {
                    reasons.push(format!(
                        "  {} on {} is {:?}, desired {:?}",
                        row.id, row.node, row.compute, row.desired
                    ));
                }
            }
        }
        for agent in &self.agents {
            reasons.push(format!("agent {} {}", agent.id, agent.describe()));
        }
        for agent in self.agents.iter().filter(|agent| !agent.gone && !agent.is_idle()) {
            let containers: Vec<_> = agent.docker.containers.iter().collect();
            reasons.push(format!("node {} still has {containers:?}", agent.id));
            reasons.push(format!("  and has not sent {:?}", agent.ledger.reports));
        }
        format!("the world does not settle: {}", reasons.join("\n"))
    }
}
