//! What goes wrong or changes besides messages and deaths, once a second.

use std::time::Duration;

use api_types::JobId;

use super::{Happening, World};
use crate::sim::network::RequestBody;
use crate::sim::workload::{self, WishState};

// === impl World: mischief ===

impl World {
    pub(super) fn mischief(&mut self) {
        if self.ending {
            return;
        }
        self.at(Duration::from_secs(1), Happening::Mischief);
        if self.random.chance(100) {
            self.stop_some_job();
        }
        if self.random.chance(50) {
            let agent = self.any_agent();
            let node = self.agents[agent].id;
            let action = workload::node_action(&mut self.random);
            self.wish(RequestBody::Act { node, action }, Duration::ZERO);
        }
        if !self.random.chance(self.faults.mischief) {
            return;
        }
        let agent = self.any_agent();
        let length = self.random.millis(100..25_000);
        let until = self.now + length;
        match self.random.within(0..10) {
            0..=2 => self.agents[agent].cut_off_until = until,
            3..=5 => {
                if let Some(process) = &mut self.agents[agent].process {
                    process.paused_until = until;
                }
            }
            6..=8 => {
                if let Some(process) = &mut self.orchestrator.process {
                    process.paused_until = until;
                }
            }
            _ => {
                // One machine at least stays, so that there is somewhere to go.
                let staying = self.agents.iter().filter(|agent| !agent.gone).count();
                if staying > 1 {
                    self.agents[agent].gone = true;
                    self.agents[agent].process = None;
                }
            }
        }
    }

    pub(super) fn stop_some_job(&mut self) {
        let jobs: Vec<JobId> = self
            .wishes
            .iter()
            .filter_map(|wish| match wish.state {
                WishState::Answered { job } => job,
                WishState::Open => None,
            })
            .collect();
        if !jobs.is_empty() {
            let job = self.random.one_of(&jobs);
            self.wish(RequestBody::Stop { job }, Duration::ZERO);
        }
    }

    pub(super) fn any_agent(&mut self) -> usize {
        let count = u64::try_from(self.agents.len()).expect("few agents");
        usize::try_from(self.random.within(0..count)).expect("few agents")
    }
}
