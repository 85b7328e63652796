//! Places for what may not be there in any number: requests that stay open, and large bodies.
//!
//! Reads that wait and streams of events hold a connection each. They may not hold all of them, or
//! agents could not reach the service.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::body::BODY_PIECE_BYTES;
use super::error::Failure;
use super::serve::max_connections;

/// Reads that wait at the same time, and never more than a quarter of the connections. Beyond it
/// the answer is 429.
const WAITING_READS: usize = 4096;

/// Streams of events at the same time. All of them read the store after a commit, at intervals,
/// which this many do without being felt. Beyond it the answer is 429.
const EVENT_STREAMS: usize = 512;

/// Requests that read logs at the same time, each of which may hold as many connections from nodes
/// as it follows executions. Beyond it the answer is 429.
const LOG_READERS: usize = 64;

/// Memory for bodies of requests that are neither small nor answered yet. Beyond it the answer to a
/// large one is 429; small ones are taken as before.
const LARGE_BODIES_BYTES: usize = 256 << 20;

/// Places that are given out one by one and come back when they are dropped.
#[derive(Clone)]
pub(crate) struct Places {
    what: &'static str,
    places: Arc<Semaphore>,
    count: usize,
}

// === impl Places ===

impl Places {
    pub(crate) fn of_waiting_reads() -> Self {
        Self::new("reads wait", WAITING_READS.min(max_connections() / 4))
    }

    pub(crate) fn of_event_streams() -> Self {
        Self::new("streams of events are open", EVENT_STREAMS.min(max_connections() / 4))
    }

    pub(crate) fn of_log_readers() -> Self {
        Self::new("requests read logs", LOG_READERS.min(max_connections() / 4))
    }

    /// Counted in pieces of [`BODY_PIECE_BYTES`].
    pub(crate) fn of_large_bodies() -> Self {
        let pieces = LARGE_BODIES_BYTES / BODY_PIECE_BYTES;
        Self::new("pieces of large bodies are being worked on", pieces)
    }

    fn new(what: &'static str, count: usize) -> Self {
        Self { what, places: Arc::new(Semaphore::new(count)), count }
    }

    /// A place, if one is free.
    pub(super) fn take(&self) -> Result<OwnedSemaphorePermit, Failure> {
        self.take_many(1)
    }

    /// So many places, if they are free.
    pub(super) fn take_many(&self, count: usize) -> Result<OwnedSemaphorePermit, Failure> {
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        Arc::clone(&self.places)
            .try_acquire_many_owned(count)
            .map_err(|_| Failure::NoPlace { what: self.what, count: self.count })
    }

    /// How many are taken now.
    pub(crate) fn taken(&self) -> usize {
        self.count.saturating_sub(self.places.available_permits())
    }

    #[cfg(test)]
    pub(super) fn free(&self) -> usize {
        self.places.available_permits()
    }

    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.count
    }
}

#[cfg(test)]
mod tests {
    use axum::response::IntoResponse;

    use super::*;

    #[test]
    fn beyond_the_last_place_callers_are_told_to_come_again() {
        let places = Places::new("things wait", 2);
        let (first, _second) = (places.take().unwrap(), places.take().unwrap());
        let response = places.take().unwrap_err().into_response();
        assert_eq!(response.status(), 429);
        assert_eq!(response.headers()["retry-after"], "1");
        drop(first);
        drop(places.take().unwrap());
    }
}
