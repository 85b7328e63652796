//! The embedded store: SQLite in WAL mode with `synchronous=FULL`.
//!
//! One connection writes and a few read. A commit is one transaction and one write to the disk,
//! however many inputs it carries. A failure rolls the whole transaction back and leaves the
//! connection usable: after a full disk, writing resumes once there is space.

mod audit;
pub mod backup;
mod checkpoint;
mod cluster_load;
mod commit;
mod connection;
mod curves;
mod dependencies;
mod events;
mod executions;
mod fault;
mod file;
mod graphs;
mod history;
mod indexes;
mod jobs;
mod keys;
mod load;
mod marks;
mod name;
mod nodes;
mod numbers;
mod open;
mod outcomes;
mod outputs;
mod progress;
mod prune;
mod reads;
mod records;
mod reruns;
mod results;
mod row;
mod schema;
mod search;
mod select;
pub(super) mod source;
mod specs;
mod summaries;
mod upgrade;

use std::collections::BTreeMap;
use std::fs::File;
use std::path::PathBuf;

use api_types::JobId;
use api_types::dependency::Indexes;
use rusqlite::{Connection, TransactionBehavior};
use scheduler::change::{Live, LiveJobRow, NamedJob};
use scheduler::time::Moment;

pub use self::open::open;
pub use self::reads::{CONNECTIONS, SqliteReads};
use crate::audit::Chains;
use crate::records::Record;

use super::ended::EndedJobs;
use super::{Commit, LookupResults, Outcome, Progress, RequestKey, Store, StoreError};

/// The writer.
pub struct SqliteStore {
    /// Declared before the connection, so that its thread ends first.
    checkpointer: checkpoint::Checkpointer,
    connection: Connection,
    path: PathBuf,
    ended: EndedJobs,
    /// Releases the lock on the directory when dropped.
    _lock: File,
}

// === impl SqliteStore ===

impl SqliteStore {
    fn run<T>(
        &mut self,
        action: impl FnOnce(&mut Connection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        action(&mut self.connection).map_err(|error| {
            let error = fault::classify(&self.path, error);
            if matches!(error, StoreError::Full { .. }) {
                // What fills the disk may be the log, which no commit makes smaller any more.
                self.checkpointer.wake();
            }
            error
        })
    }
}

impl Store for SqliteStore {
    /// The lock on the directory keeps other processes out; a new term fences what an earlier one
    /// may still have under way.
    fn take(&mut self) -> Result<Progress, StoreError> {
        self.run(progress::take)
    }

    fn progress(&mut self) -> Result<Progress, StoreError> {
        self.run(|connection| progress::read(connection))
    }

    fn load(&mut self, job: &mut dyn FnMut(LiveJobRow)) -> Result<Live, StoreError> {
        self.run(|connection| load::load(connection, job))
    }

    fn records(&mut self) -> Result<Vec<Record>, StoreError> {
        self.run(|connection| records::load(connection))
    }

    fn audit_chains(&mut self) -> Result<Chains, StoreError> {
        self.run(|connection| audit::chains(connection))
    }

    fn commit(&mut self, commit: &Commit<'_>) -> Result<Outcome, StoreError> {
        let mut ended = std::mem::take(&mut self.ended);
        let outcome = self.run(|connection| commit::commit(connection, &mut ended, commit))?;
        self.ended = ended;
        Ok(outcome)
    }

    /// One statement for all keys and one for all IDs, in one transaction.
    fn lookup(
        &mut self,
        keys: &[RequestKey],
        oldest: Moment,
        jobs: &[JobId],
    ) -> Result<LookupResults, StoreError> {
        self.run(|connection| {
            let transaction =
                connection.transaction_with_behavior(TransactionBehavior::Deferred)?;
            let keys = keys::find(&transaction, keys, oldest)?;
            let jobs = jobs::known(&transaction, jobs)?;
            Ok(LookupResults { keys, jobs, ..LookupResults::default() })
        })
    }

    fn named(&mut self, jobs: &BTreeMap<JobId, Indexes>) -> Result<Vec<NamedJob>, StoreError> {
        self.run(|connection| dependencies::find(connection, jobs))
    }

    /// The lock is released with the store.
    fn resign(&mut self) -> Result<(), StoreError> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
