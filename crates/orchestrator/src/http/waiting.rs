//! Permits for requests that stay open and for large bodies.
//!
//! Waiting reads and event streams hold a connection each. They must not take all of them, or
//! agents could not reach the service.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use daemon::http::Peer;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::arriving::PIECE_BYTES;
use super::error::Failure;
use super::serve::max_connections;

/// Concurrent waiting reads, and never more than a quarter of the connections. Beyond it the
/// response is 429.
const WAITING_READS: usize = 4096;

/// Concurrent event streams. Each reads the store after commits, at intervals; this many add no
/// noticeable load. Beyond it the response is 429.
const EVENT_STREAMS: usize = 512;

/// Concurrent log requests, each of which may hold one connection from a node per execution it
/// follows. Beyond it the response is 429.
const LOG_READERS: usize = 512;

/// Of these, those of one peer: one reader must not keep the others out.
const LOG_READERS_OF_ONE: usize = 16;

/// Concurrent downloads of results, each with a connection from a node. Beyond it the response is
/// 429.
const DOWNLOADS: usize = 64;

/// Memory for large bodies of requests in progress. Beyond it a large one is refused with 429;
/// small ones are still accepted.
const LARGE_BODIES_BYTES: usize = 256 << 20;

/// A pool of permits, each returned when it is dropped.
#[derive(Clone)]
pub(crate) struct Permits {
    what: &'static str,
    permits: Arc<Semaphore>,
    count: usize,
}

// === impl Permits ===

impl Permits {
    pub(crate) fn of_waiting_reads() -> Self {
        Self::new("waiting reads", WAITING_READS.min(max_connections() / 4))
    }

    pub(crate) fn of_event_streams() -> Self {
        Self::new("event streams", EVENT_STREAMS.min(max_connections() / 4))
    }

    pub(crate) fn of_downloads() -> Self {
        Self::new("downloads of results", DOWNLOADS.min(max_connections() / 4))
    }

    /// Counted in pieces of [`PIECE_BYTES`].
    pub(crate) fn of_large_bodies() -> Self {
        let pieces = LARGE_BODIES_BYTES / PIECE_BYTES;
        Self::new("pieces of large bodies", pieces)
    }

    fn new(what: &'static str, count: usize) -> Self {
        Self { what, permits: Arc::new(Semaphore::new(count)), count }
    }

    /// One permit, if available.
    pub(super) fn take(&self) -> Result<OwnedSemaphorePermit, Failure> {
        self.take_many(1)
    }

    /// This many permits, if available.
    pub(super) fn take_many(&self, count: usize) -> Result<OwnedSemaphorePermit, Failure> {
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        Arc::clone(&self.permits)
            .try_acquire_many_owned(count)
            .map_err(|_| Failure::LimitReached { what: self.what, count: self.count })
    }

    /// This many permits, as soon as they are available.
    pub(super) async fn wait_for(&self, count: usize) -> Option<OwnedSemaphorePermit> {
        let count = u32::try_from(count).ok()?;
        Arc::clone(&self.permits).acquire_many_owned(count).await.ok()
    }

    /// The number of permits in use.
    pub(crate) fn taken(&self) -> usize {
        self.count.saturating_sub(self.permits.available_permits())
    }

    #[cfg(test)]
    pub(super) fn free(&self) -> usize {
        self.permits.available_permits()
    }

    pub(super) fn count(&self) -> usize {
        self.count
    }
}

/// Permits of which one peer gets a few at most.
pub(crate) struct SharedPermits {
    all: Permits,
    /// How many each peer has.
    of_each: Arc<Mutex<HashMap<Peer, usize>>>,
    most_of_one: usize,
}

/// A permit of one peer.
pub(super) struct PeerPermit {
    peer: Peer,
    of_each: Arc<Mutex<HashMap<Peer, usize>>>,
    _permit: OwnedSemaphorePermit,
}

// === impl SharedPermits ===

impl SharedPermits {
    pub(crate) fn of_log_readers() -> Self {
        let all = Permits::new("log requests", LOG_READERS.min(max_connections() / 4));
        Self { all, of_each: Arc::default(), most_of_one: LOG_READERS_OF_ONE }
    }

    /// One permit for this peer, if available.
    pub(super) fn take(&self, peer: Peer) -> Result<PeerPermit, Failure> {
        let mut of_each = lock(&self.of_each);
        let count = of_each.get(&peer).copied().unwrap_or(0);
        if count >= self.most_of_one {
            let what = "log requests from one address";
            return Err(Failure::LimitReached { what, count: self.most_of_one });
        }
        let permit = self.all.take()?;
        of_each.insert(peer, count + 1);
        Ok(PeerPermit { peer, of_each: Arc::clone(&self.of_each), _permit: permit })
    }

    /// The number of permits in use.
    pub(crate) fn taken(&self) -> usize {
        self.all.taken()
    }
}

impl Drop for PeerPermit {
    fn drop(&mut self) {
        let mut of_each = lock(&self.of_each);
        match of_each.get_mut(&self.peer) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(of_each.remove(&self.peer)),
        }
    }
}

fn lock(of_each: &Mutex<HashMap<Peer, usize>>) -> MutexGuard<'_, HashMap<Peer, usize>> {
    of_each.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use axum::response::IntoResponse;

    use super::*;

    #[test]
    fn without_a_free_permit_callers_are_told_to_retry() {
        let permits = Permits::new("things wait", 2);
        let (first, _second) = (permits.take().unwrap(), permits.take().unwrap());
        let response = permits.take().unwrap_err().into_response();
        assert_eq!(response.status(), 429);
        assert_eq!(response.headers()["retry-after"], "1");
        drop(first);
        drop(permits.take().unwrap());
    }

    #[test]
    fn one_peer_gets_a_share_and_all_together_the_whole() {
        let all = Permits::new("things wait", 3);
        let shared = SharedPermits { all, of_each: Arc::default(), most_of_one: 2 };
        let [one, other] = [1, 2].map(|last| Peer(Some(IpAddr::from([192, 0, 2, last]))));
        let (first, _second) = (shared.take(one).unwrap(), shared.take(one).unwrap());
        assert!(matches!(shared.take(one), Err(Failure::LimitReached { count: 2, .. })));
        let third = shared.take(other).unwrap();
        assert!(matches!(shared.take(other), Err(Failure::LimitReached { count: 3, .. })));
        drop(third);
        assert_eq!((lock(&shared.of_each).len(), shared.taken()), (1, 2));
        drop(first);
        drop(shared.take(one).unwrap());
        assert_eq!(shared.taken(), 1);
    }
}
