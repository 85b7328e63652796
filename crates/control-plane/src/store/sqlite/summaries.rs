//! What a list shows of each job: its own row and its labels, without its specification.
//!
//! Everything is in the row or next to it, so a page costs three lookups per job, however many
//! executions it has.

use api_types::JobId;
use api_types::job::JobStateType;
use rusqlite::{Connection, Row};

use super::jobs::PAGE_BYTES;
use super::name;
use super::row::{self, Id, bad_record, counter, job_state, job_state_code, job_type};
use super::select::{COUNTED, Selection};
use crate::store::{JobQuery, JobTotals, Page, StoreError, StoredSummary};

/// The largest specification that is read to explain why its job waits; a page has up to a thousand.
const SPEC_BYTES: usize = 64 << 10;

/// The name of a job, null if it is the ID.
pub(super) const NAME: &str = "coalesce(j.name, j.stem || '-' || substr(lower(hex(j.id)), 1, 4))";

/// The columns for [`read`], after the ID and the name.
const COLUMNS: &str = "j.namespace, j.type,
    j.priority, j.state, j.message, j.version, j.revision, j.create_time, j.modify_time, j.start_time, j.slots, j.running,
    j.completed, j.failed, j.failed_slots,
    (SELECT json_group_object(t.key, t.value) FROM label AS t WHERE t.id = j.id)";

/// A page: first the numbers of its jobs, then their rows.
pub(super) fn summaries(
    connection: &Connection,
    query: &JobQuery,
) -> Result<Page<StoredSummary>, StoreError> {
    let mut numbers = Selection::new(query, COUNTED).numbers(connection)?;
    let mut more = numbers.len() > query.limit as usize;
    numbers.truncate(query.limit as usize);
    let mut statement = connection.prepare_cached(&sql("j.number = ?1"))?;
    let mut items = Vec::with_capacity(numbers.len());
    let mut bytes = 0;
    for number in numbers {
        // Labels and messages are bounded for each job, but not small.
        if bytes > PAGE_BYTES {
            more = true;
            break;
        }
        if let Some((job, size)) = row::one(&mut statement, [number], read)? {
            bytes += size;
            items.push(job);
        }
    }
    Ok(Page { items, more })
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
    let oldest_queued = row::one(&mut statement, [queued], |row| Ok(row::time(row, 0)?))?;
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

/// The job, and about how many bytes it takes.
fn read(row: &Row<'_>) -> Result<(StoredSummary, usize), StoreError> {
    let id = JobId::get(row, 0)?;
    let labels: String = row.get(17)?;
    let message: String = row.get(6)?;
    let size = labels.len() + message.len();
    let summary = StoredSummary {
        id,
        name: name::get(row, 1, id)?,
        namespace: row.get(2)?,
        job_type: job_type(row.get(3)?)?,
        priority: row.get(4)?,
        labels: serde_json::from_str(&labels).map_err(bad_record)?,
        state: job_state(row.get(5)?)?,
        message,
        version: counter(row, 7)?,
        revision: counter(row, 8)?,
        create_time: row::time(row, 9)?,
        modify_time: row::time(row, 10)?,
        start_time: row::time_option(row, 11)?,
        slots: row.get(12)?,
        running: row.get(13)?,
        completed: row.get(14)?,
        failed: row.get(15)?,
        failed_slots: row.get(16)?,
        // Whatever a damaged row holds, its job is listed.
        queued_spec: row.get_ref(18)?.as_str_or_null().ok().flatten().map(str::to_owned),
    };
    Ok((summary, size))
}
