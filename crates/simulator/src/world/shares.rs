//! After the faults: two namespaces of different weights wait for room with equal jobs.

use std::time::Duration;

use super::World;
use crate::network::RequestBody;
use crate::shares::NAMESPACES;
use crate::summary::Sabotage;
use crate::workload::{self, ExpectedEnd};

/// Jobs of each: the later namespace waits with most of its jobs until the earlier ones end.
const JOBS: usize = 40;

/// How long a job runs.
const RUN_SECONDS: u64 = 2;

/// Time until the answers have arrived.
const ANSWERED: Duration = Duration::from_secs(2);

/// Time in which most of the jobs have run.
const SHARED: Duration = Duration::from_secs(30);

// === impl World: shares ===

impl World {
    /// What was placed first is no violation: the other one did not wait yet.
    pub(super) fn shared_cluster(&mut self) {
        self.summary.shared_clusters += 1;
        for (namespace, weight) in NAMESPACES {
            let weight = (self.sabotage != Some(Sabotage::IgnoreShares)).then_some(weight);
            let namespace = namespace.to_owned();
            self.add_request(RequestBody::PutWeight { namespace, weight }, Duration::ZERO);
        }
        self.run_for(ANSWERED);
        self.orchestrator.disk.is_shared = true;
        for (namespace, _) in NAMESPACES {
            for _ in 0..JOBS {
                let mut spec = workload::plain(&mut self.random, "0.5", 50);
                spec.name = workload::sleep(RUN_SECONDS);
                namespace.clone_into(&mut spec.namespace);
                spec.tasks[0].result_paths.clear();
                self.submit(spec, ExpectedEnd::Ends, Duration::ZERO);
            }
            self.run_for(Duration::from_millis(500));
        }
        self.run_for(SHARED);
        self.orchestrator.disk.is_shared = false;
    }
}
