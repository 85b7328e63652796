//! Records to columns and back.
//!
//! Enums are small integers that are fixed here, whatever order their declarations have. Counters
//! of 64 bits are kept bit by bit in SQLite's signed integers.

use std::fmt::Display;

use api_types::execution::{ComputeState, DesiredState};
use api_types::job::{JobStateType, JobType};
use api_types::{EvaluationId, ExecutionId, JobId, NodeId, Timestamp};
use rusqlite::{Params, Row, RowIndex, Statement};
use uuid::Uuid;

use crate::engine::change::Tries;
use crate::store::StoreError;

pub(super) const fn job_state_code(state: JobStateType) -> i64 {
    match state {
        JobStateType::Pending => 0,
        JobStateType::Queued => 1,
        JobStateType::Running => 2,
        JobStateType::Completed => 3,
        JobStateType::Failed => 4,
        JobStateType::Stopped => 5,
    }
}

pub(super) fn job_state(code: i64) -> Result<JobStateType, StoreError> {
    JobStateType::ALL
        .iter()
        .copied()
        .find(|state| job_state_code(*state) == code)
        .ok_or_else(|| bad_record(format!("JobState {code}")))
}

/// Types are only asked for: a record has its own in its specification.
pub(super) const fn job_type_code(value: JobType) -> i64 {
    match value {
        JobType::Batch => 0,
        JobType::Ops => 1,
        JobType::Service => 2,
        JobType::Daemon => 3,
    }
}

/// An ID as its 16 bytes.
pub(super) trait Id: Sized {
    fn bytes(self) -> [u8; 16];
    fn from_bytes(bytes: [u8; 16]) -> Self;

    /// Reads a column.
    fn get(row: &Row<'_>, column: impl RowIndex) -> rusqlite::Result<Self> {
        row.get(column).map(Self::from_bytes)
    }

    /// Reads a column that may be null.
    fn get_option(row: &Row<'_>, column: impl RowIndex) -> rusqlite::Result<Option<Self>> {
        Ok(row.get::<_, Option<_>>(column)?.map(Self::from_bytes))
    }
}

macro_rules! ids {
    ($($name:ident),+) => {
        $(impl Id for $name {
            fn bytes(self) -> [u8; 16] {
                self.uuid().into_bytes()
            }

            fn from_bytes(bytes: [u8; 16]) -> Self {
                Self::from_uuid(Uuid::from_bytes(bytes))
            }
        })+
    };
}

ids!(JobId, ExecutionId, NodeId, EvaluationId);

/// A record that this release cannot have written.
pub(super) fn bad_record(detail: impl Display) -> StoreError {
    StoreError::Record { detail: detail.to_string() }
}

pub(super) fn counter(row: &Row<'_>, column: impl RowIndex) -> rusqlite::Result<u64> {
    row.get::<_, i64>(column).map(i64::cast_unsigned)
}

pub(super) fn time(row: &Row<'_>, column: impl RowIndex) -> rusqlite::Result<Timestamp> {
    row.get(column).map(Timestamp)
}

pub(super) fn compute_state(code: i64) -> Result<ComputeState, StoreError> {
    u8::try_from(code)
        .ok()
        .and_then(|code| ComputeState::try_from(code).ok())
        .ok_or_else(|| bad_record(format!("ComputeState {code}")))
}

pub(super) fn desired_state(code: i64) -> Result<DesiredState, StoreError> {
    u8::try_from(code)
        .ok()
        .and_then(|code| DesiredState::try_from(code).ok())
        .ok_or_else(|| bad_record(format!("DesiredState {code}")))
}

/// The nodes to avoid, 16 bytes each.
pub(super) fn avoid_bytes(tries: &Tries) -> Vec<u8> {
    tries.avoid.iter().flat_map(|node| node.bytes()).collect()
}

/// Reads the columns `attempt`, `foreign_tries`, `streak` and `avoid`, of which this is the first.
pub(super) fn tries(row: &Row<'_>, first: usize) -> Result<Tries, StoreError> {
    let avoid: Vec<u8> = row.get(first + 3)?;
    let (nodes, rest) = avoid.as_chunks::<16>();
    if !rest.is_empty() {
        return Err(bad_record(format!("{} bytes of nodes to avoid", avoid.len())));
    }
    Ok(Tries {
        attempt: row.get(first)?,
        foreign: row.get(first + 1)?,
        streak: row.get(first + 2)?,
        avoid: nodes.iter().copied().map(NodeId::from_bytes).collect(),
    })
}

/// Every row of the answer, read by `read`.
pub(super) fn all<T>(
    statement: &mut Statement<'_>,
    params: impl Params,
    read: impl Fn(&Row<'_>) -> Result<T, StoreError>,
) -> Result<Vec<T>, StoreError> {
    let mut rows = statement.query(params)?;
    let mut items = Vec::new();
    while let Some(row) = rows.next()? {
        items.push(read(row)?);
    }
    Ok(items)
}

/// The only row of the answer, if there is one.
pub(super) fn one<T>(
    statement: &mut Statement<'_>,
    params: impl Params,
    read: impl Fn(&Row<'_>) -> Result<T, StoreError>,
) -> Result<Option<T>, StoreError> {
    let mut rows = statement.query(params)?;
    rows.next()?.map(read).transpose()
}
