//! Jobs, whole and as a list shows them.

use std::collections::BTreeMap;
use std::sync::Arc;

use api_types::JobId;
use api_types::job::JobStateType;
use tokio_postgres::Row;

use super::reader::{Params, Reader};
use super::row::jobs::{SPEC_BYTES, read_job, read_summary};
use super::row::{Columns, Id, bad_record, counter, job_state, job_state_code, text, time};
use crate::store::page::PageBuilder;
use crate::store::select::{COUNTED, Selection};
use crate::store::{JobQuery, JobTotals, Page, StoreError, StoredJob, StoredSummary};

/// The name of a job, null if it is the ID.
pub(super) const NAME: &str = "coalesce(j.name, j.stem || '\\x2d'::bytea ||
    convert_to(left(encode(j.id, 'hex'), 4), 'UTF8'))";

const NEWEST: &str = "LEFT JOIN job_spec AS s ON s.job = j.number AND s.version = r.version";

/// Jobs by their numbers, in the order in which these are given.
pub(super) const BY_NUMBER: &str = "unnest($1::bigint[]) WITH ORDINALITY AS w (number, place)
    JOIN job AS j ON j.number = w.number JOIN job_run AS r ON r.number = w.number";

pub(super) fn number(reader: &mut Reader, id: JobId) -> Result<Option<i64>, StoreError> {
    let sql = "SELECT number FROM job WHERE id = $1";
    reader.one(sql, &[&id.bytes().as_slice()], |row| row.value(0))
}

pub(super) fn job(reader: &mut Reader, id: JobId) -> Result<Option<StoredJob>, StoreError> {
    let from = "job AS j JOIN job_run AS r ON r.number = j.number";
    let sql = format!("{} WHERE j.id = $1", select_job(from));
    reader.one(&sql, &[&id.bytes().as_slice()], read_job)
}

/// A page: first the numbers of its jobs and the lengths of their specifications, then the jobs.
pub(super) fn jobs(reader: &mut Reader, query: &JobQuery) -> Result<Page<StoredJob>, StoreError> {
    let numbers = Selection::new(query, COUNTED).numbers(reader)?;
    let sql = format!(
        "SELECT w.number, coalesce(octet_length(s.json), 0)::bigint
         FROM {BY_NUMBER} {NEWEST} ORDER BY w.place"
    );
    let numbers = fitting(reader, &sql, &[&numbers], query.limit)?;
    let sql = format!("{} ORDER BY w.place", select_job(BY_NUMBER));
    let items = reader.all(&sql, &[&numbers.items], read_job)?;
    Ok(Page { items, more: numbers.more })
}

/// The numbers of the rows that fit on one page; `sql` returns each with the bytes of its texts.
pub(super) fn fitting(
    reader: &mut Reader,
    sql: &str,
    params: Params<'_>,
    limit: u32,
) -> Result<Page<i64>, StoreError> {
    let mut page = PageBuilder::new(limit);
    reader.each(sql, params, |row| {
        let has_room = page.has_room();
        if has_room {
            let bytes: i64 = row.value(1)?;
            page.add(row.value(0)?, usize::try_from(bytes).unwrap_or_default());
        }
        Ok(has_room)
    })?;
    Ok(page.finish())
}

fn select_job(from: &str) -> String {
    format!(
        "SELECT j.id, s.json, r.state, r.message, r.version, r.revision, j.create_time,
            r.modify_time, {NAME}, j.namespace, j.type, j.priority, r.failed_slots,
            r.waiting_since IS NOT NULL
         FROM {from} {NEWEST}"
    )
}

/// A page: first the numbers of its jobs, then their rows.
pub(super) fn summaries(
    reader: &mut Reader,
    query: &JobQuery,
) -> Result<Page<StoredSummary>, StoreError> {
    let numbers = Selection::new(query, COUNTED).numbers(reader)?;
    let mut page = PageBuilder::new(query.limit);
    let sql = format!("{} ORDER BY w.place", select_summary(BY_NUMBER));
    reader.each(&sql, &[&numbers], |row| {
        // Labels and messages are bounded for each job, but not small.
        let has_room = page.has_room();
        if has_room {
            let (job, bytes) = summary_of(row)?;
            page.add(job, bytes);
        }
        Ok(has_room)
    })?;
    Ok(page.finish())
}

