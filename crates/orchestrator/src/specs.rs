//! A cache of job specifications that were recently submitted or assigned.
//!
//! Frequently used ones stay; others, such as those of jobs that wait long, are evicted by newer
//! ones. Memory use is the size of the specifications, bounded by [`BYTES`].

use std::sync::Arc;

use api_types::JobId;
use api_types::job::JobSpec;
use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};

/// A specification is 1 to 2 kB unless it has large inline inputs, so this holds twenty thousand
/// jobs, or a few of the largest.
const BYTES: usize = 32 * 1024 * 1024;
const USUAL_BYTES: usize = 1500;

/// The part that newer specifications cannot evict; the rest holds the last five thousand jobs.
const HOT: f64 = 0.75;

/// By job and version.
type Key = (JobId, u64);

pub(crate) struct SpecCache(Cache<Key, KnownSpec, Size>);

#[derive(Clone)]
pub(crate) struct KnownSpec {
    pub(crate) spec: Arc<JobSpec>,
    /// Its size as JSON.
    pub(crate) bytes: usize,
}

#[derive(Clone)]
struct Size;

// === impl SpecCache ===

impl Default for SpecCache {
    fn default() -> Self {
        let options = OptionsBuilder::new()
            .weight_capacity(BYTES as u64)
            .estimated_items_capacity(BYTES / USUAL_BYTES)
            .hot_allocation(HOT)
            // With several shards, a large specification would not fit into one.
            .shards(1)
            .build()
            .expect("the bounds are set");
        let hashes = DefaultHashBuilder::default();
        Self(Cache::with_options(options, Size, hashes, DefaultLifecycle::default()))
    }
}

impl SpecCache {
    pub(crate) fn get(&self, job: JobId, version: u64) -> Option<Arc<JobSpec>> {
        self.known(job, version).map(|known| known.spec)
    }

    pub(crate) fn known(&self, job: JobId, version: u64) -> Option<KnownSpec> {
        self.0.get(&(job, version))
    }

    /// `bytes` is the size of the specification as JSON.
    pub(crate) fn insert(&self, job: JobId, version: u64, spec: Arc<JobSpec>, bytes: usize) {
        self.0.insert((job, version), KnownSpec { spec, bytes });
    }

    pub(crate) fn forget(&self, job: JobId, version: u64) {
        self.0.remove(&(job, version));
    }

    pub(crate) fn clear(&self) {
        self.0.clear();
    }
}

impl Weighter<Key, KnownSpec> for Size {
    fn weight(&self, _: &Key, known: &KnownSpec) -> u64 {
        known.bytes as u64
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
            max_running: 0,
            constraints: Vec::new(),
            meta: Default::default(),
            labels: Default::default(),
            retry_policy: RetryPolicy::default_for(JobType::Batch),
            max_failed: 0,
            concurrency_groups: Vec::new(),
            on_conflict: api_types::job::OnConflict::Queue,
            depends_on: Vec::new(),
            tasks: Vec::new(),
        })
    }

    #[test]
    fn used_specifications_stay_and_unused_ones_are_evicted() {
        let cache = SpecCache::default();
        for number in 0..100_000 {
            cache.insert(id(number), 1, spec(), USUAL_BYTES);
            assert!(cache.get(id(0), 1).is_some(), "used all the time, after {number}");
            assert!(number < 1000 || cache.get(id(number - 99), 1).is_some(), "came just before");
        }
        assert!(cache.get(id(1), 1).is_none(), "never used");
        assert!(cache.0.weight() <= BYTES as u64);
    }

    #[test]
    fn versions_of_a_job_are_kept_apart() {
        let cache = SpecCache::default();
        cache.insert(id(1), 1, spec(), USUAL_BYTES);
        let second = Arc::new(JobSpec { count: 2, ..(*spec()).clone() });
        cache.insert(id(1), 2, Arc::clone(&second), USUAL_BYTES);
        assert_eq!(cache.get(id(1), 1), Some(spec()));
        cache.forget(id(1), 1);
        assert_eq!((cache.get(id(1), 1), cache.get(id(1), 2)), (None, Some(second)));
    }

    #[test]
    fn the_largest_specification_fits_among_many() {
        let cache = SpecCache::default();
        for number in 0..100_000 {
            cache.insert(id(number), 1, spec(), USUAL_BYTES);
        }
        let (large, mut loaded) = (id(100_000), 0);
        for number in 100_001..101_000 {
            cache.insert(id(number), 1, spec(), USUAL_BYTES);
            if cache.get(large, 1).is_none() {
                loaded += 1;
                cache.insert(large, 1, spec(), 10 << 20);
            }
        }
        // Newer ones may evict it before its first use, but only once.
        assert!(loaded <= 2, "{loaded}");
        assert!(cache.0.weight() <= BYTES as u64);
    }
}
