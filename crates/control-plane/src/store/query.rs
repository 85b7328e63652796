//! What readers ask of the store: filters, orders and positions of jobs and executions.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api_types::cluster::LoadSample;
use api_types::curve::UsageCurve;
use api_types::execution::{ComputeState, PublishedResult};
use api_types::history::EventType;
use api_types::job::{JobStateType, JobType};
use api_types::selector::Selector;
use api_types::{ExecutionId, JobId, NodeId, Timestamp};
use scheduler::change::{EventRow, ExecutionRow};
use scheduler::outcomes::Outcomes;
use scheduler::slots::Slots;

use super::{StoredExecution, StoredSummary};

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

/// Jobs that contain a text; upper and lower case of ASCII are alike.
#[derive(Debug, Clone)]
pub struct SearchQuery {
    pub text: String,
    pub namespaces: Namespaces,
    pub limit: u32,
}

/// What a search found.
#[derive(Debug, Clone, PartialEq)]
pub struct FoundJobs {
    pub jobs: Vec<StoredSummary>,
    /// Whether others match too.
    pub more: bool,
    /// Whether all jobs of the namespaces were searched.
    pub is_complete: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum JobOrder {
    #[default]
    CreateTime,
    /// By the last change, which moves a job that changes between two pages to the end.
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
    /// Any if empty.
    pub states: Vec<ComputeState>,
    /// Any if `None`.
    pub slots: Option<Slots>,
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

/// The load of the cluster around a time.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadRow {
    pub time: Timestamp,
    pub sample: LoadSample,
}

/// What people call jobs and executions.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StoredNames {
    pub jobs: BTreeMap<JobId, String>,
    pub indexes: BTreeMap<ExecutionId, u32>,
}

/// What became of a job's slots.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredOutcomes {
    pub state: JobStateType,
    pub slots: Slots,
    pub running: u32,
    pub completed: u32,
    pub failed: u32,
    pub outcomes: Outcomes,
}

/// What one execution of a job used over time.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredCurve {
    pub id: ExecutionId,
    pub index: u32,
    pub curve: UsageCurve,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ExecutionOrder {
    #[default]
    ModifyTime,
    CreateTime,
    Id,
    /// By the number of the compute state.
    State,
    /// By the index of the slot.
    Index,
}

/// The position of an execution: its sort key (0 when ordered by ID), and its ID.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExecutionPosition {
    pub key: i64,
    pub id: ExecutionId,
}

#[derive(Debug, Clone)]
pub struct ResultQuery {
    pub job: JobId,
    pub after: Option<ResultPosition>,
    pub limit: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResultPosition {
    pub index: u32,
    pub create_time: Timestamp,
    pub id: ExecutionId,
}

#[derive(Debug, Clone, PartialEq)]
pub struct StoredResult {
    pub position: ResultPosition,
    pub result: PublishedResult,
}

/// What a completed execution published.
#[derive(Debug, Clone, PartialEq)]
pub struct CompletedResult {
    pub index: u32,
    pub id: ExecutionId,
    pub node: NodeId,
    /// Of the job's specification with which it ran.
    pub version: u64,
    pub result: PublishedResult,
}

/// Events committed after a position, of any job or node.
#[derive(Debug, Clone, PartialEq)]
pub struct EventsQuery {
    /// The `seq` of the last event already examined.
    pub after: u64,
    pub job: Option<JobId>,
    pub namespaces: Namespaces,
    /// Those of jobs and executions if `None`.
    pub event_type: Option<EventType>,
    /// At or after.
    pub since: Timestamp,
    /// The number of events to examine, matching or not.
    pub limit: u32,
}

#[derive(Debug, Clone, PartialEq)]
pub struct EventsPage {
    pub entries: Vec<EventEntry>,
    /// The `seq` up to which all events were examined.
    pub through: u64,
    /// Whether later events exist.
    pub more: bool,
    /// Whether the requested job is not stored, so that no event of it can follow.
    pub job_gone: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub enum EventEntry {
    Event(EventRow),
    /// Retention removed all events in this range of `seq`; whether the query would have matched
    /// them is no longer known.
    Gap {
        from: u64,
        to: u64,
    },
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
            Self::Index => i64::from(row.index),
        }
    }
}
