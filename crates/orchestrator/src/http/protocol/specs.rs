//! Specifications of jobs that executions were lately assigned of.
//!
//! Two generations: what is used goes into the young one; when that is full it becomes the old
//! one, and what was not used since is dropped. Costs the size of the specifications, bounded by
//! twice [`GENERATION_BYTES`].

use std::collections::HashMap;
use std::mem;
use std::sync::{Arc, Mutex, PoisonError};

use api_types::JobId;
use api_types::job::JobSpec;

/// A specification is 1 to 2 kB unless it has large inputs inline, so that this holds ten
/// thousand jobs; a job that alone is larger is kept until the next one comes.
const GENERATION_BYTES: usize = 32 * 1024 * 1024;

#[derive(Default)]
pub(crate) struct SpecCache {
    generations: Mutex<Generations>,
}

#[derive(Default)]
struct Generations {
    young: HashMap<JobId, Entry>,
    young_bytes: usize,
    old: HashMap<JobId, Entry>,
}

struct Entry {
    spec: Arc<JobSpec>,
    bytes: usize,
}

// === impl SpecCache ===

impl SpecCache {
    pub(super) fn get(&self, job: JobId) -> Option<Arc<JobSpec>> {
        let mut generations = self.generations.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = generations.young.get(&job) {
            return Some(Arc::clone(&entry.spec));
        }
        let entry = generations.old.remove(&job)?;
        let spec = Arc::clone(&entry.spec);
        generations.insert(job, entry);
        Some(spec)
    }

    /// `bytes` is the size of the specification as JSON.
    pub(super) fn insert(&self, job: JobId, spec: Arc<JobSpec>, bytes: usize) {
        let mut generations = self.generations.lock().unwrap_or_else(PoisonError::into_inner);
        generations.insert(job, Entry { spec, bytes });
    }
}

// === impl Generations ===

impl Generations {
    fn insert(&mut self, job: JobId, entry: Entry) {
        if self.young_bytes > GENERATION_BYTES {
            self.old = mem::take(&mut self.young);
            self.young_bytes = 0;
        }
        self.young_bytes += entry.bytes;
        if let Some(replaced) = self.young.insert(job, entry) {
            self.young_bytes -= replaced.bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use api_types::job::{JobType, RetryPolicy};
    use uuid::Uuid;

    use super::*;

    fn id(number: u128) -> JobId {
        JobId::from_uuid(Uuid::from_u128(number))
    }

    fn spec() -> Arc<JobSpec> {
        Arc::new(JobSpec {
            name: String::new(),
            namespace: String::new(),
            job_type: JobType::Batch,
            priority: 50,
            count: 1,
            constraints: Vec::new(),
            meta: Default::default(),
            labels: Default::default(),
            retry_policy: RetryPolicy::default_for(JobType::Batch),
            tasks: Vec::new(),
        })
    }

    #[test]
    fn what_is_used_stays_and_the_rest_goes() {
        let cache = SpecCache::default();
        for number in 0..8 {
            cache.insert(id(number), spec(), GENERATION_BYTES / 3);
            assert!(cache.get(id(0)).is_some(), "used all the time, after {number}");
        }
        assert!(cache.get(id(1)).is_none(), "never used again");
        assert!(cache.get(id(7)).is_some());
    }
}
