//! Clients change the quota of the namespace, and end without one.

use std::time::Duration;

use super::World;
use crate::network::RequestBody;
use crate::quotas;
use crate::random::Random;
use crate::summary::Sabotage;

/// Changes of the quota while there are faults.
const CHANGES: u64 = 3;

/// Of four runs, one has quotas: they keep nodes idle, on which other things could happen.
const RUNS: u64 = 4;

// === impl World: quotas ===

impl World {
    /// The draws are apart from those of the run, whose workload stays.
    pub(super) fn change_quotas(&mut self, seed: u64) {
        if !seed.is_multiple_of(RUNS) {
            return;
        }
        let mut random = Random::new(seed.wrapping_add(u64::MAX / 2));
        for _ in 0..CHANGES {
            let cpu_millis = random.chance(700).then(|| 250 * random.within(0..24));
            let executions = u32::try_from(random.within(0..8)).expect("small");
            let executions = random.chance(500).then_some(executions);
            let delay = random.millis(0..40_000);
            self.put_quota(cpu_millis, executions, true, delay);
        }
    }

    /// What waits for a quota that is too small would wait for ever.
    pub(super) fn remove_quota(&mut self) {
        let is_change = |body: &RequestBody| matches!(body, RequestBody::PutQuota { .. });
        if self.requests.iter().any(|request| is_change(&request.body)) {
            self.put_quota(None, None, true, Duration::from_secs(2));
        }
    }

    fn put_quota(
        &mut self,
        cpu_millis: Option<u64>,
        executions: Option<u32>,
        is_stored: bool,
        delay: Duration,
    ) {
        let body = RequestBody::PutQuota { cpu_millis, executions, is_stored };
        self.add_request(body, delay);
    }

    /// Sabotage: the scheduler gets a quota of one execution less than is in use, so that an end gives
    /// nothing back.
    pub(super) fn keep_quota(&mut self) {
        if self.sabotage != Some(Sabotage::KeepQuota) {
            return;
        }
        let used = quotas::used(&self.orchestrator.disk.store).executions;
        let executions = u32::try_from(used.saturating_sub(1)).unwrap_or(u32::MAX);
        self.put_quota(None, Some(executions), false, Duration::ZERO);
    }
}
