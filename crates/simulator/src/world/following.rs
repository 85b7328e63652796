//! A second process that follows, where the store is shared, and what its leader does for it.

use std::time::Duration;

use control_plane::follow::POLL_EVERY;

use super::{SimEvent, World};

/// How often a process says that it loads.
const BEAT_EVERY: Duration = Duration::from_secs(1);

/// A poll fails this often, in thousandths.
const LOST_POLLS: u64 = 20;

/// A load takes longer than followers wait for a leader this often, in thousandths.
const LONG_LOADS: u64 = 200;

/// The longest load, in milliseconds.
const LONGEST_LOAD: u64 = 12_000;

// === impl World: following ===

impl World {
    /// Every half a second, until the faults end.
    pub(super) fn poll_lead(&mut self) {
        if self.ending {
            return;
        }
        self.at(POLL_EVERY, SimEvent::PollLead);
        let fails = self.random.chance(LOST_POLLS);
        if self.orchestrator.poll(self.now, fails, &mut self.random) {
            self.summary.takeovers += 1;
            if self.random.chance(500) {
                // Those that wait for an answer of the process before have given up.
                self.orchestrator.deposed.iter_mut().for_each(|deposed| deposed.inbox.clear());
            }
            self.load();
            self.break_streams();
        }
    }

    /// The load of a process that has taken the store.
    pub(super) fn load(&mut self) {
        let is_long = self.orchestrator.is_shared() && self.random.chance(LONG_LOADS);
        let most = match self.random.chance(500) {
            _ if is_long => LONGEST_LOAD,
            true => 3_000,
            false => 100,
        };
        let delay = self.random.millis(0..most);
        self.at(delay, SimEvent::FinishStart);
        if self.orchestrator.is_shared() {
            self.at(BEAT_EVERY, SimEvent::Beat);
        }
    }

    /// Every second while a process loads.
    pub(super) fn beat(&mut self) {
        if self.orchestrator.beat() {
            self.at(BEAT_EVERY, SimEvent::Beat);
        }
    }
}
