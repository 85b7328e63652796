//! Steps are small, and leave most of the time to commits.

use std::sync::atomic::{AtomicI64, Ordering};

use super::*;
use crate::engine::change::{Changes, Live, LiveJobRow};
use crate::store::IdempotencyRow;

/// A clock that is moved by hand.
struct Clock(AtomicI64);

impl Clock {
    fn get(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::Relaxed))
    }

    fn set(&self, now: Timestamp) {
        self.0.store(now.0, Ordering::Relaxed);
    }
}

/// Takes so long for a step, and has so many of them left.
struct Slow<'a> {
    clock: &'a Clock,
    step: Duration,
    steps: u32,
}

impl Store for Slow<'_> {
    fn prune(&mut self, now: Timestamp, _: &Retention, rows: u32) -> Result<Pruned, StoreError> {
        assert_eq!((now, rows), (self.clock.get(), ROWS_AT_ONCE));
        self.clock.set(now + self.step);
        self.steps = self.steps.saturating_sub(1);
        Ok(Pruned { jobs: 1, more: self.steps > 0 })
    }

    fn load(&mut self, _: &mut dyn FnMut(LiveJobRow)) -> Result<Live, StoreError> {
        Ok(Live::default())
    }

    fn commit(&mut self, _: u64, _: &Changes, _: &[IdempotencyRow]) -> Result<(), StoreError> {
        Ok(())
    }

    fn last_commit(&mut self) -> Result<u64, StoreError> {
        Ok(0)
    }

    fn idempotency(&mut self, _: &str, _: Timestamp) -> Result<Option<IdempotencyRow>, StoreError> {
        Ok(None)
    }

    fn has_job(&mut self, _: api_types::JobId) -> Result<bool, StoreError> {
        Ok(false)
    }

    fn probe(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    fn forget_keys(&mut self, _: Timestamp, _: u32) -> Result<u32, StoreError> {
        Ok(0)
    }
}

fn pauses(step: Duration, steps: u32) -> Vec<Duration> {
    let clock = Clock(AtomicI64::new(1_700_000_000_000_000_000));
    let mut store = Slow { clock: &clock, step, steps };
    let mut pruning = Pruning::new(Retention::default());
    let mut pauses = Vec::new();
    for _ in 0..steps {
        pruning.step(&mut store, || clock.get()).unwrap();
        pauses.push(pruning.due().since(clock.get()));
        // Not before it is due, however often it is asked.
        let left = store.steps;
        pruning.step(&mut store, || clock.get()).unwrap();
        assert_eq!(store.steps, left);
        clock.set(pruning.due());
    }
    assert_eq!(store.steps, 0);
    pauses
}

#[test]
fn a_pause_is_a_multiple_of_the_step_before_it() {
    let millis = Duration::from_millis;
    assert_eq!(pauses(millis(1), 3)[..2], [SHORTEST_PAUSE; 2]);
    assert_eq!(pauses(millis(500), 3)[..2], [millis(2000); 2]);
}

#[test]
fn when_nothing_is_left_it_looks_again_after_a_while() {
    let step = Duration::from_millis(1);
    assert_eq!(pauses(step, 2)[1], LOOK_EVERY - step);
}
