//! Steps are small and leave most of the time to commits; keys leave as fast as they arrive.

use std::sync::atomic::{AtomicU64, Ordering};

use super::*;

/// A manually advanced clock.
struct Clock(AtomicU64);

impl Clock {
    fn get(&self) -> Moment {
        Moment(self.0.load(Ordering::Relaxed))
    }

    fn set(&self, now: Moment) {
        self.0.store(now.0, Ordering::Relaxed);
    }
}

/// A store whose step takes this long, with this many steps left.
struct Slow<'a> {
    clock: &'a Clock,
    step: Duration,
    steps: u32,
    /// Keys that have expired, and how long removing one takes.
    keys: u32,
    key: Duration,
}

impl Slow<'_> {
    fn commit(&mut self, removal: Removal) -> Removed {
        let now = self.clock.get();
        match removal {
            Removal::Jobs { rows, .. } => {
                assert_eq!(rows, ROWS_AT_ONCE);
                self.clock.set(now + self.step);
                self.steps = self.steps.saturating_sub(1);
                Removed { count: 1, more: self.steps > 0 }
            }
            Removal::Keys { limit, .. } => {
                let count = limit.min(self.keys);
                self.keys -= count;
                self.clock.set(now + self.step + self.key * count);
                Removed { count, more: self.keys > 0 }
            }
        }
    }

    /// Commits what is due.
    fn run(&mut self, pruning: &mut Pruning) {
        while let Some(removal) = pruning.next(self.clock.get()) {
            let began = self.clock.get();
            let removed = self.commit(removal);
            pruning.removed(removal, removed, began, self.clock.get());
        }
    }
}

fn slow(clock: &Clock) -> Slow<'_> {
    clock.set(Moment(1_700_000_000_000_000_000));
    Slow { clock, step: Duration::ZERO, steps: 0, keys: 0, key: Duration::ZERO }
}

fn pauses(step: Duration, steps: u32) -> Vec<Duration> {
    let clock = Clock(AtomicU64::default());
    let mut store = Slow { step, steps, ..slow(&clock) };
    let mut pruning = Pruning::new(Retention::default());
    pruning.keys_due = Moment(u64::MAX);
    let mut pauses = Vec::new();
    for _ in 0..steps {
        store.run(&mut pruning);
        pauses.push(pruning.due().since(clock.get()));
        // Not before it is due, however often it is called.
        let left = store.steps;
        store.run(&mut pruning);
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
fn the_next_scan_comes_an_interval_after_the_last_removal() {
    let step = Duration::from_millis(1);
    assert_eq!(pauses(step, 2)[1], SCAN_EVERY - step);
}

/// On a quick and on a slow disk: day-old keys leave while as many new ones arrive.
#[test]
fn keys_are_removed_faster_than_they_arrive_at_any_rate() {
    for rate in [100, 1000, 5000, 20_000] {
        for step in [Duration::from_millis(1), Duration::from_millis(30)] {
            let clock = Clock(AtomicU64::default());
            let key = Duration::from_micros(10);
            let mut store = Slow { step, keys: 10 * rate, key, ..slow(&clock) };
            let mut pruning = Pruning::new(Retention::default());
            pruning.jobs_due = Moment(u64::MAX);
            let began = clock.get();
            let mut most = Duration::ZERO;
            while store.keys > 0 {
                let before = clock.get();
                store.run(&mut pruning);
                most = most.max(clock.get().since(before));
                clock.set(pruning.due());
                let came = clock.get().since(before).as_secs_f64() * f64::from(rate);
                // New keys expire at once: the hardest case.
                #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "few")]
                let came = came as u32;
                if store.keys > 0 {
                    store.keys += came;
                }
                pruning.stored_keys(came as usize);
                let took = clock.get().since(began);
                assert!(took < Duration::from_secs(60), "{rate}/s, {step:?}: {}", store.keys);
            }
            assert!(most < Duration::from_millis(500), "{rate}/s, {step:?}: a step took {most:?}");
        }
    }
}
