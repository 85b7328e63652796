//! A store that several processes share: one of them leads, the others watch it and may take over.
//!
//! What they see is one row, which is both the lease of the leader and the fence of its commits.
//! A follower decides by its own clock when the lead is free.

use std::sync::Arc;

use api_types::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Progress, Reads, Store, StoreError, Term};
use crate::clock::Stamp;

/// A store that several processes share; one of them writes. Every call is blocking, and fails
/// within two seconds if the store cannot be reached; the next call then uses another connection.
pub trait Candidate: Send {
    /// What is seen of the leader, on the server that accepts writes.
    fn poll(&mut self) -> Result<Sighting, StoreError>;

    /// Takes over from what was seen; `None` if its term, last commit or beat have changed since. The
    /// stamp replaces the one that was seen: if this process ends before its first commit, no other
    /// has to go by the wall clocks of two machines.
    fn take_over(
        &mut self,
        seen: &Sighting,
        me: &Leader,
        stamp: Option<Stamp>,
    ) -> Result<Option<Won>, StoreError>;
}

/// What a follower sees of the process that leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sighting {
    pub term: Term,
    pub last_commit: u64,
    /// Goes up while the leader loads and cannot commit.
    pub beat: u64,
    /// Of the last commit or takeover, with the clocks of the leader's machine.
    pub stamp: Option<Stamp>,
    /// None if the lead was resigned, or no process has led yet.
    pub leader: Option<Leader>,
    pub session: SessionSign,
    /// Differs between the connections of this follower.
    pub connection: u64,
    /// The database's wall clock.
    pub wall: Timestamp,
    /// The format of the data, and the oldest format of a release that may use it.
    pub format: u32,
    pub oldest: u32,
}

/// The process that leads, as it describes itself when it takes over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leader {
    /// The `host:port` that the other orchestrators dial.
    pub address: String,
    pub exposure: Exposure,
    /// Authenticates what a follower says of the connections that it passes on; new with each
    /// takeover.
    pub pass_key: [u8; 32],
}

/// How the API is reached, and what that demands of callers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Exposure {
    /// Only from this machine, where everybody is trusted; plain HTTP.
    OpenLoopback,
    /// From other machines, without protection, as the operator demanded; plain HTTP.
    Insecure,
    /// From other machines, over TLS; callers and nodes prove who they are.
    Protected,
}

/// Whether the database shows the session in which the leader writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionSign {
    Present,
    /// It ended. The server also ends the sessions of leaders that live.
    Missing,
    /// The database does not show it to this role.
    Unknown,
}

/// What the winner of the lead gets.
pub struct Won {
    /// The writer's half.
    pub store: Box<dyn Store>,
    pub reads: Arc<dyn Reads>,
    pub hold: Hold,
    /// As of the takeover.
    pub progress: Progress,
}

/// What keeps the other processes out.
pub enum Hold {
    /// A lock, for as long as this process lives.
    Lock,
    /// The row, for a short time after each commit or beat.
    Lease(Box<dyn Beat>),
}

/// Keeps the lead while the writer loads, on a separate connection.
pub trait Beat: Send {
    /// [`StoreError::Fenced`] if another process has taken over.
    fn beat(&mut self) -> Result<(), StoreError>;
}
