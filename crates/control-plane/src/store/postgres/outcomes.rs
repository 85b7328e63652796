//! What became of the slots of a job, and where they were.

use api_types::{JobId, NodeId};
use scheduler::outcomes::{Chunk, Outcomes};
use tokio_postgres::Row;

use super::reader::Reader;
use super::row::outcomes::of_slots;
use super::row::{Columns, Id, indexes, job_state, of};
use crate::store::{StoreError, StoredOutcomes};

pub(super) fn of_job(reader: &mut Reader, id: JobId) -> Result<Option<StoredOutcomes>, StoreError> {
    let sql = "SELECT r.number, r.state, r.slots, r.indexes, r.running, r.completed, r.failed_slots
        FROM job AS j JOIN job_run AS r ON r.number = j.number WHERE j.id = $1";
    let rows = reader.rows(sql, &[&id.bytes().as_slice()])?;
    rows.first().map(|row| of(id, read(reader, row))).transpose()
}

fn read(reader: &mut Reader, row: &Row) -> Result<StoredOutcomes, StoreError> {
    let number = row.value(0)?;
    let slots = indexes::slots(row.value(2)?, row.value(3)?, || chunks(reader, number))?;
    let (completed, failed) = (row.value(5)?, row.value(6)?);
    let outcomes = of_slots(&slots, (completed, failed), || chunks(reader, number))?;
    let state = job_state(row.value(1)?)?;
    Ok(StoredOutcomes { state, slots, running: row.value(4)?, completed, failed, outcomes })
}

/// What is stored of the slots of the job with this number.
fn chunks(reader: &mut Reader, number: i64) -> Result<Outcomes, StoreError> {
    let sql = "SELECT chunk, bits FROM slot_outcome WHERE job = $1 ORDER BY chunk";
    let mut outcomes = Outcomes::default();
    reader.each(sql, &[&number], |row| {
        let bits: Vec<u8> = row.value(1)?;
        outcomes.insert(row.value(0)?, Chunk::from(bits.into_boxed_slice()));
        Ok(true)
    })?;
    Ok(outcomes)
}

/// The node of each slot of an ops job that has ended, by index: of a placed slot its executions name
/// it, and of any other the row that was written when the job ended.
pub(super) fn slot_nodes(
    reader: &mut Reader,
    job: JobId,
) -> Result<Vec<(u32, NodeId)>, StoreError> {
    let read = |row: &Row| Ok((row.value(0)?, NodeId::get(row, 1)?));
    let sql = "SELECT DISTINCT slot, node FROM execution
        WHERE job = (SELECT number FROM job WHERE id = $1)";
    let mut found = reader.all(sql, &[&job.bytes().as_slice()], read)?;
    let sql = "SELECT slot, node FROM unplaced_slot
        WHERE job = (SELECT number FROM job WHERE id = $1)";
    found.extend(reader.all(sql, &[&job.bytes().as_slice()], read)?);
    found.sort_unstable_by_key(|(index, _)| *index);
    Ok(found)
}
