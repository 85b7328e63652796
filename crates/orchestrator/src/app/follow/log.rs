//! What the log says of the wait for the lead.

use control_plane::clock::Reading;
use control_plane::follow;
use control_plane::store::{Sighting, StoreError, Term};

/// What the log says while this process follows: each change once.
pub(super) struct Log {
    /// The format of the data that this release writes.
    format: u32,
    leader: Option<String>,
    is_blind: bool,
    is_clock_wrong: bool,
    is_outdated: bool,
    /// The term and commit from which a takeover failed: while another process migrates the data,
    /// each one fails.
    not_taken: Option<(Term, u64)>,
}

// === impl Log ===

impl Log {
    pub(super) fn new(format: u32) -> Self {
        Self {
            format,
            leader: None,
            is_blind: false,
            is_clock_wrong: false,
            is_outdated: false,
            not_taken: None,
        }
    }

    pub(super) fn not_taken(&mut self, shown: &Sighting, error: &StoreError) {
        let shown = Some((shown.term, shown.last_commit));
        if self.not_taken != shown {
            let error: &dyn std::error::Error = error;
            tracing::warn!(error, "cannot take the lead over; trying again");
        }
        self.not_taken = shown;
    }

    pub(super) fn polled(&mut self, polled: &Result<Sighting, StoreError>, now: &Reading) {
        match polled {
            Ok(seen) => {
                self.is_blind = false;
                let leader = seen.leader.as_ref().map(|leader| leader.address.clone());
                if let Some(address) = leader.as_ref().filter(|_| leader != self.leader) {
                    tracing::info!(leader = %address, "another orchestrator leads; following it");
                }
                self.leader = leader;
                let error = follow::wall_clock_error(seen.wall, now.wall);
                if let Some(error) = error.filter(|_| !self.is_clock_wrong) {
                    tracing::warn!(
                        seconds = error.as_secs_f32(),
                        "the wall clock differs from the database's: tokens and certificates \
                         expire by it; synchronize the clocks"
                    );
                }
                self.is_clock_wrong = error.is_some();
                let is_outdated = seen.oldest > self.format;
                if is_outdated && !self.is_outdated {
                    tracing::error!(
                        found = seen.format,
                        known = self.format,
                        "a newer release has migrated the state, so this one cannot lead; install \
                         the newer release here"
                    );
                }
                self.is_outdated = is_outdated;
            }
            Err(error) => {
                if !self.is_blind {
                    let error: &dyn std::error::Error = error;
                    tracing::warn!(error, "cannot see the leader in the database; trying again");
                }
                self.is_blind = true;
            }
        }
    }
}
