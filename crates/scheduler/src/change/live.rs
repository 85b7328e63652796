//! What a start loads: the records that the scheduler resumes from.

use alloc::sync::Arc;
use alloc::vec::Vec;

use api_types::job::{JobStateType, JobType};
use api_types::{JobId, NodeId, Timestamp};

use crate::change::{ExecutionRow, JobRow, NodeRow, PendingSlotRow};
use crate::outcomes::{Outcomes, Past};
use crate::plan::JobPlan;
use crate::text::Text;
use crate::time::Moment;

/// What was live at the last commit, apart from the jobs; the scheduler resumes from it.
#[derive(Debug, Default)]
pub struct Live {
    /// Executions of live jobs whose compute state is not terminal.
    pub executions: Vec<ExecutionRow>,
    pub pending_slots: Vec<PendingSlotRow>,
    pub nodes: Vec<NodeRow>,
    /// The sequence number of the last event; 0 when there is none.
    pub last_seq: u64,
    /// For jobs with one slot per node, the node of each slot, including slots that have ended.
    pub covered: Vec<SlotNode>,
    /// Of jobs in which a slot has ended.
    pub outcomes: Vec<JobOutcomes>,
    /// Jobs that are over and that live ones depend on.
    pub named: Vec<NamedJob>,
}

/// A job that another one depends on, as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedJob {
    pub id: JobId,
    pub state: JobStateType,
    /// When its last live part ended.
    pub ended_at: Option<Moment>,
    /// What became of its slots, if a live job waits for these one by one.
    pub past: Option<Arc<Past>>,
}

/// What became of the slots of a live job that ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobOutcomes {
    pub job: JobId,
    pub outcomes: Outcomes,
    /// Why the first slot failed, if the job went on.
    pub first_failure: Option<Text>,
}

/// The node of a slot of a job that has one slot per node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SlotNode {
    pub job: JobId,
    pub index: u32,
    pub node: NodeId,
    /// When the slot was first placed there; `None` if it waits for that.
    pub at: Option<Moment>,
}

/// A job whose row is `live`.
#[derive(Debug)]
pub struct LiveJobRow {
    pub row: JobRow,
    pub job_type: JobType,
    pub priority: u32,
    pub plan: LoadedPlan,
    pub create_time: Timestamp,
    pub created_at: Moment,
    /// When it began, if its slots wait for those of another job one by one.
    pub began_at: Option<Moment>,
}

/// What was stored with a job's specification.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "nearly all plans are stored ones")]
pub enum LoadedPlan {
    Stored(JobPlan),
    /// No plan that this release can read. The specification as stored, which may be damaged too.
    Unreadable {
        spec: Arc<str>,
    },
}
