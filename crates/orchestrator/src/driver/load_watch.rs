//! Keeps the lead while the driver's thread loads, and ends a load that hangs.
//!
//! A load is one long read, during which nothing can be committed. A separate thread tells the
//! other processes on a separate connection that this one lives.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use control_plane::step::Failure;
use control_plane::store::{Beat, StoreError};

use super::error::DriverError;
use super::vitals::Vitals;

/// Interval between beats: followers wait three times as long.
const BEAT_EVERY: Duration = Duration::from_secs(1);

/// A load that has read nothing for this long hangs, and another process may succeed: this one
/// ends.
pub(super) const HANGS_AFTER: Duration = Duration::from_secs(30);

pub(super) struct LoadWatch {
    loading: Arc<Loading>,
    /// Ends the thread when dropped.
    _stop: Sender<()>,
}

#[derive(Default)]
struct Loading {
    is_under_way: AtomicBool,
    /// Counts what was read.
    read: AtomicU64,
}

// === impl LoadWatch ===

impl LoadWatch {
    pub(super) fn start(
        beat: Box<dyn Beat>,
        hangs_after: Duration,
        vitals: Vitals,
    ) -> io::Result<Self> {
        let loading = Arc::<Loading>::default();
        let (stop, stopped) = channel();
        let watched = Arc::clone(&loading);
        let watch = move || watch(&watched, beat, hangs_after, &vitals, &stopped);
        thread::Builder::new().name("load watch".to_owned()).spawn(watch)?;
        Ok(Self { loading, _stop: stop })
    }

    /// Watches a load, which calls its argument for everything that it has read.
    pub(super) fn over<T>(&self, load: impl FnOnce(&dyn Fn()) -> T) -> T {
        self.loading.is_under_way.store(true, Ordering::Release);
        let loaded = load(&|| {
            self.loading.read.fetch_add(1, Ordering::Relaxed);
        });
        self.loading.is_under_way.store(false, Ordering::Release);
        loaded
    }
}

fn watch(
    loading: &Loading,
    mut beat: Box<dyn Beat>,
    hangs_after: Duration,
    vitals: &Vitals,
    stopped: &Receiver<()>,
) {
    let (mut read, mut since) = (0, Instant::now());
    while stopped.recv_timeout(BEAT_EVERY) == Err(RecvTimeoutError::Timeout) {
        let now_read = loading.read.load(Ordering::Relaxed);
        if !loading.is_under_way.load(Ordering::Acquire) || now_read != read {
            (read, since) = (now_read, Instant::now());
        }
        if !loading.is_under_way.load(Ordering::Acquire) {
            continue;
        }
        if since.elapsed() >= hangs_after {
            let hangs = DriverError::LoadHangs { for_as_long_as: hangs_after };
            return vitals.end(Err(hangs));
        }
        vitals.pulse().beat();
        match beat.beat() {
            Ok(()) => {}
            Err(StoreError::Fenced) => return vitals.end(Err(Failure::LeadLost.into())),
            Err(error) => {
                let error: &dyn std::error::Error = &error;
                tracing::warn!(error, "cannot hold the lead while the state is loaded");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use control_plane::store::StoreError;

    use super::*;
    use crate::driver::Driver;

    const PATIENCE: Duration = Duration::from_secs(20);

    /// Counts its beats; the last one is refused.
    struct Beats(Arc<AtomicU64>, u64);

    impl Beat for Beats {
        fn beat(&mut self) -> Result<(), StoreError> {
            match self.0.fetch_add(1, Ordering::Relaxed) + 1 >= self.1 {
                true => Err(StoreError::Fenced),
                false => Ok(()),
            }
        }
    }

    async fn outcome(driver: &mut Driver) -> Result<(), DriverError> {
        tokio::time::timeout(PATIENCE, driver.ended()).await.expect("the driver ends")
    }

    fn start(last: u64, hangs_after: Duration) -> (LoadWatch, Arc<AtomicU64>, Driver) {
        let (driver, vitals) = Driver::new();
        let beats = Arc::<AtomicU64>::default();
        let beat = Box::new(Beats(Arc::clone(&beats), last));
        let watch = LoadWatch::start(beat, hangs_after, vitals).unwrap();
        (watch, beats, driver)
    }

    #[tokio::test]
    async fn it_beats_while_a_load_is_under_way_and_ends_the_process_that_lost_the_lead() {
        let (watch, beats, mut driver) = start(2, HANGS_AFTER);
        let loading = thread::spawn(move || {
            watch.over(|read| {
                while beats.load(Ordering::Relaxed) < 2 {
                    read();
                    thread::sleep(Duration::from_millis(5));
                }
            });
            watch
        });
        let ended = outcome(&mut driver).await;
        assert!(matches!(ended, Err(DriverError::Step(Failure::LeadLost))), "{ended:?}");
        drop(loading.join().unwrap());
    }

    #[tokio::test]
    async fn a_load_that_reads_nothing_ends_the_process_although_it_beats() {
        let (watch, _, mut driver) = start(u64::MAX, Duration::from_secs(2));
        let (done, hanging) = channel::<()>();
        let loading = thread::spawn(move || watch.over(|_| hanging.recv()));
        let ended = outcome(&mut driver).await;
        assert!(matches!(ended, Err(DriverError::LoadHangs { .. })), "{ended:?}");
        drop(done);
        loading.join().unwrap().unwrap_err();
    }

    #[tokio::test]
    async fn a_load_that_goes_on_reading_may_take_longer_and_idle_time_does_not_count() {
        let (watch, beats, mut driver) = start(u64::MAX, Duration::from_millis(1500));
        let loading = thread::spawn(move || {
            thread::sleep(Duration::from_millis(1600));
            assert_eq!(beats.load(Ordering::Relaxed), 0, "nothing is loaded");
            watch.over(|read| {
                while beats.load(Ordering::Relaxed) < 3 {
                    read();
                    thread::sleep(Duration::from_millis(5));
                }
            });
        });
        let ended = outcome(&mut driver).await;
        assert!(matches!(ended, Err(DriverError::Vanished)), "the watch ended first: {ended:?}");
        loading.join().unwrap();
    }
}
