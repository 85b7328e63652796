//! Names of jobs in their columns: as given, or the stem of a name that the service made.
//!
//! Such a name is a stem and the beginning of the job's ID. The index of names has no entry for it,
//! which would be in random order; that of stems has one, and stems are few, and the entries of each
//! in order of creation. Both columns are null when the name is the job's ID, as it was by default
//! in releases before stems.

use std::collections::BTreeSet;

use api_types::{ExecutionId, JobId};
use rusqlite::{Connection, OptionalExtension};

use super::row::{self, Id, name};
use crate::store::{StoreError, StoredNames};

/// Names that the service made; see the top of `schema.rs`.
pub(super) const STEP: &str = "
ALTER TABLE job ADD COLUMN stem TEXT;
CREATE INDEX job_stem ON job (stem, create_time, id) WHERE stem IS NOT NULL;
";

/// Names of jobs, and indexes of executions, as far as they are stored.
pub(super) fn names(
    connection: &Connection,
    jobs: &BTreeSet<JobId>,
    executions: &BTreeSet<ExecutionId>,
) -> Result<StoredNames, StoreError> {
    let mut names = StoredNames::default();
    let mut of_job = connection.prepare_cached(
        "SELECT coalesce(name, stem || '-' || substr(lower(hex(id)), 1, 4)) FROM job WHERE id = ?1",
    )?;
    for id in jobs {
        let name = row::one(&mut of_job, [id.bytes()], |row| name::get(row, 0, *id))?;
        names.jobs.extend(name.map(|name| (*id, name)));
    }
    let mut of_execution = connection.prepare_cached("SELECT slot FROM execution WHERE id = ?1")?;
    for id in executions {
        let index = of_execution.query_row([id.bytes()], |row| row.get(0)).optional()?;
        names.indexes.extend(index.map(|index| (*id, index)));
    }
    Ok(names)
}
