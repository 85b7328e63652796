//! What the writer hands to a store: numbered commits under a term, removals, lookups.
//!
//! A store has one writer at a time. Each writer takes a [`Term`] before it reads anything, and
//! names it with each commit; the writer that takes the next term fences the earlier ones. Numbers tell
//! a repeat from a new commit, so that a commit whose outcome is unknown is settled by repeating it.

use std::collections::{HashMap, HashSet};

use api_types::JobId;
use api_types::audit::AuditRecord;
use scheduler::change::{Changes, NamedJob};
use scheduler::time::Moment;

use super::{IdempotencyRow, LoadRow, RequestKey, Retention, StoreError};
use crate::clock::Stamp;
use crate::records::RecordRow;

/// The cost of removing a job's row, in rows: it has seven indexes.
pub const JOB_ROWS: u32 = 8;

/// The cost of removing an execution: its row with two indexes, and its output.
pub const EXECUTION_ROWS: u32 = 2;

/// The time for which one process is the writer. Terms are only compared for equality: a store
/// may count them or draw them at random.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Term(pub u128);

/// Identifies a commit. Numbers go up by one, over all terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CommitId {
    pub term: Term,
    pub number: u64,
}

/// All that one commit makes durable.
#[derive(Debug, Clone, Copy)]
pub struct Commit<'a> {
    pub id: CommitId,
    /// The stamp from which a restart continues the service clock.
    pub stamp: Stamp,
    pub write: Write<'a>,
}

#[derive(Debug, Clone, Copy)]
pub enum Write<'a> {
    /// The changes of some inputs, their keys, records and audit records. Without any it proves that the term still
    /// holds.
    Batch {
        changes: &'a Changes,
        keys: &'a [IdempotencyRow],
        records: &'a [RecordRow],
        audit: &'a [AuditRecord],
        loads: &'a [LoadRow],
    },
    Removal(Removal),
    /// Changes nothing, and succeeds only if there is room for a commit of usual size.
    Probe,
}

/// What one commit removes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removal {
    /// Finished jobs that exceed retention at the time of the commit's stamp, with everything that
    /// belongs to them, in the order in which they ended; their idempotency keys stay.
    ///
    /// Removes about `rows` rows, however large one job is. A job vanishes from all reads as soon
    /// as its removal begins; later commits remove the rest, also after a restart.
    Jobs { retention: Retention, rows: u32 },
    /// Idempotency keys older than `oldest`, at most `limit`.
    Keys { oldest: Moment, limit: u32 },
}

/// What became of a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Written(Removed),
    /// The number is there already under the same term; nothing was changed.
    Repeated,
    /// Nothing was due for removal, so nothing was written: the number is still free.
    Idle,
}

/// What a [`Removal`] removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Removed {
    /// Jobs, or keys.
    pub count: u32,
    /// Whether more is due for removal.
    pub more: bool,
}

/// Where the writer's commits stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Progress {
    /// The term taken last.
    pub term: Term,
    /// The last commit before that term; numbers up to it belong to others.
    pub began_after: u64,
    /// The number of the last commit; 0 for a new store.
    pub last_commit: u64,
    /// The stamp of the last commit; none for a new store.
    pub stamp: Option<Stamp>,
}

/// Whether a commit may be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    New,
    Repeat,
}

/// What a store knows of the requests of one turn.
#[derive(Debug, Default)]
pub struct LookupResults {
    /// The first answers to requests with these keys.
    pub keys: HashMap<RequestKey, IdempotencyRow>,
    /// IDs that jobs have, live or finished.
    pub jobs: HashSet<JobId>,
    /// The jobs on which submitted ones depend.
    pub named: HashMap<JobId, NamedJob>,
}

// === impl Progress ===

impl Progress {
    /// The rule of all stores. A number beyond the next is a bug of the caller; a number that is
    /// taken, but not under this term, was taken by another process.
    pub fn admit(&self, id: CommitId) -> Result<Admission, StoreError> {
        let CommitId { term, number } = id;
        if term != self.term || number <= self.began_after {
            Err(StoreError::Fenced)
        } else if number <= self.last_commit {
            Ok(Admission::Repeat)
        } else if number == self.last_commit + 1 {
            Ok(Admission::New)
        } else {
            Err(StoreError::CommitGap { came: number, last: self.last_commit })
        }
    }
}
