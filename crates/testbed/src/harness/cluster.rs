//! The cluster of a test: an orchestrator and its agents.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::net::Ipv4Addr;
use std::time::Duration;

use api_client::{Client, ExecutionsQuery, HistoryQuery};
use api_types::JobId;
use api_types::engine::EngineType;
use api_types::execution::{ComputeState, Execution};
use api_types::history::HistoryEvent;
use api_types::job::{Job, JobStateType};
use api_types::joining::CreateNodeToken;
use api_types::node::Connection;
use bollard::Docker;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::agent::{Agent, AgentSpec};
use super::orchestrator::OrchestratorProcess;
use super::shared_store::SharedStore;
use super::sharing::{Shared, Sharing};
use super::wait::eventually;
use task_image::docker::{self, LabelledContainer};
use task_image::image;

/// How long after a kill of its agent a container may still appear whose creation was in progress.
const CREATION_TIME: Duration = Duration::from_millis(200);

/// Configuration of a cluster.
#[derive(Default)]
pub struct ClusterSpec {
    agents: Vec<AgentSpec>,
    settings: BTreeMap<String, String>,
    host: Option<Ipv4Addr>,
    sharing: Option<Sharing>,
}

/// A running cluster. Dropping it ends the daemons and removes their containers and directories.
pub struct Cluster {
    /// The only one, or the first of those that share a store.
    pub orchestrator: OrchestratorProcess,
    /// What else a cluster has that shares a store.
    pub(super) shared: Option<Shared>,
    pub agents: Vec<Agent>,
    /// The name of the task image.
    pub image: String,
    docker: Option<Docker>,
    directory: TempDir,
}

// === impl ClusterSpec ===

impl ClusterSpec {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn agent(mut self, spec: AgentSpec) -> Self {
        self.agents.push(spec);
        self
    }

    /// Address on which the orchestrator listens, instead of loopback.
    pub fn host(mut self, host: Ipv4Addr) -> Self {
        self.host = Some(host);
        self
    }

    /// Several orchestrators on one store.
    pub fn sharing(mut self, store: SharedStore, orchestrators: usize) -> Self {
        self.sharing = Some(Sharing { store, orchestrators });
        self
    }

    /// The orchestrator serves TLS and asks for credentials; agents join with tokens.
    pub fn protected(self) -> Self {
        self.setting("ORCHESTRATOR_AUTH", "required")
    }

    /// A setting of the orchestrator, by the name of its environment variable.
    pub fn setting(mut self, variable: &str, value: &str) -> Self {
        self.settings.insert(variable.to_owned(), value.to_owned());
        self
    }

    /// Starts everything and waits until every node is ready. Without Docker it prints the reason
    /// and returns `None`, or panics when `CI` is set.
    pub async fn start(self) -> Option<Cluster> {
        let docker = match docker::connect().await {
            Ok(docker) => docker,
            Err(missing) if std::env::var_os("CI").is_some() => panic!("{missing}"),
            Err(missing) => {
                eprintln!("skipped: {missing}");
                return None;
            }
        };
        let image = image::ensure(&docker)
            .await
            .unwrap_or_else(|error| panic!("cannot build the task image: {error}"));
        Some(self.start_with(Some(docker), image).await)
    }

    /// Starts only an orchestrator, without Docker; submitted jobs stay queued.
    pub async fn start_without_agents(self) -> Cluster {
        assert!(self.agents.is_empty(), "the specification has agents");
        self.start_without_docker().await
    }

    /// Starts agents that offer only engines other than docker.
    pub async fn start_without_docker(self) -> Cluster {
        assert!(!self.agents.iter().any(AgentSpec::offers_docker), "an agent offers docker");
        self.start_with(None, "never-pulled".to_owned()).await
    }

