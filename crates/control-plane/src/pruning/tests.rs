//! Steps are small and leave time to commits; jobs and keys leave as fast as they arrive.

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
    /// Rows of expired jobs, and how long removing one takes.
    rows: u32,
    row: Duration,
    /// Keys that have expired, and how long removing one takes.
    keys: u32,
    key: Duration,
}

impl Slow<'_> {
    fn commit(&mut self, removal: Removal) -> Removed {
        let now = self.clock.get();
        match removal {
            Removal::Jobs { rows, .. } => {
                assert!((ROWS_AT_ONCE..=MOST_ROWS).contains(&rows), "{rows}");
                let count = rows.min(self.rows);
                self.rows -= count;
                self.clock.set(now + self.step + self.row * count);
                self.steps = self.steps.saturating_sub(1);
                Removed { count, more: self.steps > 0 || self.rows > 0 }
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
    let none = Duration::ZERO;
    Slow { clock, step: none, steps: 0, rows: 0, row: none, keys: 0, key: none }
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
                // New keys expire immediately: the hardest case.
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

/// Removes expired jobs while as many rows of others expire as arrive, and others commit for this long
/// after each removal. Returns the longest time in which nothing else ran.
fn longest_removal(rate: u32, step: Duration, commit: Duration) -> Duration {
    let clock = Clock(AtomicU64::default());
    let row = Duration::from_micros(8);
    let mut store = Slow { step, rows: 2 * rate, row, ..slow(&clock) };
    let mut pruning = Pruning::new(Retention::default());
    pruning.keys_due = Moment(u64::MAX);
    let began = clock.get();
    let mut longest = Duration::ZERO;
    while store.rows > 0 {
        let before = clock.get();
        store.run(&mut pruning);
        longest = longest.max(clock.get().since(before));
        clock.set(pruning.due().max(clock.get() + commit));
        let came = clock.get().since(before).as_secs_f64() * f64::from(rate);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "few")]
        let came = came as u32;
        if store.rows > 0 {
            store.rows += came;
        }
        pruning.stored_rows(came as usize);
        let took = clock.get().since(began);
        assert!(took < Duration::from_secs(60), "{rate}/s, {step:?}: {} left", store.rows);
    }
    longest
}

/// At twenty rows a job that is up to two thousand jobs a second, which a disk that takes 30 ms for a
/// write cannot store.
#[test]
fn jobs_are_removed_faster_than_they_arrive_in_short_steps() {
    let (quick, slow_disk) = (Duration::from_millis(1), Duration::from_millis(30));
    for (rate, step) in
        [(1000, quick), (10_000, quick), (40_000, quick), (1000, slow_disk), (10_000, slow_disk)]
    {
        let took = longest_removal(rate, step, Duration::ZERO) - step;
        assert!(took < Duration::from_millis(10), "{rate}/s, {step:?}: a step took {took:?}");
    }
}

/// A commit of a thousand inputs takes longer than the pause after a step.
#[test]
fn jobs_are_removed_as_fast_as_they_arrive_between_long_commits() {
    let took = longest_removal(40_000, Duration::from_millis(1), Duration::from_millis(25));
    assert!(took < MOST_LATE + Duration::from_millis(10), "nothing else ran for {took:?}");
}
