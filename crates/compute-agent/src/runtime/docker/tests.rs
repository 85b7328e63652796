//! What an Engine that knows only an agent's requests sees of a job.

mod strings;

use std::sync::Arc;
use std::time::Duration;

use api_types::engine::{EngineType, PullPolicy};
use api_types::protocol::FailureCause;
use api_types::{ExecutionId, NodeId};
use peers::docker::DockerEngine;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::data::secrets::ExecutionSecrets;
use crate::host::mint;
use crate::host::settings::{DockerSettings, Settings};
use crate::runtime::Run;
use crate::testing::plain_work;

/// An executor, and the Engine that it talks to.
struct Bench {
    engine: DockerEngine,
    docker: Docker,
    _record: tempfile::TempDir,
}

impl Bench {
    async fn start() -> Self {
        let engine = DockerEngine::start();
        let docker =
            DockerSettings { host: engine.host(), sandbox_pool: 0, ..DockerSettings::default() };
        // No registry is asked: what is not refused reaches the Engine.
        let settings = Settings { docker, allow_private_addresses: true, ..Settings::default() };
        let tasks = Tasks::new(tokio::runtime::Handle::current());
        let node_id = NodeId::from_uuid(mint::node_id().uuid());
        let record = tempfile::tempdir().unwrap();
        let docker = Docker::new(&settings, node_id, &record.path().join("images"), tasks);
        docker.probe().await.expect("it answers");
        Self { engine, docker, _record: record }
    }

    async fn prepare(&self, run: &Run) -> Result<(), ExecutorError> {
        let cancel = CancellationToken::new();
        let preparing =
            tokio::time::timeout(Duration::from_secs(60), self.docker.make(run, &cancel));
        preparing.await.expect("an end of the preparation")
    }
}

fn run(params: serde_json::Value) -> Run {
    let mut work = plain_work();
    work.task.engine.engine_type = EngineType::Docker;
    work.task.engine.params = serde_json::from_value(params).expect("an object");
    Run {
        id: ExecutionId::from_uuid(mint::node_id().uuid()),
        node_id: NodeId::from_uuid(mint::node_id().uuid()),
        work: Arc::new(work),
        granted: Default::default(),
        inputs: Vec::new(),
        secrets: ExecutionSecrets::default(),
        modules: Vec::new(),
        gpus: Vec::new(),
        progress: crate::data::progress::Progress::silent(),
    }
}

#[tokio::test]
async fn no_name_of_an_image_becomes_another_request() {
    let bench = Bench::start().await;
    for image in [
        "../containers/execution-e-1/archive?path=/etc/shadow&x=",
        "../distribution/127.0.0.1:5000/a",
        "a/json?b=",
        "a/json#",
        "%2e%2e/info",
        "..",
        "a/../../info",
        "//info",
        "a\r\nX: y",
    ] {
        for policy in [PullPolicy::Missing, PullPolicy::Never, PullPolicy::Always] {
            let run = run(json!({ "Image": image, "PullPolicy": policy.as_str() }));
            let ExecutorError::Failed(refused) = bench.prepare(&run).await.expect_err(image) else {
                panic!("{image}: every node would say the same of it");
            };
            assert_eq!(refused.cause, FailureCause::Task, "{image}");
            let said = refused.to_string();
            assert!(said.contains("is not a reference to an image"), "{image}: {said}");
        }
    }
    assert_eq!(bench.engine.violations(), [""; 0]);
    assert_eq!(bench.engine.served(), ["SystemVersion"]);
}
