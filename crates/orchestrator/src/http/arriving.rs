//! Memory for large bodies that are still arriving, and which of them lose it when memory runs out.
//!
//! A body reserves its memory with its first bytes, so a hundred slow senders could lock everybody
//! else out for a minute. When memory is short, bodies that arrive more slowly than the minimum
//! rate are cut off first; and one machine never gets more than half of the memory.

use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use api_types::MAX_BODY_BYTES;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Permits;
use super::body::BODY_TIMEOUT;
use super::error::Failure;

/// Memory is counted in pieces of this size; see [`Permits::of_large_bodies`].
pub(super) const PIECE_BYTES: usize = 64 * 1024;

/// How long a body is not judged by its speed: connections begin slowly.
const GRACE: Duration = Duration::from_secs(5);

/// How long a request waits for the memory of those that were cut off.
const CUT_TIMEOUT: Duration = Duration::from_secs(1);

#[derive(Clone)]
pub(crate) struct LargeBodies {
    permits: Permits,
    arriving: Arc<Mutex<Vec<Weak<Arriving>>>>,
}

/// One large body, from its first bytes until its request is answered.
pub(super) struct Arriving {
    from: Option<IpAddr>,
    pieces: usize,
    began: Instant,
    received_bytes: AtomicUsize,
    /// Cancelled when others need its memory.
    pub(super) cut: CancellationToken,
}

/// The memory of a large body; returned when this is dropped.
pub(super) struct Room {
    pub(super) arriving: Arc<Arriving>,
    _permits: OwnedSemaphorePermit,
}

// === impl LargeBodies ===

impl LargeBodies {
    pub(crate) fn new() -> Self {
        Self { permits: Permits::of_large_bodies(), arriving: Arc::default() }
    }

    /// Memory for a body of this size, if there is some or if slow senders leave some.
    pub(super) async fn take(&self, bytes: usize, from: Option<IpAddr>) -> Result<Room, Failure> {
        let pieces = bytes.div_ceil(PIECE_BYTES);
        self.check_share(pieces, from)?;
        let permits = match self.permits.take_many(pieces) {
            Ok(permits) => permits,
            Err(failure) if !self.cut_off_slow(Instant::now()) => return Err(failure),
            Err(failure) => tokio::time::timeout(CUT_TIMEOUT, self.permits.wait_for(pieces))
                .await
                .ok()
                .flatten()
                .ok_or(failure)?,
        };
        let arriving = Arc::new(Arriving {
            from,
            pieces,
            began: Instant::now(),
            received_bytes: AtomicUsize::new(0),
            cut: CancellationToken::new(),
        });
        self.all(|all| all.push(Arc::downgrade(&arriving)));
        Ok(Room { arriving, _permits: permits })
    }

    /// Callers on this machine, and those behind a proxy on it, are not told apart.
    fn check_share(&self, pieces: usize, from: Option<IpAddr>) -> Result<(), Failure> {
        let Some(from) = from.filter(|from| !from.is_loopback()) else { return Ok(()) };
        let most = self.permits.count() / 2;
        let held: usize = self.all(|all| {
            let alive = all.iter().filter_map(Weak::upgrade);
            alive.filter(|body| body.from == Some(from)).map(|body| body.pieces).sum()
        });
        match held + pieces > most {
            true => Err(Failure::LimitReached {
                what: "pieces of large bodies from one address",
                count: most,
            }),
            false => Ok(()),
        }
    }

    /// Returns whether there were any.
    fn cut_off_slow(&self, now: Instant) -> bool {
        self.all(|all| {
            let slow = all.iter().filter_map(Weak::upgrade).filter(|body| body.is_slow(now));
            slow.map(|body| body.cut.cancel()).count() > 0
        })
    }

    /// The bodies that are still there.
    fn all<T>(&self, work: impl FnOnce(&mut Vec<Weak<Arriving>>) -> T) -> T {
        let mut all = self.arriving.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|body| body.strong_count() > 0);
        work(&mut all)
    }

    #[cfg(test)]
    pub(super) fn permits(&self) -> &Permits {
        &self.permits
    }
}

// === impl Arriving ===

impl Arriving {
    pub(super) fn received(&self, bytes: usize) {
        self.received_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// The body is complete, and waits for its answer: that is not its sender's doing.
    pub(super) fn complete(&self) {
        self.received_bytes.store(usize::MAX, Ordering::Relaxed);
    }

    /// Whether it arrives more slowly than the largest body may.
    fn is_slow(&self, now: Instant) -> bool {
        let age = now.saturating_duration_since(self.began);
        let due = MAX_BODY_BYTES as f64 * age.as_secs_f64() / BODY_TIMEOUT.as_secs_f64();
        age > GRACE && (self.received_bytes.load(Ordering::Relaxed) as f64) < due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn slow_bodies_give_way_and_complete_ones_do_not() {
        let bodies = LargeBodies::new();
        let whole = bodies.permits().count() * PIECE_BYTES;
        let slow = bodies.take(whole / 2, None).await.ok().unwrap();
        let waiting = bodies.take(whole / 4, None).await.ok().unwrap();
        let steady = bodies.take(whole / 4, None).await.ok().unwrap();
        slow.arriving.received(100_000);
        waiting.arriving.complete();
        steady.arriving.received(MAX_BODY_BYTES);
        assert!(bodies.take(PIECE_BYTES, None).await.is_err(), "all are young");
        tokio::time::advance(GRACE * 2).await;
        let cut = slow.arriving.cut.clone();
        let leaving = tokio::spawn(async move {
            cut.cancelled().await;
            drop(slow);
        });
        assert!(bodies.take(PIECE_BYTES, None).await.is_ok());
        leaving.await.unwrap();
        assert!(!waiting.arriving.cut.is_cancelled() && !steady.arriving.cut.is_cancelled());
    }

    #[tokio::test]
    async fn one_address_gets_no_more_than_half() {
        let bodies = LargeBodies::new();
        let half = bodies.permits().count() / 2 * PIECE_BYTES;
        let [one, other] = ["10.0.0.1", "10.0.0.2"].map(|text| text.parse().ok());
        let _held = bodies.take(half, one).await.ok().unwrap();
        assert!(bodies.take(PIECE_BYTES, one).await.is_err());
        assert!(bodies.take(PIECE_BYTES, other).await.is_ok());
    }
}
