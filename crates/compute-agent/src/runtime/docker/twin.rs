//! Twins of tasks as containers: the agent's own program in the task's kind of container.
//!
//! A twin is created and started like a task, result directories included, and removed once it has
//! started. A twin with a network also gets a new sandbox, because that is what a task gets for
//! which none is ready.

use std::collections::{BTreeSet, HashMap};
use std::future::Future;
use std::path::Path;
use std::time::Duration;

use agent_core::execution::Failure;
use api_types::NodeId;
use api_types::engine::NetworkType;
use bollard::models::{ContainerCreateBody, Mount, MountType};
use bollard::query_parameters::{ListContainersOptions, RemoveContainerOptions};
use failpoint::StepFailpoints;
use tokio::sync::Mutex;
use tracing::debug;

use super::engine::Engine;
use super::error::{is_not_found, of_engine};
use super::sandbox::{Labels, ensure_image};
use super::{Docker, LABEL_NODE, RETRY_FIRST, RETRY_LONGEST, container, error, result_directories};
use crate::host::backoff::Backoff;
use crate::host::mint;
use crate::runtime::ExecutorError;
use crate::runtime::twin::{TWIN_TIMEOUT, Twin};

/// Marks a twin, and its sandbox; its value is the node whose agent created it.
const LABEL_TWIN_OF: &str = "service.org/twin-of";

/// The argument with which the agent's program prints the addresses of its network, and ends.
const TASK: &str = "addresses";

/// A result directory of a twin. Its image has none.
const RESULTS: &str = "/results";

/// Limit on the time for the removal of a twin. The next twin removes what is left.
const REMOVAL_TIMEOUT: Duration = Duration::from_secs(10);

/// An Engine that fails every start.
const FAILPOINTS: StepFailpoints<ExecutorError> = StepFailpoints {
    before: "docker.twin",
    after: "docker.twinned",
    refused: || of_engine(failed()),
    lost: || error::unreachable("failpoint".to_owned()),
};

fn failed() -> bollard::errors::Error {
    let message = "failpoint".to_owned();
    bollard::errors::Error::DockerResponseServerError { status_code: 500, message }
}

/// The twins of one node.
pub(super) struct Twins {
    node_id: NodeId,
    /// Held by the one that runs, and while twins are removed.
    alone: Mutex<()>,
}

// === impl Twins ===

impl Twins {
    pub(super) fn new(node_id: NodeId) -> Self {
        Self { node_id, alone: Mutex::default() }
    }

    /// Runs one twin at a time. It takes none of the permits for changes: those may all be held by
    /// tasks that the Engine does not create.
    pub(super) async fn run(&self, engine: &Docker, twin: &Twin) -> Result<(), ExecutorError> {
        let _alone = self.alone.lock().await;
        let client = engine.client()?;
        let started = failpoint::around(FAILPOINTS, || self.start(engine, &client, twin)).await;
        match tokio::time::timeout(REMOVAL_TIMEOUT, self.remove_all(&client)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => debug!(%error, "a twin is left to the next one"),
            Err(_) => debug!("a twin is left to the next one: docker does not remove it"),
        }
        started
    }

    /// Returns once the Engine has answered.
    pub(super) async fn remove_those_of_an_earlier_agent(
        &self,
        client: impl Fn() -> Result<Engine, ExecutorError>,
    ) {
        let mut backoff = Backoff::new(RETRY_FIRST, RETRY_LONGEST);
        loop {
            let alone = self.alone.lock().await;
            let removed = match client() {
                Ok(client) => self.remove_all(&client).await,
                Err(error) => Err(error),
            };
            drop(alone);
            match removed {
                Ok(()) => return,
                Err(error) => debug!(%error, "cannot remove the twins of an earlier agent yet"),
            }
            backoff.wait().await;
        }
    }

    async fn start(
        &self,
        engine: &Docker,
        client: &Engine,
        twin: &Twin,
    ) -> Result<(), ExecutorError> {
        let sandbox = match twin.likeness.network {
            NetworkType::Full => {
                let making = engine.guarded.make_apart(client, self.labels());
                Some(in_time("its network was not made", making).await?)
            }
            NetworkType::None | NetworkType::Http => None,
        };
        in_time("it did not start", self.start_in(engine, client, twin, sandbox)).await
    }

    async fn start_in(
        &self,
        engine: &Docker,
        client: &Engine,
        twin: &Twin,
        sandbox: Option<String>,
    ) -> Result<(), ExecutorError> {
        let image = ensure_image(client).await.map_err(of_engine)?;
        let mounts = twin.mounts.iter().enumerate();
        let frame = container::Frame {
            resources: twin.likeness.resources,
            gpus: &twin.likeness.gpus,
            sandbox: sandbox.as_deref(),
            mounts: mounts.map(|(index, source)| mount(index, source)).collect(),
            capabilities: if twin.likeness.capabilities { &engine.capabilities } else { &[] },
        };
        let body = ContainerCreateBody {
            image: Some(image),
            cmd: Some(vec![TASK.to_owned()]),
            labels: Some(self.labels()),
            host_config: Some(frame.host_config()),
            ..Default::default()
        };
        let name = format!("twin-{}", mint::request_id());
        let disk_bytes = twin.likeness.resources.disk_bytes;
        let created = engine.write_limits.create(client, name.clone(), body, disk_bytes).await;
        created.map_err(of_engine)?;
        let directories = BTreeSet::from([RESULTS.to_owned()]);
        result_directories::make(client, &name, directories).await?;
        client.start_container(&name).await.map_err(of_engine)
    }

    fn labels(&self) -> Labels {
        [LABEL_NODE, LABEL_TWIN_OF].map(|label| (label.to_owned(), self.node_id.to_string())).into()
    }

    /// The caller holds `alone`.
    async fn remove_all(&self, client: &Engine) -> Result<(), ExecutorError> {
        let filter = format!("{LABEL_TWIN_OF}={}", self.node_id);
        let options = ListContainersOptions {
            all: true,
            filters: Some(HashMap::from([("label".to_owned(), vec![filter])])),
            ..Default::default()
        };
        let twins = client.list_containers(Some(options)).await.map_err(of_engine)?;
        for id in twins.into_iter().filter_map(|twin| twin.id) {
            let options = RemoveContainerOptions { v: true, force: true, link: false };
            match client.remove_container(&id, Some(options)).await {
                // A sandbox removes itself when it ends.
                Err(error) if error::is_conflict(&error) || is_not_found(&error) => {}
                removed => removed.map_err(of_engine)?,
            }
        }
        Ok(())
    }
}

/// A container of a twin has this time: its sandbox, and the twin itself.
async fn in_time<T>(
    what: &str,
    step: impl Future<Output = Result<T, ExecutorError>>,
) -> Result<T, ExecutorError> {
    tokio::time::timeout(TWIN_TIMEOUT, step).await.unwrap_or_else(|_| {
        Err(ExecutorError::Failed(Failure::node(format!("{what} within {TWIN_TIMEOUT:?}"))))
    })
}

fn mount(index: usize, source: &Path) -> Mount {
    Mount {
        typ: Some(MountType::BIND),
        source: Some(source.to_string_lossy().into_owned()),
        target: Some(format!("/mounts/{index}")),
        read_only: Some(true),
        ..Default::default()
    }
}
