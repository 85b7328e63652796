//! A process on another machine that waits for the lead, by the rule that the daemon follows.

use api_types::Timestamp;
use control_plane::clock::{Reading, ServiceClock};
use control_plane::follow::{FREE_AFTER, Follower, Next};

use super::disk::FORMAT;
use super::{Orchestrator, Starting};
use crate::machine::Machine;
use crate::random::Random;
use crate::summary::Sabotage;

pub(super) struct Standby {
    /// The machine on which the next process follows, or a deposed one still runs.
    pub(super) machine: Machine,
    follower: Follower,
}

// === impl Standby ===

impl Standby {
    pub(super) fn new(machine: Machine) -> Self {
        Self { machine, follower: Follower::new(FORMAT) }
    }
}

// === impl Orchestrator: following ===

impl Orchestrator {
    /// A poll, which may fail; returns whether the follower takes over.
    pub(crate) fn poll(&mut self, now: Timestamp, fails: bool, random: &mut Random) -> bool {
        if self.deposed.is_some() {
            // The next process follows once that one has ended.
            self.standby.follower = Follower::new(FORMAT);
            return false;
        }
        let reading = self.standby.machine.reading(now);
        if fails {
            self.standby.follower.failed(&reading);
            return false;
        }
        let seen = self.disk.sighting();
        let next = self.standby.follower.saw(&seen, &reading);
        let is_free = match (self.sabotage, seen.stamp) {
            (Some(Sabotage::CompareWallClocks), Some(stamp)) => {
                reading.wall.since(stamp.reading.wall) >= FREE_AFTER
            }
            _ => next == Next::TakeOver,
        };
        is_free && self.take_over(now, &reading, random)
    }

    fn take_over(&mut self, now: Timestamp, reading: &Reading, random: &mut Random) -> bool {
        let seen = self.disk.sighting();
        if !self.standby.follower.saw_arrival(&seen) {
            // It would go by the wall clocks, which are days wrong here.
            return false;
        }
        if self.processes().any(|process| process.holds_the_row(now)) {
            self.standby.follower.failed(reading);
            return false;
        }
        self.check_that_the_lead_is_free(now);
        let stamp = self.standby.follower.stamp(&seen, reading);
        let clock = ServiceClock::resume(stamp, reading);
        let Ok(done) = self.first_step(&clock, now, reading, random) else {
            self.standby.follower.failed(reading);
            return false;
        };
        self.disk.stamp_takeover(stamp, now);
        std::mem::swap(&mut self.machine, &mut self.standby.machine);
        self.standby.follower = Follower::new(FORMAT);
        self.deposed = self.process.take();
        self.starting = Some(Starting { clock, done });
        true
    }

    /// Two machines may differ in their clocks, and in how long they take; no one leads while another
    /// is certain to.
    fn check_that_the_lead_is_free(&self, now: Timestamp) {
        assert!(self.starting.is_none(), "the lead is taken from a process that loads");
        let reading = self.machine.reading(now);
        let is_certain = |process: &super::Process| process.is_certain_at(&reading);
        assert!(
            self.machine.has_stood_still() || !self.process.as_ref().is_some_and(is_certain),
            "the lead is taken from a process that is certain to lead"
        );
    }
}
