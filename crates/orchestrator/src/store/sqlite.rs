//! The embedded store: SQLite in WAL mode with `synchronous=FULL`.
//!
//! One connection writes and a few read. A commit is one transaction and one write to the disk,
//! however many inputs it carries. After a failure the transaction is rolled back as a whole and
//! the connection is usable: a disk that was full is written to again when there is room.

mod checkpoint;
mod commit;
mod events;
mod executions;
mod fault;
mod history;
mod jobs;
mod load;
mod open;
mod prune;
mod reads;
mod results;
mod row;
mod schema;
mod select;

use std::fs::File;
use std::path::PathBuf;

use api_types::{JobId, Timestamp};
use rusqlite::Connection;

pub use self::open::open;
pub use self::reads::SqliteReads;
use super::{IdempotencyRow, Pruned, Retention, Store, StoreError};
use crate::engine::change::{Changes, Live, LiveJobRow};

/// What a probe writes: a commit of a few hundred jobs has this size.
const PROBE_BYTES: u32 = 1 << 20;

/// The writer.
pub struct SqliteStore {
    /// Ends before the connection is closed: fields are dropped in their order.
    _checkpointer: checkpoint::Checkpointer,
    connection: Connection,
    path: PathBuf,
    /// Closing it gives the directory free.
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

    fn commit(
        &mut self,
        number: u64,
        changes: &Changes,
        keys: &[IdempotencyRow],
    ) -> Result<(), StoreError> {
        self.run(|connection| commit::commit(connection, number, changes, keys))
    }

    fn last_commit(&mut self) -> Result<u64, StoreError> {
        self.run(|connection| commit::last_commit(connection))
    }

    fn idempotency(
        &mut self,
        key: &str,
        oldest: Timestamp,
    ) -> Result<Option<IdempotencyRow>, StoreError> {
        self.run(|connection| commit::idempotency(connection, key, oldest.0))
    }

    fn has_job(&mut self, id: JobId) -> Result<bool, StoreError> {
        self.run(|connection| Ok(jobs::number(connection, id)?.is_some()))
    }

    /// Two transactions: what is written and taken back in one never reaches the disk.
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

    fn forget_keys(&mut self, oldest: Timestamp, limit: u32) -> Result<u32, StoreError> {
        self.run(|connection| commit::forget_keys(connection, oldest.0, limit))
    }

    fn prune(
        &mut self,
        now: Timestamp,
        retention: &Retention,
        rows: u32,
    ) -> Result<Pruned, StoreError> {
        self.run(|connection| prune::prune(connection, now, retention, rows))
    }
}

#[cfg(test)]
mod tests;
