//! What readers ask of the store: filters, orders and positions of jobs and executions.

use std::collections::BTreeSet;
use std::sync::Arc;

use api_types::job::{JobStateType, JobType};
use api_types::selector::Selector;
use api_types::{ExecutionId, JobId, NodeId, Timestamp};
use scheduler::change::ExecutionRow;

use super::StoredExecution;

/// The namespaces that a query covers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Namespaces {
    #[default]
    All,
    /// These and no others.
    Only(BTreeSet<String>),
}

#[derive(Debug, Clone, Default)]
pub struct JobQuery {
    pub namespaces: Namespaces,
    pub selector: Selector,
    /// Any if empty.
    pub states: Vec<JobStateType>,
    pub job_type: Option<JobType>,
    pub name: Option<String>,
    /// The beginning of the name.
    pub name_prefix: Option<String>,
    /// Created at or after.
    pub created_after: Option<Timestamp>,
    /// Created before.
    pub created_before: Option<Timestamp>,
    pub order: JobOrder,
    pub reverse: bool,
    /// The last row of the previous page.
    pub after: Option<JobPosition>,
    pub limit: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum JobOrder {
    #[default]
    CreateTime,
    /// By the last change, which moves a job that changes meanwhile to the end.
    ModifyTime,
    Id,
}

/// The position of a job in any order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobPosition {
    /// Of its creation or of its last change, whichever the order goes by; ignored in order of IDs.
    pub time: Timestamp,
    pub id: JobId,
}

#[derive(Debug, Clone)]
pub struct ExecutionQuery {
    pub job: JobId,
    pub order: ExecutionOrder,
    pub reverse: bool,
    pub after: Option<ExecutionPosition>,
    pub limit: u32,
}

#[derive(Debug, Clone)]
pub struct LiveExecutionsQuery {
    /// Of the jobs.
    pub namespaces: Namespaces,
    /// Of any node if `None`.
    pub node: Option<NodeId>,
    pub reverse: bool,
    /// The `number` of the last row of the previous page.
    pub after: Option<u64>,
    pub limit: u32,
}

/// A live execution, and what its record has of its job.
#[derive(Debug, Clone, PartialEq)]
pub struct LiveExecution {
    /// Counts executions in the order of their creation.
    pub number: u64,
    pub execution: StoredExecution,
    pub spec_json: Arc<str>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ExecutionOrder {
    #[default]
    ModifyTime,
    CreateTime,
    Id,
    /// By the number of the compute state.
    State,
}

/// The position of an execution: its sort key (0 when ordered by id), and its id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExecutionPosition {
    pub key: i64,
    pub id: ExecutionId,
}

impl Namespaces {
    pub fn one(name: impl Into<String>) -> Self {
        Self::Only(BTreeSet::from([name.into()]))
    }

    pub fn contain(&self, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::Only(names) => names.contains(name),
        }
    }
}

impl JobOrder {
    /// The position of a job with these times.
    pub fn position(
        self,
        id: JobId,
        create_time: Timestamp,
        modify_time: Timestamp,
    ) -> JobPosition {
        let time = match self {
            Self::CreateTime | Self::Id => create_time,
            Self::ModifyTime => modify_time,
        };
        JobPosition { time, id }
    }
}

impl ExecutionOrder {
    /// The sort key of an execution.
    pub fn key(self, row: &ExecutionRow) -> i64 {
        match self {
            Self::ModifyTime => row.modify_time.0,
            Self::CreateTime => row.create_time.0,
            Self::Id => 0,
            Self::State => i64::from(u8::from(row.compute)),
        }
    }
}
