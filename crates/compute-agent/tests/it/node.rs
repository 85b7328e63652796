//! One agent with everything around it, and the work that it is given.

use std::collections::BTreeMap;

use api_types::engine::{EngineSpec, EngineType, NetworkType, Params, PublisherSpec};
use api_types::job::{JobType, NetworkSpec, Task, TaskResources, Timeouts};
use api_types::protocol::{ListLocalExecutions, Work};
use api_types::quantity::Capacity;
use api_types::{ExecutionId, JobId, NodeId, routes};
use bollard::Docker;
use bollard::query_parameters::KillContainerOptions;
use compute_agent::{Agent, RunningAgent, Settings};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::containers::{self, TASK};
use crate::image;
use crate::orchestrator::{Orchestrator, PATIENCE};

pub(crate) struct Node {
    pub(crate) orchestrator: Orchestrator,
    pub(crate) settings: Settings,
    agent: Option<RunningAgent>,
    id: NodeId,
    /// Holds the data directory, which is removed with the node.
    _dir: TempDir,
}

/// Removes what the node leaves on this machine. A test that awaits a report ends before the agent
/// has removed the container, and a pool of sandboxes outlives its agent.
impl Drop for Node {
    fn drop(&mut self) {
        if self.settings.engines.contains(&EngineType::Docker) {
            let agent = self.agent.take();
            tokio::task::block_in_place(|| {
                tokio::runtime::Handle::current().block_on(async {
                    // It would fill its pool again.
                    if let Some(agent) = agent {
                        agent.kill().await;
                    }
                    containers::remove_all(self.id).await;
                });
            });
        }
        programs::end_runners(&self.settings.data_dir);
    }
}

/// A node with a Docker Engine, and the image of these tests.
pub(crate) struct DockerNode {
    pub(crate) node: Node,
    pub(crate) docker: Docker,
    pub(crate) image: String,
}

impl Node {
    pub(crate) async fn start(change: impl FnOnce(&mut Settings)) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let orchestrator = Orchestrator::start().await;
        let mut settings = Settings {
            listen: ([127, 0, 0, 1], 0).into(),
            data_dir: dir.path().join("data"),
            orchestrator: orchestrator.url(),
            engines: vec![EngineType::Noop],
            stop_grace_seconds: 1,
            // The servers and registries of these tests are on this machine.
            allow_private_addresses: true,
            program: Some(env!("CARGO_BIN_EXE_compute-agent").into()),
            ..Settings::default()
        };
        // Only the tests of the pools wait for one to fill.
        settings.docker.sandbox_pool = 0;
        settings.docker.network_pool = 0;
        change(&mut settings);
        if settings.engines.contains(&EngineType::Wasm) && settings.wasm.runner.is_empty() {
            let runner = tokio::task::spawn_blocking(|| programs::binary("wasm-runner")).await;
            settings.wasm.runner = runner.expect("the runner").display().to_string();
        }
        let agent = Agent::start(settings.clone()).await.expect("the agent starts");
        let id = agent.node_id;
        Self { orchestrator, settings, agent: Some(agent), id, _dir: dir }
    }

    pub(crate) async fn start_agent(&mut self) {
        self.agent = Some(Agent::start(self.settings.clone()).await.expect("the agent starts"));
    }

    /// As if its process were killed.
    pub(crate) async fn kill_agent(&mut self) {
        self.agent.take().expect("it runs").kill().await;
    }

    pub(crate) async fn shut_down_agent(&mut self) {
        self.agent.take().expect("it runs").shutdown().await;
    }

    pub(crate) fn id(&self) -> NodeId {
        self.id
    }

    pub(crate) fn execution_dir(&self, id: ExecutionId) -> std::path::PathBuf {
        self.settings.data_dir.join("executions").join(id.to_string())
    }

    pub(crate) fn url(&self, path: &str) -> String {
        let address = self.agent.as_ref().expect("it runs").listen_addr;
        format!("http://{address}{path}")
    }

    /// The phase of an execution in the local API; none when it does not list it.
    pub(crate) async fn phase(&self, id: ExecutionId) -> Option<String> {
        let body = crate::http::get(&self.url(routes::AGENT_EXECUTIONS)).await.body;
        let listed: ListLocalExecutions = serde_json::from_slice(&body).expect("a list");
        listed.executions.into_iter().find(|local| local.id == id).map(|local| local.phase)
    }

    pub(crate) async fn wait_for_phase(&self, id: ExecutionId, wanted: &str) {
        eventually(&format!("{id} in phase {wanted}"), async || {
            self.phase(id).await.as_deref() == Some(wanted)
        })
        .await;
    }

    /// Waits until a running task has printed exactly this.
    pub(crate) async fn printed(&self, id: ExecutionId, text: &str) {
        eventually(&format!("{id} to print '{text}'"), async || {
            self.output(id).await == text.as_bytes()
        })
        .await;
    }

    /// The same for this many bytes, where the order of both streams does not matter.
    pub(crate) async fn printed_bytes(&self, id: ExecutionId, count: usize) {
        eventually(&format!("{id} to print {count} bytes"), async || {
            self.output(id).await.len() == count
        })
        .await;
    }

    async fn output(&self, id: ExecutionId) -> Vec<u8> {
        let url = self.url(&format!("/api/v1/agent/executions/{id}/logs"));
        crate::http::get(&url).await.body.to_vec()
    }

    /// Containers are removed after collection, which follows the report.
    pub(crate) async fn leaves_no_container(&self, docker: &Docker) {
        eventually("all containers to be removed", async || {
            containers::labelled(docker, TASK, self.id).await.is_empty()
        })
        .await;
    }
}

