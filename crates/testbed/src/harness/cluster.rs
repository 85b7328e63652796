//! A whole cluster of one test: an orchestrator, its agents, and what tests ask of them.

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
use api_types::node::Connection;
use bollard::Docker;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::agent::{Agent, AgentSpec};
use super::orchestrator::OrchestratorProcess;
use super::wait::eventually;
use crate::docker::{self, LabelledContainer};
use crate::image;

/// A container that an agent had the Engine make when it was killed is there within this time.
const STILL_BEING_MADE: Duration = Duration::from_millis(200);

/// What to start.
#[derive(Debug, Clone, Default)]
pub struct ClusterSpec {
    agents: Vec<AgentSpec>,
    settings: BTreeMap<String, String>,
    host: Option<Ipv4Addr>,
}

/// Daemons that end, with their containers and directories, when this is dropped.
pub struct Cluster {
    pub orchestrator: OrchestratorProcess,
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

    /// Where the orchestrator listens instead of on loopback.
    pub fn host(mut self, host: Ipv4Addr) -> Self {
        self.host = Some(host);
        self
    }

    /// A setting of the orchestrator, by the name of its environment variable.
    pub fn setting(mut self, variable: &str, value: &str) -> Self {
        self.settings.insert(variable.to_owned(), value.to_owned());
        self
    }

    /// Starts everything and waits until every node is ready for work. None, with the reason
    /// printed, where there is no Docker; where `CI` is set that is a failure.
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
            .unwrap_or_else(|error| panic!("there is no task image: {error}"));
        Some(self.start_with(Some(docker), image).await)
    }

    /// Only an orchestrator, which needs no Docker; whatever is submitted stays queued.
    pub async fn start_without_agents(self) -> Cluster {
        assert!(self.agents.is_empty(), "there are agents");
        self.start_without_docker().await
    }

    /// With agents that offer other engines only.
    pub async fn start_without_docker(self) -> Cluster {
        assert!(!self.agents.iter().any(AgentSpec::offers_docker), "an agent needs docker");
        self.start_with(None, "never-pulled".to_owned()).await
    }

    async fn start_with(self, docker: Option<Docker>, image: String) -> Cluster {
        let directory = tempfile::Builder::new()
            .prefix("testbed-")
            .tempdir()
            .unwrap_or_else(|error| panic!("cannot make a temporary directory: {error}"));
        let host = self.host.unwrap_or(Ipv4Addr::LOCALHOST);
        let orchestrator = OrchestratorProcess::start(directory.path(), host, &self.settings).await;
        let mut cluster = Cluster { orchestrator, agents: Vec::new(), image, docker, directory };
        for spec in &self.agents {
            cluster.add_agent(spec).await;
        }
        cluster
    }
}

// === impl Cluster ===

impl Cluster {
    /// A cluster of so many plain agents.
    pub async fn of(agents: usize) -> Option<Self> {
        let mut spec = ClusterSpec::new();
        for _ in 0..agents {
            spec = spec.agent(AgentSpec::new());
        }
        spec.start().await
    }

    /// The typed client of the orchestrator.
    pub fn client(&self) -> &Client {
        self.orchestrator.client()
    }

    /// Starts one more agent and waits until it is ready for work.
    pub async fn add_agent(&mut self, spec: &AgentSpec) {
        let name = format!("agent-{}", self.agents.len());
        let url = self.orchestrator.base_url().to_owned();
        let agent = Agent::start(&name, self.directory.path(), &url, spec).await;
        let node_id = agent.node_id();
        self.agents.push(agent);
        eventually(&format!("{name} is ready for work"), async || {
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

    /// Submits as a careful client does: with an idempotency key, again and again until the job is
    /// accepted, and again until daemons that have died on the way run again.
    pub async fn submit_stubbornly(&mut self, job: &Value, idempotency_key: &str) -> JobId {
        let body = json!({ "Job": job }).to_string();
        eventually(&format!("job {idempotency_key} is accepted"), async || {
            self.revive().await;
            let answer = self.client().create_job_raw(body.clone().into(), Some(idempotency_key));
            match answer.await {
                Ok(created) => Ok(created.job_id),
                Err(error) if error.is_transient() => Err(error.to_string()),
                Err(error) => panic!("the job was not accepted: {error}"),
            }
        })
        .await
    }

    /// Starts again what has ended by itself; answers how many daemons that were.
    pub async fn revive(&mut self) -> usize {
        let mut revived = usize::from(self.orchestrator.revive().await);
        for agent in &mut self.agents {
            revived += usize::from(agent.revive().await);
        }
        revived
    }

    /// Waits until the job is in this state. Panics when it ends in another.
    pub async fn job_in(&self, id: JobId, wanted: JobStateType) -> Job {
        let what = format!("job {} is {wanted}", id.short());
        let reached = eventually(&what, async || {
            let job = self.client().describe_job(id).await.map_err(|error| error.to_string())?;
            let state = &job.state;
            if state.state_type == wanted {
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

    /// Submits a job, waits for it to complete, and answers its executions.
    pub async fn run(&self, job: &Value) -> Vec<Execution> {
        let id = self.submit(job).await;
        self.job_in(id, JobStateType::Completed).await;
        self.executions(id).await
    }

    /// What [`Cluster::run`] answers, for a job with one execution.
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
            .unwrap_or_else(|error| panic!("no executions: {error}"))
            .executions
    }

    /// The one execution of a job.
    pub async fn execution(&self, id: JobId) -> Execution {
        let mut executions = self.executions(id).await;
        assert_eq!(executions.len(), 1, "{executions:#?}");
        executions.remove(0)
    }

    /// Waits until the one execution of a job is in this state.
    pub async fn execution_in(&self, id: JobId, wanted: ComputeState) -> Execution {
        eventually(&format!("the execution of {} is {wanted:?}", id.short()), async || {
            match self.executions(id).await.as_slice() {
                [execution] if execution.compute_state.state_type == wanted => {
                    Ok(execution.clone())
                }
                executions => Err(executions
                    .iter()
                    .map(|execution| format!("{:?}", execution.compute_state))
                    .collect::<Vec<_>>()
                    .join(", ")),
            }
        })
        .await
    }

    pub async fn history(&self, id: impl Display, query: &HistoryQuery) -> Vec<HistoryEvent> {
        self.client()
            .job_history(id, query)
            .await
            .unwrap_or_else(|error| panic!("no history: {error}"))
            .history
    }

    /// The containers that the cluster's nodes have now, ended ones included.
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

    /// Waits until no container of the cluster's nodes is left.
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
        if self.docker.is_none() {
            return;
        }
        let nodes: Vec<_> = self.agents.iter().map(|agent| agent.node_id().to_string()).collect();
        // A thread of its own: the test's runtime, in which this may run, cannot be waited upon.
        let cleaning = std::thread::spawn(move || remove_containers(&nodes));
        if !matches!(cleaning.join(), Ok(Ok(()))) {
            eprintln!("containers of this test may be left behind");
        }
    }
}

fn remove_containers(nodes: &[String]) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let docker = docker::connect().await?;
        for wait in [Duration::ZERO, STILL_BEING_MADE] {
            tokio::time::sleep(wait).await;
            for node in nodes {
                docker::remove_containers_of_node(&docker, node).await?;
            }
        }
        Ok(())
    })
}
