//! Fixtures for the unit tests.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use api_types::engine::{EngineSpec, EngineType, NetworkType, Params, PublisherSpec};
use api_types::job::{JobType, NetworkSpec, Task, TaskResources, Timeouts};
use api_types::protocol::Work;
use api_types::quantity::Capacity;
use api_types::{ExecutionId, JobId};
use uuid::Uuid;

pub(crate) fn execution_id(number: u128) -> ExecutionId {
    ExecutionId::from_uuid(Uuid::from_u128(number))
}

/// A noop task with small resource requests.
pub(crate) fn plain_work() -> Work {
    Work {
        job_id: JobId::from_uuid(Uuid::from_u128(1)),
        job_name: "count".to_owned(),
        namespace: "default".to_owned(),
        job_type: JobType::Batch,
        index: 0,
        count: 1,
        resources: Capacity { cpu: 0.5, memory: 64_000_000, disk: 0, gpu: 0 },
        traceparent: None,
        task: Task {
            name: "main".to_owned(),
            engine: EngineSpec { engine_type: EngineType::Noop, params: Params::new() },
            publisher: PublisherSpec::default(),
            env: BTreeMap::new(),
            meta: BTreeMap::new(),
            input_sources: Vec::new(),
            result_paths: Vec::new(),
            resources: TaskResources::default(),
            network: NetworkSpec { network_type: NetworkType::None, domains: Vec::new() },
            timeouts: Timeouts::default(),
        },
    }
}
