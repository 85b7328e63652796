//! What a list shows of each job: its own row and its labels, without its specification.
//!
//! Everything is in the row or next to it, so a page costs three lookups per job, however many
//! executions it has.

use api_types::JobId;
use api_types::job::JobStateType;
use rusqlite::{Connection, Row};

use super::row::jobs::{SPEC_BYTES, read_summary};
use super::row::{self, Id, bad_record, counter, from_json, job_state, job_state_code};
use super::select::Sqlite;
use crate::store::page::PageBuilder;
use crate::store::select::{COUNTED, Selection};
use crate::store::{JobQuery, JobTotals, Page, StoreError, StoredSummary};

/// The name of a job, null if it is the ID.
pub(super) const NAME: &str = "coalesce(j.name, j.stem || '-' || substr(lower(hex(j.id)), 1, 4))";

/// The columns for [`read_summary`], after the ID and the name.
const COLUMNS: &str = "j.namespace, j.type,
    j.priority, j.state, j.message, j.version, j.revision, j.create_time, j.modify_time, j.start_time, j.slots, j.running,
    j.completed, j.failed, j.failed_slots,
    (SELECT json_group_object(t.key, t.value) FROM label AS t WHERE t.id = j.id)";

/// A page: first the numbers of its jobs, then their rows.
pub(super) fn summaries(
    connection: &Connection,
    query: &JobQuery,
) -> Result<Page<StoredSummary>, StoreError> {
    let numbers = Selection::new(query, COUNTED).numbers(&mut Sqlite(connection))?;
    let mut page = PageBuilder::new(query.limit);
    let mut statement = connection.prepare_cached(&sql("j.number = ?1"))?;
    for number in numbers {
        // Labels and messages are bounded for each job, but not small.
        if !page.has_room() {
            break;
        }
        if let Some((job, bytes)) = row::one(&mut statement, [number], read)? {
            page.add(job, bytes);
        }
    }
    Ok(page.finish())
}

/// These jobs, without those that are gone.
pub(super) fn by_number(
    connection: &Connection,
    numbers: &[i64],
) -> Result<Vec<StoredSummary>, StoreError> {
    let mut statement = connection.prepare_cached(&sql("j.number = ?1"))?;
    let read = |number: &i64| row::one(&mut statement, [*number], read).transpose();
    let found: Result<Vec<_>, _> = numbers.iter().filter_map(read).collect();
    Ok(found?.into_iter().map(|(summary, _)| summary).collect())
}

pub(super) fn summary(
    connection: &Connection,
    id: JobId,
) -> Result<Option<StoredSummary>, StoreError> {
    let mut statement = connection.prepare_cached(&sql("j.id = ?1"))?;
    Ok(row::one(&mut statement, [id.bytes()], read)?.map(|(summary, _)| summary))
}

/// Scans the entries of ended jobs in the index of states: a tenth of a second for a million.
pub(super) fn totals(connection: &Connection) -> Result<JobTotals, StoreError> {
    let [completed, failed, stopped, queued] = [
        JobStateType::Completed,
        JobStateType::Failed,
        JobStateType::Stopped,
        JobStateType::Queued,
    ]
    .map(job_state_code);
    let mut statement = connection.prepare_cached(
        "SELECT state, count(*) FROM job INDEXED BY job_state WHERE state IN (?1, ?2, ?3)
         GROUP BY state",
    )?;
    let ended = row::all(&mut statement, [completed, failed, stopped], |row| {
        Ok((job_state(row.get(0)?)?, counter(row, 1)?))
    })?;
    let mut statement = connection.prepare_cached(
        "SELECT create_time FROM job INDEXED BY job_state
         WHERE state = ?1 AND waiting_since IS NOT NULL ORDER BY create_time LIMIT 1",
    )?;
    // Those that wait at a gate are queued as well.
    let oldest_queued = row::one(&mut statement, [queued], |row| row::time(row, 0))?;
    Ok(JobTotals { ended, oldest_queued })
}

fn sql(condition: &str) -> String {
    let queued = job_state_code(JobStateType::Queued);
    format!(
        "SELECT j.id, {NAME}, {COLUMNS},
            (SELECT s.json FROM job_spec AS s
             WHERE s.job = j.number AND s.version = j.version AND j.state = {queued}
                AND j.waiting_since IS NOT NULL
                AND octet_length(s.json) <= {SPEC_BYTES})
         FROM job AS j WHERE {condition}"
    )
}

fn read(row: &Row<'_>) -> Result<(StoredSummary, usize), StoreError> {
    read_summary(row, |labels| from_json(str::from_utf8(labels).map_err(bad_record)?))
}