    async fn start_with(self, docker: Option<Docker>, image: String) -> Cluster {
        let directory = tempfile::Builder::new()
            .prefix("testbed-")
            .tempdir()
            .unwrap_or_else(|error| panic!("cannot create a temporary directory: {error}"));
        let host = self.host.unwrap_or(Ipv4Addr::LOCALHOST);
        let (path, agents) = (directory.path(), Vec::new());
        let (orchestrator, shared) = match self.sharing {
            None => (OrchestratorProcess::start(path, host, &self.settings).await, None),
            Some(sharing) => {
                let (first, shared) = sharing.start(path, host, &self.settings).await;
                (first, Some(shared))
            }
        };
        let mut cluster = Cluster { orchestrator, shared, agents, image, docker, directory };
        for spec in &self.agents {
            cluster.add_agent(spec).await;
        }
        cluster
    }
}

// === impl Cluster ===

impl Cluster {
    /// A cluster of `agents` agents with default configuration.
    pub async fn with_agents(agents: usize) -> Option<Self> {
        let mut spec = ClusterSpec::new();
        for _ in 0..agents {
            spec = spec.agent(AgentSpec::new());
        }
        spec.start().await
    }

    /// The client of the orchestrator, or of the entrance to several.
    pub fn client(&self) -> &Client {
        self.shared.as_ref().map_or_else(|| self.orchestrator.client(), Shared::client)
    }

    /// Starts another agent and waits until it is ready.
    pub async fn add_agent(&mut self, spec: &AgentSpec) {
        let name = format!("agent-{}", self.agents.len());
        let mut spec = spec.clone();
        if let Some(shared) = &self.shared {
            spec = spec.reaching(shared.client().base_url());
        }
        if self.orchestrator.base_url().starts_with("https://") && !spec.joins() {
            let created = self.client().create_node_token(&CreateNodeToken::default()).await;
            spec = spec.joining(&created.expect("a join token").secret);
        }
        let spec = &spec;
        let agent = Agent::start(&name, self.directory.path(), &self.orchestrator, spec).await;
        let node_id = agent.node_id();
        self.agents.push(agent);
        eventually(&format!("{name} is ready"), async || {
            let node =
                self.client().describe_node(node_id).await.map_err(|error| error.to_string())?;
            let engines = &node.compute_node_info.execution_engines;
            let ready = match spec.offers_docker() {
                true => engines.contains(&EngineType::Docker),
                false => !engines.is_empty(),
            };
            if node.connection == Connection::Connected && ready {
                Ok(())
            } else {
                Err(format!("{} with {engines:?}", node.connection))
            }
        })
        .await;
    }

    pub async fn submit(&self, job: &Value) -> JobId {
        self.submit_with(job, None).await
    }

    pub async fn submit_with(&self, job: &Value, idempotency_key: Option<&str>) -> JobId {
        let body = json!({ "Job": job }).to_string();
        self.client()
            .create_job_raw(body.into(), idempotency_key)
            .await
            .unwrap_or_else(|error| panic!("the job was not accepted: {error}\n{job:#}"))
            .job_id
    }

    /// Submits with an idempotency key until the job is accepted, restarting crashed daemons.
    pub async fn submit_with_retries(&mut self, job: &Value, idempotency_key: &str) -> JobId {
        let body = json!({ "Job": job }).to_string();
        eventually(&format!("job {idempotency_key} is accepted"), async || {
            self.restart_crashed().await;
            let response = self.client().create_job_raw(body.clone().into(), Some(idempotency_key));
            match response.await {
                Ok(created) => Ok(created.job_id),
                Err(error) if error.is_transient() => Err(error.to_string()),
                Err(error) => panic!("the job was not accepted: {error}"),
            }
        })
        .await
    }

    /// Restarts crashed daemons; returns their number.
    pub async fn restart_crashed(&mut self) -> usize {
        let mut restarted = usize::from(self.orchestrator.restart_if_crashed().await);
        if let Some(shared) = &mut self.shared {
            restarted += shared.restart_crashed().await;
        }
        for agent in &mut self.agents {
            restarted += usize::from(agent.restart_if_crashed().await);
        }
        restarted
    }

