//! Clients change the limit of a concurrency group, and end with the first one.

use std::time::Duration;

use super::World;
use crate::groups::{CHANGING, GROUPS};
use crate::network::RequestBody;
use crate::summary::Sabotage;
use crate::units;

/// Changes of the limit while there are faults.
const CHANGES: usize = 3;

/// The highest limit that a change sets; 0 pauses the group.
const HIGHEST: u64 = 3;

// === impl World: groups ===

impl World {
    pub(super) fn change_limits(&mut self) {
        for _ in 0..CHANGES {
            let limit = u32::try_from(self.random.within(0..HIGHEST + 1)).expect("small");
            let delay = self.random.millis(0..45_000);
            self.put_group(CHANGING, limit, delay);
        }
    }

    /// What waits for a group that is paused would wait for ever.
    pub(super) fn restore_limits(&mut self) {
        for (name, limit) in GROUPS {
            self.put_group(name, limit, Duration::from_secs(2));
        }
    }

    fn put_group(&mut self, name: &str, limit: u32, delay: Duration) {
        let body = RequestBody::PutGroup { name: name.to_owned(), limit, is_stored: true };
        self.add_request(body, delay);
    }

    /// Sabotage: the scheduler gets a unit less for each slot that waits for the end of a delay.
    pub(super) fn keep_units(&mut self) {
        if self.sabotage != Some(Sabotage::KeepUnits) {
            return;
        }
        for (name, _) in GROUPS {
            let disk = &self.orchestrator.disk;
            let taken = units::delayed(disk, name);
            let limit = disk.limits.last(name).saturating_sub(taken);
            let body = RequestBody::PutGroup { name: name.to_owned(), limit, is_stored: false };
            self.add_request(body, Duration::ZERO);
        }
    }
}
