//! Jobs: writing and reading their rows.

use std::collections::HashSet;

use api_types::JobId;
use rusqlite::{CachedStatement, Connection, OptionalExtension, Transaction, params};
use scheduler::change::{JobRow, NewJobRow};

use super::indexes::indexes;
use super::row::jobs::read_job;
use super::row::name::NameColumns;
use super::row::{self, Id, job_state_code, job_type_code, moment_value};
use super::select::Sqlite;
use super::specs::{JOIN_NEWEST, SpecRows};
use crate::store::page::PageBuilder;
use crate::store::select::{COUNTED, Selection};
use crate::store::{JobQuery, Page, StoreError, StoredJob};

/// The columns for [`read_job`].
const COLUMNS: &str = "j.id, s.json, j.state, j.message, j.version, j.revision, j.create_time,
    j.modify_time, coalesce(j.name, j.stem || '-' || substr(lower(hex(j.id)), 1, 4)), j.namespace,
    j.type, j.priority, j.failed_slots, j.waiting_since IS NOT NULL FROM job AS j";

/// A number above those of all jobs, including removed ones that still have rows.
pub(super) fn next_number(connection: &Connection) -> Result<i64, StoreError> {
    Ok(connection
        .prepare_cached(
            "SELECT 1 + max(coalesce((SELECT max(number) FROM job), 0),
                coalesce((SELECT max(job) FROM removal), 0))",
        )?
        .query_row([], |row| row.get(0))?)
}

/// What keeps a job from retention.
pub(super) struct Kept {
    pub(super) is_live: bool,
    /// A live job depends on it.
    pub(super) is_named: bool,
}

/// Prepared statements that write jobs row by row.
pub(super) struct JobRows<'c> {
    insert: CachedStatement<'c>,
    specs: SpecRows<'c>,
    insert_label: CachedStatement<'c>,
    select_live: CachedStatement<'c>,
    update: CachedStatement<'c>,
}

// === impl JobRows ===

impl<'c> JobRows<'c> {
    pub(super) fn prepare(transaction: &'c Transaction<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            insert: transaction.prepare_cached(
                "INSERT INTO job (number, id, create_time, type, namespace, name, state, live,
                    version, revision, modify_time, start_time, slots, fresh, completed,
                    evaluation, message, last_event_time, waiting_since, ended_at, created_at,
                    running, failed, priority, indexes, stem, failed_slots)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16,
                    ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24, ?25, ?26, ?27)",
            )?,
            specs: SpecRows::prepare(transaction)?,
            insert_label: transaction.prepare_cached(
                "INSERT INTO label (id, key, create_time, job, value, integer)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            )?,
            select_live: transaction
                .prepare_cached("SELECT live, named > 0 FROM job WHERE number = ?1")?,
            update: transaction.prepare_cached(
                "UPDATE job SET state = ?2, live = ?3, version = ?4, revision = ?5,
                    modify_time = ?6, start_time = ?7, slots = ?8, fresh = ?9, completed = ?10,
                    evaluation = ?11, message = ?12, last_event_time = ?13, waiting_since = ?14,
                    ended_at = ?15, running = ?16, failed = ?17, indexes = ?18,
                    failed_slots = ?19
                 WHERE number = ?1",
            )?,
        })
    }

    /// Writes a new job.
    pub(super) fn insert(
        &mut self,
        number: i64,
        job: &NewJobRow,
        row: &JobRow,
    ) -> rusqlite::Result<()> {
        let name = NameColumns::new(&job.name, job.id);
        self.insert.execute(params![
            number,
            job.id.bytes(),
            job.create_time.0,
            job_type_code(job.job_type),
            job.namespace,
            name.name,
            job_state_code(row.state),
            row.live,
            row.version.cast_signed(),
            row.revision.cast_signed(),
            row.modify_time.0,
            row.start_time.map(|time| time.0),
            row.slots.len(),
            row.fresh,
            row.completed,
            row.evaluation.bytes(),
            &*row.message,
            row.last_event_time.0,
            row.waiting_since.map(moment_value),
            row.ended_at.map(moment_value),
            moment_value(job.created_at),
            row.running,
            row.failed,
            job.priority,
            indexes(&row.slots),
            name.stem,
            row.failed_slots,
        ])?;
        self.specs.insert(number, row.version, job)?;
        for (key, value) in &job.labels {
            self.insert_label.execute(params![
                job.id.bytes(),
                key,
                job.create_time.0,
                number,
                value,
                // The values that `gt` and `lt` of a selector read as integers.
                value.parse::<i64>().ok(),
            ])?;
        }
        Ok(())
    }

    /// Returns what kept the job from retention until now.
    pub(super) fn update(&mut self, number: i64, row: &JobRow) -> rusqlite::Result<Kept> {
        let before = self
            .select_live
            .query_row([number], |row| Ok(Kept { is_live: row.get(0)?, is_named: row.get(1)? }))?;
        self.update.execute(params![
            number,
            job_state_code(row.state),
            row.live,
            row.version.cast_signed(),
            row.revision.cast_signed(),
            row.modify_time.0,
            row.start_time.map(|time| time.0),
            row.slots.len(),
            row.fresh,
            row.completed,
            row.evaluation.bytes(),
            &*row.message,
            row.last_event_time.0,
            row.waiting_since.map(moment_value),
            row.ended_at.map(moment_value),
            row.running,
            row.failed,
            indexes(&row.slots),
            row.failed_slots,
        ])?;
        Ok(before)
    }
}

pub(super) fn number(connection: &Connection, id: JobId) -> Result<Option<i64>, StoreError> {
    Ok(connection
        .prepare_cached("SELECT number FROM job WHERE id = ?1")?
        .query_row([id.bytes()], |row| row.get(0))
        .optional()?)
}

/// Those of the IDs that jobs have.
pub(super) fn known(connection: &Connection, ids: &[JobId]) -> Result<HashSet<JobId>, StoreError> {
    let mut statement = connection.prepare_cached("SELECT 1 FROM job WHERE id = ?1")?;
    let mut known = HashSet::new();
    for id in ids {
        if statement.exists([id.bytes()])? {
            known.insert(*id);
        }
    }
    Ok(known)
}

pub(super) fn job(connection: &Connection, id: JobId) -> Result<Option<StoredJob>, StoreError> {
    let mut statement = connection.prepare_cached(&sql("j.id = ?1"))?;
    row::one(&mut statement, [id.bytes()], read_job)
}

/// A page: first the numbers of its jobs, then the jobs.
pub(super) fn jobs(
    connection: &Connection,
    query: &JobQuery,
) -> Result<Page<StoredJob>, StoreError> {
    let numbers = Selection::new(query, COUNTED).numbers(&mut Sqlite(connection))?;
    let mut page = PageBuilder::new(query.limit);
    let mut statement = connection.prepare_cached(&sql("j.number = ?1"))?;
    for number in numbers {
        if !page.has_room() {
            break;
        }
        if let Some(job) = row::one(&mut statement, [number], read_job)? {
            let bytes = job.spec_json.len();
            page.add(job, bytes);
        }
    }
    Ok(page.finish())
}

fn sql(condition: &str) -> String {
    format!("SELECT {COLUMNS} {JOIN_NEWEST} WHERE {condition}")
}
