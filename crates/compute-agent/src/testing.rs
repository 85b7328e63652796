//! Fixtures that several modules' unit tests share.

use std::collections::BTreeMap;
use std::sync::Arc;

use api_types::engine::{EngineSpec, EngineType, NetworkType, Params, PublisherSpec};
use api_types::job::{JobType, NetworkSpec, Task, TaskResources, Timeouts};
use api_types::protocol::Work;
use api_types::quantity::Capacity;
use api_types::{ExecutionId, JobId};
use peers::kubo::KuboServer;
use peers::s3::{self, S3Server};
use uuid::Uuid;

use crate::host::disk::Disk;
use crate::host::settings::{AwsVariables, IpfsSettings, Settings};

pub(crate) fn execution_id(number: u128) -> ExecutionId {
    ExecutionId::from_uuid(Uuid::from_u128(number))
}

/// A task of the noop engine that asks for little.
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

/// The settings of a node that reaches a peer.
pub(crate) trait OfKubo {
    fn settings(&self) -> Settings;
}

impl OfKubo for KuboServer {
    fn settings(&self) -> Settings {
        Settings { ipfs: IpfsSettings { api: self.api() }, ..Settings::default() }
    }
}

/// The same, with credentials; jobs name the endpoint.
pub(crate) trait OfS3 {
    fn settings(&self, secret: &str) -> Settings;
    fn good_settings(&self) -> Settings;
}

impl OfS3 for S3Server {
    fn settings(&self, secret: &str) -> Settings {
        let variables = [("AWS_ACCESS_KEY_ID", s3::KEY_ID), ("AWS_SECRET_ACCESS_KEY", secret)]
            .map(|(name, value)| (name.to_owned(), value.to_owned()));
        Settings {
            allow_private_addresses: true,
            aws: AwsVariables(BTreeMap::from(variables)),
            ..Settings::default()
        }
    }

    fn good_settings(&self) -> Settings {
        self.settings(s3::SECRET)
    }
}

/// A disk of which everything may be had.
pub(crate) fn any_disk() -> Disk {
    Disk::new(std::path::Path::new("/"), 0)
}

pub(crate) fn work() -> Arc<Work> {
    Arc::new(plain_work())
}
