//! Jobs, whole and as a list shows them, in the columns that are read of them.

use std::collections::BTreeMap;

use api_types::JobId;

use super::{Columns, Id, counter, job_state, job_type, name, of, text, time, time_option};
use crate::store::{StoreError, StoredJob, StoredSummary};

/// The largest specification that is read to explain why its job waits; a page has up to a thousand.
pub(in crate::store) const SPEC_BYTES: usize = 64 << 10;

pub(in crate::store) fn read_job(row: &impl Columns) -> Result<StoredJob, StoreError> {
    let id = JobId::get(row, 0)?;
    of(id, read_rest(id, row))
}

fn read_rest(id: JobId, row: &impl Columns) -> Result<StoredJob, StoreError> {
    Ok(StoredJob {
        id,
        name: name::get(row, 8, id)?,
        namespace: row.value(9)?,
        job_type: job_type(row.value(10)?)?,
        priority: row.value(11)?,
        spec_json: text(row, 1)?,
        state: job_state(row.value(2)?)?,
        message: row.value(3)?,
        version: counter(row, 4)?,
        revision: counter(row, 5)?,
        create_time: time(row, 6)?,
        modify_time: time(row, 7)?,
        failed_slots: row.value(12)?,
        waits: row.value(13)?,
    })
}

/// The job, and about how many bytes it takes. Databases differ in how they return its labels.
pub(in crate::store) fn read_summary(
    row: &impl Columns,
    labels: impl Fn(&[u8]) -> Result<BTreeMap<String, String>, StoreError>,
) -> Result<(StoredSummary, usize), StoreError> {
    let id = JobId::get(row, 0)?;
    of(id, read_summary_of(id, row, labels))
}

fn read_summary_of(
    id: JobId,
    row: &impl Columns,
    read_labels: impl Fn(&[u8]) -> Result<BTreeMap<String, String>, StoreError>,
) -> Result<(StoredSummary, usize), StoreError> {
    let labels: Vec<u8> = row.value(17)?;
    let message: String = row.value(6)?;
    let size = labels.len() + message.len();
    let summary = StoredSummary {
        id,
        name: name::get(row, 1, id)?,
        namespace: row.value(2)?,
        job_type: job_type(row.value(3)?)?,
        priority: row.value(4)?,
        labels: read_labels(&labels)?,
        state: job_state(row.value(5)?)?,
        message,
        version: counter(row, 7)?,
        revision: counter(row, 8)?,
        create_time: time(row, 9)?,
        modify_time: time(row, 10)?,
        start_time: time_option(row, 11)?,
        slots: row.value(12)?,
        running: row.value(13)?,
        completed: row.value(14)?,
        failed: row.value(15)?,
        failed_slots: row.value(16)?,
        // Whatever a damaged row holds, its job is listed.
        queued_spec: row.value(18).unwrap_or_default(),
    };
    Ok((summary, size))
}
