//! Fixtures for the tests of other crates.

mod rows;
mod texts;

use uuid::Uuid;

use crate::engine::EngineType;
use crate::job::{JobType, Task};
use crate::protocol::Work;
use crate::quantity::Capacity;
use crate::{ExecutionId, JobId};

pub use rows::Rows;
pub use texts::flaw;

pub fn execution_id(number: u128) -> ExecutionId {
    ExecutionId::from_uuid(Uuid::from_u128(number))
}

/// A noop task with small resource requests.
pub fn plain_work() -> Work {
    Work {
        job_id: JobId::from_uuid(Uuid::from_u128(1)),
        job_name: "count".to_owned(),
        namespace: "default".to_owned(),
        job_type: JobType::Batch,
        index: 0,
        count: 1,
        resources: Capacity { cpu: 0.5, memory: 64_000_000, disk: 0, gpu: 0 },
        no_capabilities: false,
        traceparent: None,
        task: Task::new("main", EngineType::Noop),
    }
}
