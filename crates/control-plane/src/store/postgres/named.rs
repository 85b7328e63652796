//! Jobs as others depend on them.

use std::collections::BTreeMap;
use std::sync::Arc;

use api_types::JobId;
use api_types::dependency::Indexes;
use scheduler::change::NamedJob;
use scheduler::outcomes::Past;
use tokio_postgres::Row;

use super::link::Link;
use super::load::{Chunks, read_chunks};
use super::row::outcomes::of_slots;
use super::row::{self, Columns, Id, indexes, job_state};
use super::values::Param;
use crate::store::StoreError;

/// The last column says whether what became of the slots is needed as well.
const KEPT: &str = "
    SELECT r.number, r.id, r.state, r.ended_at, r.slots, r.indexes, r.completed, r.failed_slots,
        EXISTS (SELECT 1 FROM dependency AS d JOIN job_run AS w ON w.number = d.job
            WHERE d.named = r.number AND d.same = 1 AND w.live = 1)::int::bigint
    FROM job_run AS r WHERE r.named > 0 AND r.live = 0 ORDER BY r.number";

const FIND: &str = "
    SELECT r.number, r.id, r.state, r.ended_at, r.slots, r.indexes, r.completed, r.failed_slots,
        u.same
    FROM unnest($1::bytea[], $2::bigint[]) AS u (id, same) JOIN job AS j ON j.id = u.id
        JOIN job_run AS r ON r.number = j.number";

const CHUNKS: &str = "
    SELECT o.job, o.chunk, o.bits
    FROM unnest($1::bigint[]) AS u (job) JOIN slot_outcome AS o ON o.job = u.job
    ORDER BY o.job, o.chunk";

/// The jobs that are over and that live ones depend on.
pub(super) async fn kept(link: &mut Link) -> Result<Vec<NamedJob>, StoreError> {
    let rows = link.query(KEPT, Vec::new()).await?;
    read(link, &rows).await
}

/// Those of these jobs that are stored, some with what became of their slots.
pub(super) async fn find(
    link: &mut Link,
    jobs: &BTreeMap<JobId, Indexes>,
) -> Result<Vec<NamedJob>, StoreError> {
    let ids = Param::byte_strings(jobs.keys().map(|id| id.bytes()));
    let same = jobs.values().map(|indexes| i64::from(*indexes == Indexes::Same));
    let rows = link.query(FIND, vec![ids, Param::numbers(same)]).await?;
    read(link, &rows).await
}

async fn read(link: &mut Link, rows: &[Row]) -> Result<Vec<NamedJob>, StoreError> {
    let mut wanted = Vec::new();
    for row in rows {
        if row.value(8)? {
            wanted.push(row.value(0)?);
        }
    }
    let mut chunks = Chunks::new();
    if !wanted.is_empty() {
        chunks = read_chunks(&link.query(CHUNKS, vec![Param::numbers(wanted)]).await?)?;
    }
    rows.iter().map(|row| read_job(row, &chunks)).collect()
}

fn read_job(row: &Row, chunks: &Chunks) -> Result<NamedJob, StoreError> {
    let id = Id::get(row, 1)?;
    let past = match row.value(8)? {
        true => Some(Arc::new(row::of(id, read_past(row, chunks))?)),
        false => None,
    };
    let (state, ended_at) = (job_state(row.value(2)?)?, row::moment_option(row, 3)?);
    Ok(NamedJob { id, state, ended_at, past })
}

fn read_past(row: &Row, chunks: &Chunks) -> Result<Past, StoreError> {
    let number: i64 = row.value(0)?;
    let stored = || Ok(chunks.get(&number).cloned().unwrap_or_default());
    let slots = indexes::slots(row.value(4)?, row.value(5)?, stored)?;
    let outcomes = of_slots(&slots, (row.value(6)?, row.value(7)?), stored)?;
    Ok(Past { slots, outcomes })
}
