//! Tasks that end when a test tells them to, instead of after a time that a busy machine exceeds.

use api_types::{ExecutionId, JobId, NodeId};
use tokio::process::Command;

use super::cluster::Cluster;
use super::wait::eventually;

/// What `await` of the task image prints once it can be signalled.
const WAITS: &str = "waiting\n";

// === impl Cluster: signals ===

impl Cluster {
    /// Ends the `await` of every task of a job that runs or is about to.
    pub async fn signal(&self, job: JobId) {
        for execution in self.executions(job).await {
            if !execution.compute_state.state_type.is_terminal() {
                self.signal_execution(execution.id).await;
            }
        }
    }

    /// Ends the `await` of the only task that runs on a node, as soon as there is one.
    pub async fn signal_one(&self, node: NodeId) {
        let id = eventually(&format!("{node} runs a task"), async || {
            let containers = self.containers().await;
            let its = containers
                .iter()
                .find(|one| one.node_id == node.to_string() && one.state == "running");
            let id = its.and_then(|one| one.execution_id.parse().ok());
            id.ok_or_else(|| format!("{containers:?}"))
        })
        .await;
        self.signal_execution(id).await;
    }

    /// Ends the `await` of a task. Docker is asked directly: no daemon needs to run.
    pub async fn signal_execution(&self, id: ExecutionId) {
        let name = format!("execution-{id}");
        eventually(&format!("{name} waits for a signal"), async || {
            let printed = docker(&["logs", &name]).await?;
            if printed.contains(WAITS) { Ok(()) } else { Err(printed) }
        })
        .await;
        let signalled = docker(&["kill", "--signal", "USR1", &name]).await;
        signalled.unwrap_or_else(|said| panic!("cannot signal {name}: {said}"));
    }
}

async fn docker(arguments: &[&str]) -> Result<String, String> {
    let output = Command::new("docker").args(arguments).output().await;
    let output = output.map_err(|error| error.to_string())?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}
