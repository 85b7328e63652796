//! The quota of the namespace: no job says for long that it waits for it if it fits.

use api_types::job::JobStateType;

use crate::orchestrator::Disk;
use crate::quotas;

/// What fits may wait in this many counts, one per second: later turns finish what one leaves.
const COUNTS: u32 = 3;

/// In how many counts in a row a job waited for the quota and fitted into it.
#[derive(Default)]
pub(super) struct IdleQuota(u32);

// === impl IdleQuota ===

impl IdleQuota {
    /// The orchestrator was held up: it could not do anything about it.
    pub(super) fn begin_anew(&mut self) {
        self.0 = 0;
    }

    /// Panics if a job says for too long that it waits for a quota into which it fits.
    pub(super) fn count(&mut self, disk: &Disk) {
        let used = quotas::used(&disk.store);
        let waiting = disk.store.jobs.values().find(|row| {
            let says = row.message.starts_with(quotas::SAYS);
            let spec = &disk.specs[&row.id];
            // Others may wait for something else by now, without saying so.
            let is_plain = spec.concurrency_groups.is_empty() && spec.max_running == 0;
            row.live
                && row.state == JobStateType::Queued
                && says
                && is_plain
                && disk.quotas.has_room_for(spec, used)
        });
        match waiting {
            None => self.0 = 0,
            Some(row) => {
                self.0 += 1;
                assert!(self.0 <= COUNTS, "job {} waits for a quota that has room", row.id);
            }
        }
    }
}
