//! After the faults: an agent cannot write its ledger for longer than a lease.

use std::time::Duration;

use super::World;

/// Seconds that the run takes which must not be thrown away.
const RUN: u64 = 90;

/// How long the ledger has no room, in milliseconds: more than a lease and the patience for the run.
const FULL: std::ops::Range<u64> = 25_000..60_000;

impl World {
    /// The heartbeats of the agent go on, and with them its run.
    pub(super) fn full_ledger(&mut self) -> Result<(), String> {
        self.summary.full_ledgers += 1;
        let request = self.submit_sleep(RUN);
        let execution = self.wait_for_start(request)?;
        let agent = self.agent_of(execution);
        let until = self.now + self.random.millis(FULL);
        if let Some(process) = &mut self.agents[agent].process {
            process.ledger_full_until = until;
        }
        self.agents[agent].trouble.is_away(until);
        self.run_for(Duration::from_secs(RUN));
        self.settle()?;
        self.has_run_on(request, execution)
    }
}
