//! Which jobs depend on which, and that retention keeps what live jobs depend on.
//!
//! `job.named` counts the live jobs that name a job. Of the jobs that are over, retention sees, and
//! counts, those without any.

use std::collections::BTreeMap;
use std::sync::Arc;

use api_types::JobId;
use api_types::dependency::Indexes;
use rusqlite::{Connection, Transaction, params};
use scheduler::change::{Changes, NamedJob};
use scheduler::outcomes::Past;

use super::numbers::JobNumbers;
use super::row::{self, Id, job_state};
use super::{indexes, outcomes};
use crate::store::StoreError;
use crate::store::ended::EndedJobs;

/// An older release would remove jobs on which others depend, and run these too early.
pub(super) const STEP: &str = "
CREATE TABLE dependency (
    job INTEGER NOT NULL,
    named INTEGER NOT NULL,
    condition TEXT NOT NULL,
    PRIMARY KEY (job, named)
) WITHOUT ROWID;
CREATE INDEX dependency_named ON dependency (named, job);
ALTER TABLE job ADD COLUMN named INTEGER NOT NULL DEFAULT 0;
CREATE INDEX job_named ON job (number) WHERE named > 0;
DROP INDEX job_ended;
CREATE INDEX job_ended ON job (ended_at) WHERE live = 0 AND named = 0;
DROP INDEX job_ended_namespace;
CREATE INDEX job_ended_namespace ON job (namespace, ended_at) WHERE live = 0 AND named = 0;

CREATE TABLE graph (
    number INTEGER PRIMARY KEY,
    id BLOB NOT NULL,
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    create_time INTEGER NOT NULL
);
CREATE UNIQUE INDEX graph_id ON graph (id);
CREATE INDEX graph_namespace ON graph (namespace, number);
CREATE TABLE graph_job (
    graph INTEGER NOT NULL,
    name TEXT NOT NULL,
    job INTEGER NOT NULL,
    PRIMARY KEY (graph, name)
) WITHOUT ROWID;
CREATE INDEX graph_job_job ON graph_job (job);
";

/// An older release would let such a job wait for the whole of the other.
pub(super) const STEP_SAME: &str = "
ALTER TABLE dependency ADD COLUMN same INTEGER NOT NULL DEFAULT 0;
ALTER TABLE job ADD COLUMN began_at INTEGER;
";

/// What [`read`] reads.
const COLUMNS: &str = "number, id, state, ended_at, slots, indexes, completed, failed_slots";

/// Writes the dependencies of new jobs, and releases what those name that are no longer live.
/// Returns how many more jobs retention may remove.
pub(super) fn write(
    transaction: &Transaction<'_>,
    numbers: &mut JobNumbers,
    changes: &Changes,
    ended: &mut EndedJobs,
) -> Result<i64, StoreError> {
    let mut more_ended = 0;
    let mut insert = transaction.prepare_cached(
        "INSERT INTO dependency (job, named, condition, same) VALUES (?1, ?2, ?3, ?4)",
    )?;
    for job in &changes.new_jobs {
        for dependency in &job.depends_on {
            let number = numbers.get(transaction, job.id)?;
            let named = numbers.get(transaction, dependency.job_id)?;
            let is_same = dependency.indexes == Indexes::Same;
            insert.execute(params![number, named, dependency.condition.as_str(), is_same])?;
            more_ended += count(transaction, named, 1, ended)?;
        }
    }
    let mut begin = transaction.prepare_cached("UPDATE job SET began_at = ?2 WHERE number = ?1")?;
    for (job, at) in &changes.begun {
        begin.execute(params![numbers.get(transaction, *job)?, row::moment_value(*at)])?;
    }
    let mut select =
        transaction.prepare_cached("SELECT named FROM dependency WHERE job = ?1 ORDER BY named")?;
    for job in &changes.released {
        let number = numbers.get(transaction, *job)?;
        let named: Vec<i64> = row::all(&mut select, [number], |row| Ok(row.get(0)?))?;
        for named in named {
            more_ended += count(transaction, named, -1, ended)?;
        }
    }
    Ok(more_ended)
}

