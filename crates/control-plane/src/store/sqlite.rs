//! The embedded store: SQLite in WAL mode with `synchronous=FULL`.
//!
//! One connection writes and a few read. A commit is one transaction and one write to the disk,
//! however many inputs it carries. A failure rolls the whole transaction back and leaves the
//! connection usable: after a full disk, writing resumes once there is space.

mod checkpoint;
mod commit;
mod events;
mod executions;
mod fault;
mod health;
mod history;
mod jobs;
mod keys;
mod load;
mod marks;
mod nodes;
mod open;
mod prune;
mod reads;
mod results;
mod row;
mod schema;
mod select;

use std::fs::File;
use std::path::PathBuf;

use api_types::JobId;
use rusqlite::Connection;
use scheduler::change::{Live, LiveJobRow};
use scheduler::time::Moment;

pub use self::open::open;
pub use self::reads::SqliteReads;
use super::{Commit, IdempotencyRow, Pruned, RequestKey, Retention, Store, StoreError};
use crate::clock::Stamp;

/// The size of a probe: a commit of a few hundred jobs.
const PROBE_BYTES: u32 = 1 << 20;

/// The writer.
pub struct SqliteStore {
    /// Declared before the connection, so that its thread ends first.
    _checkpointer: checkpoint::Checkpointer,
    connection: Connection,
    path: PathBuf,
    /// Releases the lock on the directory when dropped.
    _lock: File,
}

// === impl SqliteStore ===

impl SqliteStore {
    fn run<T>(
        &mut self,
        action: impl FnOnce(&mut Connection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        action(&mut self.connection).map_err(|error| fault::classify(&self.path, error))
    }
}

impl Store for SqliteStore {
    fn load(&mut self, job: &mut dyn FnMut(LiveJobRow)) -> Result<Live, StoreError> {
        self.run(|connection| load::load(connection, job))
    }

    fn commit(&mut self, commit: &Commit<'_>) -> Result<(), StoreError> {
        self.run(|connection| commit::commit(connection, commit))
    }

    fn last_commit(&mut self) -> Result<u64, StoreError> {
        self.run(|connection| commit::last_commit(connection))
    }

    fn last_stamp(&mut self) -> Result<Option<Stamp>, StoreError> {
        self.run(|connection| commit::last_stamp(connection))
    }

    fn idempotency(
        &mut self,
        key: &RequestKey,
        oldest: Moment,
    ) -> Result<Option<IdempotencyRow>, StoreError> {
        self.run(|connection| keys::find(connection, key, oldest))
    }

    fn has_job(&mut self, id: JobId) -> Result<bool, StoreError> {
        self.run(|connection| Ok(jobs::number(connection, id)?.is_some()))
    }

    /// Two transactions: rows written and removed in the same one never reach the disk.
    fn probe(&mut self) -> Result<(), StoreError> {
        self.run(|connection| {
            connection.execute(
                "INSERT OR REPLACE INTO probe (one, filling) VALUES (1, zeroblob(?1))",
                [PROBE_BYTES],
            )?;
            connection.execute("DELETE FROM probe", [])?;
            Ok(())
        })
    }

    fn forget_keys(&mut self, oldest: Moment, limit: u32) -> Result<u32, StoreError> {
        self.run(|connection| keys::forget(connection, oldest, limit))
    }

    fn prune(
        &mut self,
        now: Moment,
        retention: &Retention,
        rows: u32,
    ) -> Result<Pruned, StoreError> {
        self.run(|connection| prune::prune(connection, now, retention, rows))
    }
}

#[cfg(test)]
mod tests;
