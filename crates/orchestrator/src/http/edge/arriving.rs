//! Memory for large bodies that are still arriving, and which of them lose it when it runs short.
//!
//! A body reserves its memory with its first bytes, so that slow senders could hold it for a minute.
//! A caller whose share is used up first loses its own bodies that arrive more slowly than the
//! minimum rate, and those of its namespace; never anyone else's.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use api_types::MAX_BODY_BYTES;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::http::error::Failure;
use crate::shares::{Group, Owner, Permit, Pool, Refusals, Shares};

/// How long a body may take to arrive: 10 MB at 170 kB/s. A slower sender receives an error and its
/// connection is closed, so it cannot occupy one forever.
pub(in crate::http) const BODY_TIMEOUT: Duration = Duration::from_secs(60);

/// Memory for large bodies of requests in progress. Beyond it a large one is refused with 429;
/// small ones are still accepted.
const LARGE_BODIES_BYTES: usize = 256 << 20;

/// Memory is counted in pieces of this size.
const PIECE_BYTES: usize = 64 * 1024;

/// How long a body is not judged by its speed: connections begin slowly.
const GRACE: Duration = Duration::from_secs(5);

/// How long a request waits for the memory of those that were cut off.
const CUT_TIMEOUT: Duration = Duration::from_secs(1);

/// Interval at which it tries again.
const CUT_POLL: Duration = Duration::from_millis(20);

const POOL: Pool = Pool {
    name: "large_body",
    what: "pieces of large bodies",
    serves_nodes: true,
    open_has_all: true,
};

#[derive(Clone)]
pub(crate) struct LargeBodies {
    pieces: Shares,
    arriving: Arc<Mutex<Vec<Weak<Arriving>>>>,
}

/// One large body, from its first bytes until its request is answered.
pub(in crate::http) struct Arriving {
    group: Group,
    began: Instant,
    received_bytes: AtomicUsize,
    /// Cancelled when its group needs the memory.
    pub(in crate::http) cut: CancellationToken,
}

/// The memory of a large body; returned when this is dropped.
pub(in crate::http) struct BodyMemory {
    pub(in crate::http) arriving: Arc<Arriving>,
    _pieces: Permit,
}

// === impl LargeBodies ===

impl LargeBodies {
    pub(crate) fn new(refusals: &Refusals) -> Self {
        let pieces = Shares::new(POOL, LARGE_BODIES_BYTES / PIECE_BYTES, refusals);
        Self { pieces, arriving: Arc::default() }
    }

    /// Memory for a body of this size, if the owner's share has some or if its slow senders leave
    /// some.
    pub(in crate::http) async fn take(
        &self,
        bytes: usize,
        owner: &Owner,
    ) -> Result<BodyMemory, Failure> {
        let count = bytes.div_ceil(PIECE_BYTES);
        let pieces = match self.pieces.take(owner, count) {
            Ok(pieces) => pieces,
            Err(refused) if !self.cut_off_slow(&owner.group, Instant::now()) => {
                return Err(refused.into());
            }
            Err(refused) => tokio::time::timeout(CUT_TIMEOUT, self.wait_for(count, owner))
                .await
                .map_err(|_| Failure::from(refused))?,
        };
        let arriving = Arc::new(Arriving {
            group: owner.group.clone(),
            began: Instant::now(),
            received_bytes: AtomicUsize::new(0),
            cut: CancellationToken::new(),
        });
        self.all(|all| all.push(Arc::downgrade(&arriving)));
        Ok(BodyMemory { arriving, _pieces: pieces })
    }

    async fn wait_for(&self, count: usize, owner: &Owner) -> Permit {
        loop {
            tokio::time::sleep(CUT_POLL).await;
            if let Ok(pieces) = self.pieces.take(owner, count) {
                return pieces;
            }
        }
    }

    /// Returns whether there were any.
    fn cut_off_slow(&self, group: &Group, now: Instant) -> bool {
        self.all(|all| {
            let of_group = all.iter().filter_map(Weak::upgrade).filter(|it| it.group == *group);
            of_group.filter(|body| body.is_slow(now)).map(|body| body.cut.cancel()).count() > 0
        })
    }

    /// The bodies that are still there.
    fn all<T>(&self, work: impl FnOnce(&mut Vec<Weak<Arriving>>) -> T) -> T {
        let mut all = self.arriving.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|body| body.strong_count() > 0);
        work(&mut all)
    }

    pub(in crate::http) fn pieces(&self) -> &Shares {
        &self.pieces
    }
}

// === impl Arriving ===

impl Arriving {
    pub(in crate::http) fn received(&self, bytes: usize) {
        self.received_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// The body is complete, and waits for its answer: that is not its sender's doing.
    pub(in crate::http) fn complete(&self) {
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
    async fn slow_bodies_give_way_to_their_own_group_and_complete_ones_do_not() {
        let bodies = LargeBodies::new(&Refusals::default());
        let whole = bodies.pieces().total() * PIECE_BYTES;
        let owner = Owner::everyone();
        let slow = bodies.take(whole / 2, &owner).await.ok().unwrap();
        let waiting = bodies.take(whole / 4, &owner).await.ok().unwrap();
        let steady = bodies.take(whole / 4, &owner).await.ok().unwrap();
        slow.arriving.received(100_000);
        waiting.arriving.complete();
        steady.arriving.received(MAX_BODY_BYTES);
        assert!(bodies.take(PIECE_BYTES, &owner).await.is_err(), "all are young");
        tokio::time::advance(GRACE * 2).await;
        let stranger = Owner::unknown(None);
        assert!(bodies.take(PIECE_BYTES, &stranger).await.is_err());
        let cut = slow.arriving.cut.clone();
        assert!(!cut.is_cancelled(), "no one else's need cuts a body off");
        let leaving = tokio::spawn(async move {
            cut.cancelled().await;
            drop(slow);
        });
        assert!(bodies.take(PIECE_BYTES, &owner).await.is_ok());
        leaving.await.unwrap();
        assert!(!waiting.arriving.cut.is_cancelled() && !steady.arriving.cut.is_cancelled());
    }
}