    /// Waits until the job is in this state. Panics if it ends in another one.
    pub async fn wait_for_job(&self, id: JobId, expected: JobStateType) -> Job {
        let what = format!("job {} is {expected}", id.short());
        let reached = eventually(&what, async || {
            let job = self.client().describe_job(id).await.map_err(|error| error.to_string())?;
            let state = &job.state;
            if state.state_type == expected {
                Ok(Ok(job))
            } else if state.state_type.is_terminal() {
                Ok(Err(format!("it is {}: {}", state.state_type, state.message)))
            } else {
                Err(format!("it is {}: {}", state.state_type, state.message))
            }
        })
        .await;
        match reached {
            Ok(job) => job,
            Err(other) => panic!("{what}: {other}\n{:#?}", self.executions(id).await),
        }
    }

    /// Submits a job, waits until it is completed, and returns its executions.
    pub async fn run(&self, job: &Value) -> Vec<Execution> {
        let id = self.submit(job).await;
        self.wait_for_job(id, JobStateType::Completed).await;
        self.executions(id).await
    }

    /// Like [`Cluster::run`], for a job with one execution.
    pub async fn run_one(&self, job: &Value) -> Execution {
        let mut executions = self.run(job).await;
        assert_eq!(executions.len(), 1, "{executions:#?}");
        executions.remove(0)
    }

    pub async fn executions(&self, id: impl Display) -> Vec<Execution> {
        let query =
            ExecutionsQuery { order_by: Some("create_time".to_owned()), ..Default::default() };
        self.client()
            .job_executions(id, &query)
            .await
            .unwrap_or_else(|error| panic!("cannot list executions: {error}"))
            .executions
    }

    /// The only execution of a job.
    pub async fn execution(&self, id: JobId) -> Execution {
        let mut executions = self.executions(id).await;
        assert_eq!(executions.len(), 1, "{executions:#?}");
        executions.remove(0)
    }

    /// Waits until the only execution of a job is in this state.
    pub async fn wait_for_execution(&self, id: JobId, expected: ComputeState) -> Execution {
        eventually(&format!("the execution of {} is {expected:?}", id.short()), async || match self
            .executions(id)
            .await
            .as_slice()
        {
            [execution] if execution.compute_state.state_type == expected => Ok(execution.clone()),
            executions => Err(executions
                .iter()
                .map(|execution| format!("{:?}", execution.compute_state))
                .collect::<Vec<_>>()
                .join(", ")),
        })
        .await
    }

    pub async fn history(&self, id: impl Display, query: &HistoryQuery) -> Vec<HistoryEvent> {
        let found = self.client().job_history(id, query).await;
        found.unwrap_or_else(|error| panic!("cannot read the history: {error}")).history
    }

    /// The containers of the cluster's nodes, including ended ones.
    pub async fn containers(&self) -> Vec<LabelledContainer> {
        let Some(docker) = &self.docker else { return Vec::new() };
        let mut containers = Vec::new();
        for agent in &self.agents {
            let found = docker::containers_of_node(docker, &agent.node_id().to_string()).await;
            containers
                .extend(found.unwrap_or_else(|error| panic!("cannot list containers: {error}")));
        }
        containers
    }

    /// Waits until the cluster's nodes have no containers.
    pub async fn no_container_left(&self) {
        eventually("no container is left", async || match self.containers().await {
            containers if containers.is_empty() => Ok(()),
            containers => Err(format!("{containers:?}")),
        })
        .await;
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for agent in &mut self.agents {
            agent.kill();
        }
        self.orchestrator.kill();
        self.shared.iter_mut().for_each(Shared::kill);
        for entry in std::fs::read_dir(self.directory.path()).into_iter().flatten().flatten() {
            programs::end_runners(&entry.path());
        }
        if self.docker.is_none() {
            return;
        }
        let nodes: Vec<_> = self.agents.iter().map(|agent| agent.node_id().to_string()).collect();
        // A separate thread: the runtime of the test may run this code and cannot block.
        let cleaning = std::thread::spawn(move || remove_containers(&nodes));
        if !matches!(cleaning.join(), Ok(Ok(()))) {
            eprintln!("could not remove all containers of this test");
        }
    }
}

fn remove_containers(nodes: &[String]) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let docker = docker::connect().await?;
        for wait in [Duration::ZERO, CREATION_TIME] {
            tokio::time::sleep(wait).await;
            for node in nodes {
                docker::remove_containers_of_node(&docker, node).await?;
            }
        }
        Ok(())
    })
}