/// One live job more or less names this one. Returns how many more jobs retention may remove.
fn count(
    transaction: &Transaction<'_>,
    named: i64,
    more: i64,
    ended: &mut EndedJobs,
) -> Result<i64, StoreError> {
    let mut select =
        transaction.prepare_cached("SELECT live, named, namespace FROM job WHERE number = ?1")?;
    let found = row::one(&mut select, [named], |row| {
        Ok((row.get::<_, bool>(0)?, row.get::<_, i64>(1)?, row.get::<_, String>(2)?))
    })?;
    let Some((is_live, before, namespace)) = found else { return Ok(0) };
    let after = (before + more).max(0);
    transaction
        .prepare_cached("UPDATE job SET named = ?2 WHERE number = ?1")?
        .execute([named, after])?;
    let freed = match (is_live, before, after) {
        (false, 0, 1..) => -1,
        (false, 1.., 0) => 1,
        _ => 0,
    };
    ended.add(&namespace, freed);
    Ok(freed)
}

/// The jobs that are over and that live ones depend on.
pub(super) fn load(connection: &Connection) -> Result<Vec<NamedJob>, StoreError> {
    let mut statement = connection.prepare(&format!(
        "SELECT {COLUMNS}, EXISTS (
            SELECT 1 FROM dependency AS d INDEXED BY dependency_named
                CROSS JOIN job AS j ON j.number = d.job
            WHERE d.named = job.number AND d.same = 1 AND j.live = 1)
         FROM job INDEXED BY job_named
         WHERE named > 0 AND live = 0 ORDER BY number"
    ))?;
    row::all(&mut statement, [], |row| read(connection, row, row.get(8)?))
}

/// Those of these jobs that are stored, some with what became of their slots.
pub(super) fn find(
    connection: &Connection,
    ids: &BTreeMap<JobId, Indexes>,
) -> Result<Vec<NamedJob>, StoreError> {
    let mut statement =
        connection.prepare_cached(&format!("SELECT {COLUMNS} FROM job WHERE id = ?1"))?;
    let mut found = Vec::new();
    for (id, indexes) in ids {
        let with_slots = *indexes == Indexes::Same;
        found.extend(row::one(&mut statement, [id.bytes()], |row| {
            read(connection, row, with_slots)
        })?);
    }
    Ok(found)
}

fn read(
    connection: &Connection,
    row: &rusqlite::Row<'_>,
    with_slots: bool,
) -> Result<NamedJob, StoreError> {
    let mut past = None;
    if with_slots {
        let number = row.get(0)?;
        let slots = indexes::slots(connection, number, row.get(4)?, row.get(5)?)?;
        let ended = (row.get(6)?, row.get(7)?);
        let outcomes = outcomes::of_slots(connection, number, &slots, ended)?;
        past = Some(Arc::new(Past { slots, outcomes }));
    }
    let (id, state) = (Id::get(row, 1)?, job_state(row.get(2)?)?);
    Ok(NamedJob { id, state, ended_at: row::moment_option(row, 3)?, past })
}

/// Up to `limit` jobs that depend on this one, live or not, in the order of their submission.
pub(super) fn dependants(
    connection: &Connection,
    job: JobId,
    limit: u32,
) -> Result<Vec<JobId>, StoreError> {
    let mut select = connection.prepare_cached(
        "SELECT j.id FROM dependency AS d INDEXED BY dependency_named
            CROSS JOIN job AS j ON j.number = d.job
         WHERE d.named = (SELECT number FROM job WHERE id = ?1) ORDER BY d.job LIMIT ?2",
    )?;
    row::all(&mut select, params![job.bytes(), limit], |row| JobId::get(row, 0))
}

/// Removes up to `limit` dependencies of a job and on it; returns how many. It is no longer live, so
/// nothing is kept for it, and no live job depends on it. Its number may belong to another job one day.
pub(super) fn remove(
    transaction: &Transaction<'_>,
    job: i64,
    limit: u32,
) -> Result<u32, StoreError> {
    let mut found: Vec<(i64, i64)> = Vec::new();
    for sql in [
        "SELECT job, named FROM dependency WHERE job = ?1 LIMIT ?2",
        "SELECT job, named FROM dependency INDEXED BY dependency_named WHERE named = ?1 LIMIT ?2",
    ] {
        let mut select = transaction.prepare_cached(sql)?;
        found.extend(row::all(&mut select, params![job, limit], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })?);
    }
    let mut delete =
        transaction.prepare_cached("DELETE FROM dependency WHERE job = ?1 AND named = ?2")?;
    for (job, named) in &found {
        delete.execute([job, named])?;
    }
    Ok(u32::try_from(found.len()).unwrap_or(u32::MAX))
}
