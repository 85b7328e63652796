//! What jobs have left, read for many of them together.

use std::collections::HashMap;

use tokio_postgres::Row;

use crate::store::postgres::link::Link;
use crate::store::postgres::row::Columns;
use crate::store::postgres::values::Param;
use crate::store::{EXECUTION_ROWS, StoreError};

/// Rows of one table that are read of each job but the first: most jobs have fewer. One that has
/// more is removed in part, and becomes the first of the next removal.
const ROWS_OF_OTHERS: u32 = 256;

/// A job to remove.
pub(super) struct Doomed {
    pub(super) number: i64,
    /// None if its removal has begun.
    pub(super) namespace: Option<String>,
}

/// What is left of one job, as far as it was read.
#[derive(Default)]
pub(super) struct Left {
    pub(super) id: Vec<u8>,
    pub(super) labels: u32,
    pub(super) spec_bytes: usize,
    /// Their sequences and times.
    pub(super) events: Vec<[i64; 2]>,
    pub(super) published: Vec<(i64, i64, Vec<u8>)>,
    pub(super) pending: Vec<i64>,
    pub(super) chunks: Vec<i64>,
    pub(super) dependencies: Vec<[i64; 2]>,
    pub(super) unplaced: Vec<i64>,
    /// Their numbers, and whether they have an output tail.
    pub(super) executions: Vec<(i64, bool)>,
}

/// What is left of several jobs.
pub(super) struct Parts {
    pub(super) of_jobs: HashMap<i64, Left>,
    /// The most rows of each table that were read of the first job.
    first: u32,
}

const JOBS: &str = "
    SELECT r.number, r.id, (SELECT count(*) FROM label AS l WHERE l.id = r.id),
        coalesce(octet_length(s.json), 0)::bigint
    FROM unnest($1::bigint[]) AS u (number) JOIN job_run AS r ON r.number = u.number
        LEFT JOIN job_spec AS s ON s.job = r.number";

const EVENTS: &str = "
    SELECT u.job, x.seq, x.time FROM unnest($1::bigint[], $2::bigint[]) AS u (job, most)
        CROSS JOIN LATERAL (SELECT seq, time FROM event WHERE job = u.job
            ORDER BY seq LIMIT u.most) AS x";

const PUBLISHED: &str = "
    SELECT u.job, x.slot, x.create_time, x.id
    FROM unnest($1::bigint[], $2::bigint[]) AS u (job, most)
        CROSS JOIN LATERAL (SELECT slot, create_time, id FROM published WHERE job = u.job
            ORDER BY slot, create_time, id LIMIT u.most) AS x";

const PENDING: &str = "
    SELECT u.job, x.slot FROM unnest($1::bigint[], $2::bigint[]) AS u (job, most)
        CROSS JOIN LATERAL (SELECT slot FROM pending_slot WHERE job = u.job
            ORDER BY slot LIMIT u.most) AS x";

const CHUNKS: &str = "
    SELECT u.job, x.chunk FROM unnest($1::bigint[], $2::bigint[]) AS u (job, most)
        CROSS JOIN LATERAL (SELECT chunk FROM slot_outcome WHERE job = u.job
            ORDER BY chunk LIMIT u.most) AS x";

/// Those of the job and on it.
const DEPENDENCIES: &str = "
    SELECT u.job, x.job, x.named FROM unnest($1::bigint[], $2::bigint[]) AS u (job, most)
        CROSS JOIN LATERAL (SELECT job, named FROM dependency WHERE job = u.job
            ORDER BY job, named LIMIT u.most) AS x
    UNION ALL
    SELECT u.job, x.job, x.named FROM unnest($1::bigint[], $2::bigint[]) AS u (job, most)
        CROSS JOIN LATERAL (SELECT job, named FROM dependency WHERE named = u.job
            ORDER BY named, job LIMIT u.most) AS x";

const UNPLACED: &str = "
    SELECT u.job, x.slot FROM unnest($1::bigint[], $2::bigint[]) AS u (job, most)
        CROSS JOIN LATERAL (SELECT slot FROM unplaced_slot WHERE job = u.job
            ORDER BY slot LIMIT u.most) AS x";

const EXECUTIONS: &str = "
    SELECT u.job, x.number, EXISTS (SELECT 1 FROM output_tail AS t
        WHERE t.job = u.job AND t.execution = x.number)
    FROM unnest($1::bigint[], $2::bigint[]) AS u (job, most)
        CROSS JOIN LATERAL (SELECT number FROM execution WHERE job = u.job
            ORDER BY slot, create_time, id LIMIT u.most) AS x";

// === impl Parts ===

impl Parts {
    /// Reads up to `rows` rows of each table of the first job.
    pub(super) async fn read(
        link: &mut Link,
        doomed: &[Doomed],
        rows: u32,
    ) -> Result<Self, StoreError> {
        let of_jobs = doomed.iter().map(|job| (job.number, Left::default())).collect();
        let mut parts = Self { of_jobs, first: rows };
        let numbers: Vec<_> = doomed.iter().map(|job| job.number).collect();
        let bounds = || {
            let others = std::iter::repeat_n(ROWS_OF_OTHERS.min(rows), numbers.len() - 1);
            let most = std::iter::once(rows).chain(others).map(i64::from);
            vec![Param::numbers(numbers.iter().copied()), Param::numbers(most)]
        };
        let jobs = vec![Param::numbers(numbers.iter().copied())];
        parts.add(&link.query(JOBS, jobs).await?, |left, row| {
            (left.id, left.labels) = (row.value(1)?, row.value(2)?);
            left.spec_bytes = row.value::<u32>(3)? as usize;
            Ok(())
        })?;
        parts.add(&link.query(EVENTS, bounds()).await?, |left, row| {
            left.events.push([row.value(1)?, row.value(2)?]);
            Ok(())
        })?;
        parts.add(&link.query(PUBLISHED, bounds()).await?, |left, row| {
            left.published.push((row.value(1)?, row.value(2)?, row.value(3)?));
            Ok(())
        })?;
        parts.add(&link.query(PENDING, bounds()).await?, |left, row| {
            left.pending.push(row.value(1)?);
            Ok(())
        })?;
        parts.add(&link.query(CHUNKS, bounds()).await?, |left, row| {
            left.chunks.push(row.value(1)?);
            Ok(())
        })?;
        parts.add(&link.query(DEPENDENCIES, bounds()).await?, |left, row| {
            left.dependencies.push([row.value(1)?, row.value(2)?]);
            Ok(())
        })?;
        parts.add(&link.query(UNPLACED, bounds()).await?, |left, row| {
            left.unplaced.push(row.value(1)?);
            Ok(())
        })?;
        parts.add(&link.query(EXECUTIONS, bounds()).await?, |left, row| {
            left.executions.push((row.value(1)?, row.value(2)?));
            Ok(())
        })?;
        Ok(parts)
    }

    fn add(
        &mut self,
        rows: &[Row],
        add: impl Fn(&mut Left, &Row) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        for row in rows {
            if let Some(left) = self.of_jobs.get_mut(&row.value(0)?) {
                add(left, row)?;
            }
        }
        Ok(())
    }

    /// Whether a table may have more rows of a job than were read.
    pub(super) fn is_cut(&self, is_first: bool, rows: usize) -> bool {
        let most = if is_first { self.first } else { ROWS_OF_OTHERS.min(self.first) };
        rows >= most as usize
    }
}

// === impl Left ===

impl Left {
    /// Executions that this budget reaches.
    pub(super) const fn executions_within(budget: u32) -> usize {
        budget.div_ceil(EXECUTION_ROWS) as usize
    }
}
