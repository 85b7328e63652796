//! Records to columns and back.
//!
//! Enums are small integers that are fixed here, whatever order their declarations have. Counters
//! of 64 bits are kept bit by bit in SQLite's signed integers.

use std::fmt::Display;

use api_types::execution::{ComputeState, DesiredState};
use api_types::job::{JobStateType, JobType};
use api_types::{EvaluationId, ExecutionId, GraphId, JobId, NodeId, Timestamp};
use rusqlite::{Params, Row, RowIndex, Statement};
use scheduler::change::Tries;
use scheduler::exclusion::{Exclusion, Exclusions};
use scheduler::time::Moment;
use uuid::Uuid;

use crate::store::{Namespaces, StoreError};

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

pub(super) const fn job_type_code(value: JobType) -> i64 {
    match value {
        JobType::Batch => 0,
        JobType::Ops => 1,
        JobType::Service => 2,
        JobType::Daemon => 3,
    }
}

pub(super) fn job_type(code: i64) -> Result<JobType, StoreError> {
    JobType::ALL
        .iter()
        .copied()
        .find(|job_type| job_type_code(*job_type) == code)
        .ok_or_else(|| bad_record(format!("JobType {code}")))
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

ids!(JobId, ExecutionId, NodeId, EvaluationId, GraphId);

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

pub(super) fn time_option(
    row: &Row<'_>,
    column: impl RowIndex,
) -> rusqlite::Result<Option<Timestamp>> {
    Ok(row.get::<_, Option<i64>>(column)?.map(Timestamp))
}

/// Moments stay below 2^63 for some centuries, so that their order is that of the column.
pub(super) const fn moment_value(moment: Moment) -> i64 {
    moment.0.cast_signed()
}

pub(super) fn moment(row: &Row<'_>, column: impl RowIndex) -> rusqlite::Result<Moment> {
    counter(row, column).map(Moment)
}

pub(super) fn moment_option(
    row: &Row<'_>,
    column: impl RowIndex,
) -> rusqlite::Result<Option<Moment>> {
    Ok(row.get::<_, Option<i64>>(column)?.map(|value| Moment(value.cast_unsigned())))
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

/// An exclusion: the node, until when, and how often the slot failed there.
const EXCLUSION_BYTES: usize = 16 + 8 + 4;

pub(super) fn exclusion_bytes(tries: &Tries) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(tries.exclusions.0.len() * EXCLUSION_BYTES);
    for exclusion in &tries.exclusions.0 {
        bytes.extend(exclusion.node.bytes());
        bytes.extend(exclusion.until.0.to_be_bytes());
        bytes.extend(exclusion.failures.to_be_bytes());
    }
    bytes
}

/// Reads the columns `attempt`, `infra_failures`, `short_runs`, `exclusions` and `refused_by`, of
/// which this is the first.
pub(super) fn tries(row: &Row<'_>, first: usize) -> Result<Tries, StoreError> {
    let bytes: Vec<u8> = row.get(first + 3)?;
    let (entries, rest) = bytes.as_chunks::<EXCLUSION_BYTES>();
    if !rest.is_empty() {
        return Err(bad_record(format!("{} bytes of exclusions", bytes.len())));
    }
    let part = |entry: &[u8; EXCLUSION_BYTES]| {
        let (node, rest) = entry.split_first_chunk::<16>()?;
        let (until, failures) = rest.split_first_chunk::<8>()?;
        Some(Exclusion {
            node: NodeId::from_bytes(*node),
            until: Moment(u64::from_be_bytes(*until)),
            failures: u32::from_be_bytes(*failures.first_chunk::<4>()?),
        })
    };
    Ok(Tries {
        attempt: row.get(first)?,
        infra_failures: row.get(first + 1)?,
        short_runs: row.get(first + 2)?,
        exclusions: Exclusions(entries.iter().filter_map(part).collect()),
        refused_by: Id::get_option(row, first + 4)?,
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

/// The names as a JSON array, so that one statement serves any number of them; none for all.
pub(super) fn name_list(namespaces: &Namespaces) -> Result<Option<String>, StoreError> {
    match namespaces {
        Namespaces::All => Ok(None),
        Namespaces::Only(names) => serde_json::to_string(names).map(Some).map_err(bad_record),
    }
}
