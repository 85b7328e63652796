//! Records to columns and back, the same for every database.
//!
//! Enums are small integers that are fixed here, whatever order their declarations have. Counters
//! of 64 bits are kept bit by bit in signed integers.

pub(super) mod curve;
pub(super) mod events;
pub(super) mod executions;
pub(super) mod graphs;
pub(super) mod health;
pub(super) mod indexes;
pub(super) mod jobs;
pub(super) mod live;
pub(super) mod mark;
pub(super) mod name;
pub(super) mod node_history;
pub(super) mod outcomes;
pub(super) mod subject;

use std::fmt::Display;
use std::sync::Arc;

use api_types::audit::AuditChain;
use api_types::execution::{ComputeState, DesiredState};
use api_types::job::{JobStateType, JobType};
use api_types::{EvaluationId, ExecutionId, GraphId, JobId, NodeId, Timestamp};
use scheduler::change::Tries;
use scheduler::exclusion::{Exclusion, Exclusions};
use scheduler::time::Moment;
use serde::de::DeserializeOwned;
use uuid::Uuid;

use super::error::StoreError;

/// What a column holds. Databases differ in whether they tell texts from bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cell<'a> {
    Null,
    Integer(i64),
    Bytes(&'a [u8]),
    /// Nothing that this service writes.
    Other(&'static str),
}

/// A row of a result.
pub(super) trait Columns {
    fn cell(&self, column: usize) -> Result<Cell<'_>, StoreError>;

    fn name(&self, column: usize) -> String;

    fn value<T: Value>(&self, column: usize) -> Result<T, StoreError> {
        let cell = self.cell(column)?;
        T::of(cell).ok_or_else(|| bad_record(format!("{} is {}", self.name(column), cell.kind())))
    }
}

/// A value of one column.
pub(super) trait Value: Sized {
    fn of(cell: Cell<'_>) -> Option<Self>;
}

// === impl Cell, Value ===

impl Cell<'_> {
    pub(super) fn kind(self) -> String {
        match self {
            Self::Null => "null".to_owned(),
            Self::Integer(value) => value.to_string(),
            Self::Bytes(bytes) => format!("{} bytes", bytes.len()),
            Self::Other(kind) => kind.to_owned(),
        }
    }
}

impl Value for i64 {
    fn of(cell: Cell<'_>) -> Option<Self> {
        match cell {
            Cell::Integer(value) => Some(value),
            Cell::Null | Cell::Bytes(_) | Cell::Other(_) => None,
        }
    }
}

impl Value for u32 {
    fn of(cell: Cell<'_>) -> Option<Self> {
        i64::of(cell)?.try_into().ok()
    }
}

impl Value for i32 {
    fn of(cell: Cell<'_>) -> Option<Self> {
        i64::of(cell)?.try_into().ok()
    }
}

impl Value for bool {
    fn of(cell: Cell<'_>) -> Option<Self> {
        Some(i64::of(cell)? != 0)
    }
}

impl Value for Vec<u8> {
    fn of(cell: Cell<'_>) -> Option<Self> {
        match cell {
            Cell::Bytes(bytes) => Some(bytes.to_vec()),
            Cell::Null | Cell::Integer(_) | Cell::Other(_) => None,
        }
    }
}

impl Value for String {
    fn of(cell: Cell<'_>) -> Option<Self> {
        match cell {
            Cell::Bytes(bytes) => str::from_utf8(bytes).ok().map(str::to_owned),
            Cell::Null | Cell::Integer(_) | Cell::Other(_) => None,
        }
    }
}

impl<const LENGTH: usize> Value for [u8; LENGTH] {
    fn of(cell: Cell<'_>) -> Option<Self> {
        match cell {
            Cell::Bytes(bytes) => bytes.try_into().ok(),
            Cell::Null | Cell::Integer(_) | Cell::Other(_) => None,
        }
    }
}

impl<T: Value> Value for Option<T> {
    fn of(cell: Cell<'_>) -> Option<Self> {
        match cell {
            Cell::Null => Some(None),
            cell => T::of(cell).map(Some),
        }
    }
}

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

/// The table of a chain of the audit log.
pub(super) const fn audit_table(chain: AuditChain) -> &'static str {
    match chain {
        AuditChain::Changes => "audit",
        AuditChain::Rest => "audit_rest",
    }
}

/// An ID as its 16 bytes.
pub(super) trait Id: Sized {
    fn bytes(self) -> [u8; 16];
    fn from_bytes(bytes: [u8; 16]) -> Self;

    /// Reads a column.
    fn get(row: &impl Columns, column: usize) -> Result<Self, StoreError> {
        row.value(column).map(Self::from_bytes)
    }

    /// Reads a column that may be null.
    fn get_option(row: &impl Columns, column: usize) -> Result<Option<Self>, StoreError> {
        Ok(row.value::<Option<_>>(column)?.map(Self::from_bytes))
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

/// A specification as far as it is a text: what else a damaged row holds cannot be parsed either.
pub(super) fn text(row: &impl Columns, column: usize) -> Result<Arc<str>, StoreError> {
    Ok(match row.cell(column)? {
        Cell::Bytes(bytes) => String::from_utf8_lossy(bytes).into(),
        Cell::Null | Cell::Integer(_) | Cell::Other(_) => "".into(),
    })
}

pub(super) fn from_json<T: DeserializeOwned>(json: &str) -> Result<T, StoreError> {
    serde_json::from_str(json).map_err(bad_record)
}

/// Names the row whose columns cannot be read.
pub(super) fn of<T>(what: impl Display, read: Result<T, StoreError>) -> Result<T, StoreError> {
    read.map_err(|error| match error {
        StoreError::Record { detail } => bad_record(format!("{what}: {detail}")),
        error => error,
    })
}

pub(super) fn counter(row: &impl Columns, column: usize) -> Result<u64, StoreError> {
    row.value(column).map(i64::cast_unsigned)
}

pub(super) fn time(row: &impl Columns, column: usize) -> Result<Timestamp, StoreError> {
    row.value(column).map(Timestamp)
}

pub(super) fn time_option(
    row: &impl Columns,
    column: usize,
) -> Result<Option<Timestamp>, StoreError> {
    Ok(row.value::<Option<_>>(column)?.map(Timestamp))
}

/// Moments stay below 2^63 for some centuries, so that their order is that of the column.
pub(super) const fn moment_value(moment: Moment) -> i64 {
    moment.0.cast_signed()
}

pub(super) fn moment(row: &impl Columns, column: usize) -> Result<Moment, StoreError> {
    counter(row, column).map(Moment)
}

pub(super) fn moment_option(
    row: &impl Columns,
    column: usize,
) -> Result<Option<Moment>, StoreError> {
    Ok(row.value::<Option<i64>>(column)?.map(|value| Moment(value.cast_unsigned())))
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
pub(super) fn tries(row: &impl Columns, first: usize) -> Result<Tries, StoreError> {
    let bytes: Vec<u8> = row.value(first + 3)?;
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
        attempt: row.value(first)?,
        infra_failures: row.value(first + 1)?,
        short_runs: row.value(first + 2)?,
        exclusions: Exclusions(entries.iter().filter_map(part).collect()),
        refused_by: Id::get_option(row, first + 4)?,
    })
}
