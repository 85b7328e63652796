//! What is counted every second: the slots of daemons, idle units, and room in a quota.

use std::time::Duration;

use super::{EPOCH, FAULT_PERIOD, STOP_AFTER, SimEvent, World};

// === impl World: counting ===

impl World {
    /// Once per second, until every daemon is asked to stop: the slots of daemons, and idle units.
    pub(super) fn count_daemons(&mut self) {
        self.keep_units();
        self.keep_quota();
        let process = self.orchestrator.process.as_ref();
        let is_full = self.orchestrator.disk.full_until > self.now;
        match process.is_some_and(|process| process.is_steady(self.now)) && !is_full {
            true => {
                self.coverage.count(&self.orchestrator.disk);
                self.idle_units.count(&self.orchestrator.disk);
                self.idle_quota.count(&self.orchestrator.disk);
            }
            false => {
                self.coverage.begin_anew();
                self.idle_units.begin_anew();
                self.idle_quota.begin_anew();
            }
        }
        if self.now < EPOCH + FAULT_PERIOD + STOP_AFTER {
            self.at(Duration::from_secs(1), SimEvent::Count);
        }
    }
}
