//! Specifications, by job and version, the newest with its plan: what a start needs of it.
//!
//! The newest is keyed by its job alone, and former versions have a table of their own: a key of job
//! and version would be a second B-tree, with an entry for every new job.
//!
//! The plan precedes the specification in the row, so that a large specification, which fills pages
//! of its own format, is not read for it. Only live jobs need a plan; one of an earlier format gets
//! it when the file is upgraded.

use std::sync::Arc;

use api_types::JobId;
use rusqlite::{CachedStatement, Connection, Row, Transaction, params};
use scheduler::change::{LoadedPlan, NewJobRow};
use scheduler::plan::JobPlan;

use super::row::{self, Id, live, text};
use crate::store::StoreError;

/// Before it there was one specification for each job. The version that executions were offered
/// with was the first, as every version was.
pub(super) const STEP: &str = "
ALTER TABLE job_spec RENAME TO job_spec_12;
CREATE TABLE job_spec (
    job INTEGER NOT NULL,
    version INTEGER NOT NULL DEFAULT 1,
    plan TEXT,
    json TEXT NOT NULL,
    PRIMARY KEY (job, version)
);
INSERT INTO job_spec (job, version, json)
SELECT s.job, coalesce((SELECT j.version FROM job AS j WHERE j.number = s.job), 1), s.json
FROM job_spec_12 AS s ORDER BY s.job;
DROP TABLE job_spec_12;
ALTER TABLE execution ADD COLUMN version INTEGER NOT NULL DEFAULT 1;
-- The indexes of the slots; null where they are those below the number in `slots`.
ALTER TABLE job ADD COLUMN indexes TEXT;
";

/// The newest version goes where its job alone leads to it.
pub(super) const STEP_NEWEST: &str = "
ALTER TABLE job_spec RENAME TO job_spec_14;
CREATE TABLE job_spec (
    job INTEGER PRIMARY KEY,
    version INTEGER NOT NULL DEFAULT 1,
    plan TEXT,
    json TEXT NOT NULL
);
CREATE TABLE former_spec (
    job INTEGER NOT NULL,
    version INTEGER NOT NULL,
    json TEXT NOT NULL,
    PRIMARY KEY (job, version)
);
INSERT INTO job_spec (job, version, plan, json)
SELECT job, version, plan, json FROM job_spec_14 AS s
WHERE version = (SELECT max(version) FROM job_spec_14 AS o WHERE o.job = s.job) ORDER BY job;
INSERT INTO former_spec (job, version, json)
SELECT job, version, json FROM job_spec_14 AS s
WHERE version < (SELECT max(version) FROM job_spec_14 AS o WHERE o.job = s.job);
DROP TABLE job_spec_14;
";

/// Joins the newest specification of the job `j`, as `s`. A row may be missing from a damaged file.
pub(super) const JOIN_NEWEST: &str =
    "LEFT JOIN job_spec AS s ON s.job = j.number AND s.version = j.version";

/// Writes specifications.
pub(super) struct SpecRows<'c>(CachedStatement<'c>);

// === impl SpecRows ===

impl<'c> SpecRows<'c> {
    pub(super) fn prepare(transaction: &'c Transaction<'_>) -> rusqlite::Result<Self> {
        Ok(Self(transaction.prepare_cached(
            "INSERT INTO job_spec (job, version, plan, json) VALUES (?1, ?2, ?3, ?4)",
        )?))
    }

    pub(super) fn insert(
        &mut self,
        number: i64,
        version: u64,
        job: &NewJobRow,
    ) -> rusqlite::Result<()> {
        self.0.execute(params![number, version.cast_signed(), job.plan, job.spec_json])?;
        Ok(())
    }
}

/// The specification of this version of the job.
pub(super) fn specification(
    connection: &Connection,
    job: JobId,
    version: u64,
) -> Result<Option<Arc<str>>, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT s.json FROM job AS j CROSS JOIN job_spec AS s ON s.job = j.number
         WHERE j.id = ?1 AND s.version = ?2
         UNION ALL
         SELECT f.json FROM job AS j CROSS JOIN former_spec AS f ON f.job = j.number
         WHERE j.id = ?1 AND f.version = ?2",
    )?;
    let parameters = params![job.bytes(), version.cast_signed()];
    row::one(&mut statement, parameters, |row| text(row, 0))
}

/// The plan in this column; without one that can be read, the specification of the job.
pub(super) fn plan(
    connection: &Connection,
    row: &Row<'_>,
    column: usize,
    (number, version): (i64, u64),
) -> Result<LoadedPlan, StoreError> {
    if let Some(plan) = live::plan(row, column, number)? {
        return Ok(LoadedPlan::Stored(plan));
    }
    let mut statement =
        connection.prepare_cached("SELECT json FROM job_spec WHERE job = ?1 AND version = ?2")?;
    let parameters = params![number, version.cast_signed()];
    let spec = row::one(&mut statement, parameters, |row| text(row, 0))?;
    Ok(LoadedPlan::Unreadable { spec: spec.unwrap_or_default() })
}

/// Gives each live job its plan. A specification that cannot be read stays without one: its job
/// fails at the start.
pub(super) fn fill_plans(transaction: &Transaction<'_>) -> rusqlite::Result<()> {
    let mut select = transaction.prepare(
        "SELECT s.job, s.version, s.json FROM job AS j INDEXED BY job_live
            CROSS JOIN job_spec AS s ON s.job = j.number AND s.version = j.version
         WHERE j.live = 1 AND j.number > ?1 ORDER BY j.number LIMIT 1",
    )?;
    let mut update =
        transaction.prepare("UPDATE job_spec SET plan = ?3 WHERE job = ?1 AND version = ?2")?;
    let mut last = 0;
    // One at a time: a statement that reads does not also see what another one writes at the same
    // time.
    loop {
        let mut rows = select.query([last])?;
        let Some(row) = rows.next()? else { return Ok(()) };
        let (job, version): (i64, i64) = (row.get(0)?, row.get(1)?);
        let plan = JobPlan::of_json(&String::from_utf8_lossy(row.get_ref(2)?.as_bytes()?));
        drop(rows);
        if let Ok(plan) = plan {
            update.execute(params![job, version, plan.to_text()])?;
        }
        last = job;
    }
}
