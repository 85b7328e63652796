//! After the faults: small jobs never stop coming while a large one of a higher priority waits.

use std::time::Duration;

use super::World;
use crate::orchestrator;
use crate::workload::{self, ExpectedEnd};

/// Small jobs that run or wait at any time: more than any cluster of the simulation has room for.
const SMALL_JOBS: usize = 60;

/// Time in which the small jobs take every node.
const WARM_UP: Duration = Duration::from_secs(20);

/// The longest run of a small job, with what the agent needs before and after it, and messages that
/// take their time.
const LONGEST_RUN: Duration = Duration::from_secs(25);

impl World {
    /// Submits small jobs without end until the large one has started; an error if that takes too
    /// long.
    pub(super) fn crowd(&mut self) -> Result<(), String> {
        self.summary.crowds += 1;
        let warm = self.now + WARM_UP;
        while self.now < warm {
            self.keep_crowded();
        }
        let large = self.submit_plain("1", 100);
        let limit = orchestrator::STARVATION + LONGEST_RUN;
        let end = self.now + limit;
        while !self.has_started(large) {
            if self.now > end {
                let history = self.history_of(large);
                return Err(format!("a large job starves for {limit:?}: {history:?}"));
            }
            self.keep_crowded();
        }
        Ok(())
    }

    /// A second passes, and small jobs replace those that have ended.
    fn keep_crowded(&mut self) {
        let live = self.orchestrator.disk.store.jobs.values().filter(|job| job.live).count();
        for _ in live..SMALL_JOBS {
            self.submit_plain("0.25", 50);
        }
        self.run_for(Duration::from_secs(1));
    }

    fn submit_plain(&mut self, cpu: &str, priority: u32) -> usize {
        let spec = workload::plain(&mut self.random, cpu, priority);
        self.submit(spec, ExpectedEnd::Ends, Duration::ZERO)
    }

    fn has_started(&self, request: usize) -> bool {
        let row = self.job_of(request).and_then(|job| self.orchestrator.disk.store.jobs.get(&job));
        row.is_some_and(|row| row.start_time.is_some())
    }
}