/// These jobs, without those that are gone.
pub(super) fn summaries_by_number(
    reader: &mut Reader,
    numbers: &[i64],
) -> Result<Vec<StoredSummary>, StoreError> {
    let sql = format!("{} ORDER BY w.place", select_summary(BY_NUMBER));
    reader.all(&sql, &[&numbers], |row| Ok(summary_of(row)?.0))
}

pub(super) fn summary(reader: &mut Reader, id: JobId) -> Result<Option<StoredSummary>, StoreError> {
    let from = "job AS j JOIN job_run AS r ON r.number = j.number";
    let sql = format!("{} WHERE j.id = $1", select_summary(from));
    reader.one(&sql, &[&id.bytes().as_slice()], |row| Ok(summary_of(row)?.0))
}

fn select_summary(from: &str) -> String {
    let queued = job_state_code(JobStateType::Queued);
    format!(
        "SELECT j.id, {NAME}, j.namespace, j.type, j.priority, r.state, r.message, r.version,
            r.revision, j.create_time, r.modify_time, r.start_time, r.slots, r.running,
            r.completed, r.failed, r.failed_slots,
            (SELECT coalesce(string_agg(int8send(octet_length(t.key)) || t.key ||
                int8send(octet_length(t.value)) || t.value, ''::bytea), ''::bytea)
             FROM label AS t WHERE t.id = j.id),
            (SELECT s.json FROM job_spec AS s
             WHERE s.job = j.number AND s.version = r.version AND r.state = {queued}
                AND r.waiting_since IS NOT NULL AND octet_length(s.json) <= {SPEC_BYTES})
         FROM {from}"
    )
}

fn summary_of(row: &Row) -> Result<(StoredSummary, usize), StoreError> {
    read_summary(row, |labels| {
        read_labels(labels).ok_or_else(|| bad_record(format!("{} bytes of labels", labels.len())))
    })
}

/// Keys and values, each after its length.
fn read_labels(mut bytes: &[u8]) -> Option<BTreeMap<String, String>> {
    let mut labels = BTreeMap::new();
    while !bytes.is_empty() {
        let (key, value);
        (key, bytes) = next_text(bytes)?;
        (value, bytes) = next_text(bytes)?;
        labels.insert(key, value);
    }
    Some(labels)
}

/// The first text, and what follows it.
fn next_text(bytes: &[u8]) -> Option<(String, &[u8])> {
    let (length, rest) = bytes.split_first_chunk()?;
    let length = usize::try_from(i64::from_be_bytes(*length)).ok()?;
    let (text, rest) = rest.split_at_checked(length)?;
    Some((str::from_utf8(text).ok()?.to_owned(), rest))
}

/// Scans the entries of ended jobs in the index of states.
pub(super) fn totals(reader: &mut Reader) -> Result<JobTotals, StoreError> {
    let ended = [JobStateType::Completed, JobStateType::Failed, JobStateType::Stopped];
    let ended = ended.map(job_state_code);
    let sql = "SELECT state, count(*) FROM job_run WHERE state = ANY($1) GROUP BY state
        ORDER BY state";
    let read = |row: &Row| Ok((job_state(row.value(0)?)?, counter(row, 1)?));
    let ended = reader.all(sql, &[&ended.as_slice()], read)?;
    // Those that wait at a gate are queued as well.
    let sql = "SELECT create_time FROM job_run
        WHERE state = $1 AND waiting_since IS NOT NULL ORDER BY create_time, id LIMIT 1";
    let queued = job_state_code(JobStateType::Queued);
    let oldest_queued = reader.one(sql, &[&queued], |row| time(row, 0))?;
    Ok(JobTotals { ended, oldest_queued })
}

/// The specification of this version of the job.
pub(super) fn specification(
    reader: &mut Reader,
    job: JobId,
    version: u64,
) -> Result<Option<Arc<str>>, StoreError> {
    let sql = "SELECT s.json FROM job AS j JOIN job_spec AS s ON s.job = j.number
         WHERE j.id = $1 AND s.version = $2
         UNION ALL
         SELECT f.json FROM job AS j JOIN former_spec AS f ON f.job = j.number
         WHERE j.id = $1 AND f.version = $2";
    let job = job.bytes();
    let params: Params<'_> = &[&job.as_slice(), &version.cast_signed()];
    reader.one(sql, params, |row| text(row, 0))
}