impl DockerNode {
    /// None where there is no Docker Engine.
    pub(crate) async fn start() -> Option<Self> {
        Self::start_with(|_| ()).await
    }

    pub(crate) async fn start_with(change: impl FnOnce(&mut Settings)) -> Option<Self> {
        let docker = image::docker().await?;
        let image = image::ensure(&docker).await;
        let node = Node::start(|settings| {
            settings.engines = vec![EngineType::Docker];
            change(settings);
        })
        .await;
        Some(Self { node, docker, image })
    }

    pub(crate) fn orchestrator(&self) -> &Orchestrator {
        &self.node.orchestrator
    }

    /// A task of the test image with these steps.
    pub(crate) fn work(&self, steps: &[&str]) -> Work {
        work(EngineType::Docker, json!({"Image": self.image, "Parameters": steps}))
    }

    /// Ends the step `await` of a task, which has said that it waits.
    pub(crate) async fn signal(&self, id: ExecutionId) {
        let options = KillContainerOptions { signal: "SIGUSR1".to_owned() };
        let name = format!("execution-{id}");
        self.docker.kill_container(&name, Some(options)).await.expect("the task waits");
    }

    pub(crate) async fn nothing_is_left(&self) {
        self.node.leaves_no_container(&self.docker).await;
    }
}

pub(crate) fn work(engine: EngineType, params: Value) -> Work {
    let params: Params = serde_json::from_value(params).expect("an object");
    let job = crate::orchestrator::new_id().uuid();
    Work {
        job_id: JobId::from_uuid(job),
        job_name: "test".to_owned(),
        namespace: "default".to_owned(),
        job_type: JobType::Batch,
        index: 2,
        count: 3,
        resources: Capacity { cpu: 0.5, memory: 64_000_000, disk: 0, gpu: 0 },
        no_capabilities: false,
        traceparent: None,
        task: Task {
            name: "main".to_owned(),
            engine: EngineSpec { engine_type: engine, params },
            publisher: PublisherSpec::default(),
            env: BTreeMap::new(),
            secrets: Vec::new(),
            meta: BTreeMap::new(),
            input_sources: Vec::new(),
            result_paths: Vec::new(),
            resources: TaskResources::default(),
            network: NetworkSpec { network_type: NetworkType::None, domains: Vec::new() },
            timeouts: Timeouts::default(),
        },
    }
}

/// Polls until the condition holds, within the time limit of these tests.
pub(crate) async fn eventually(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    /// Polling interval for conditions without a notification.
    const LOOK_AGAIN: std::time::Duration = std::time::Duration::from_millis(20);
    let looking = async {
        while !is_so().await {
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    };
    if tokio::time::timeout(PATIENCE, looking).await.is_err() {
        panic!("waited in vain for {what}");
    }
}
