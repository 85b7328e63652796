//! Asks the orchestrator for what an execution may have and its assignment does not contain.

use std::time::Duration;

use agent_core::execution::Failure;
use api_client::{Client, ClientError};
use api_types::credential::{CredentialValue, CredentialsRequest};
use api_types::secret::{SecretValue, SecretsRequest};
use api_types::{Code, ExecutionId, NodeId};

use crate::host::backoff::Backoff;

/// Delays between attempts to reach the orchestrator.
const RETRY_FIRST: Duration = Duration::from_millis(200);
const RETRY_LONGEST: Duration = Duration::from_secs(5);

/// The node's own part of the protocol, for what is handed over.
#[derive(Debug, Clone)]
pub(crate) struct Handover {
    client: Client,
    node_id: NodeId,
}

// === impl Handover ===

impl Handover {
    pub(crate) fn new(client: Client, node_id: NodeId) -> Self {
        Self { client, node_id }
    }

    /// However long the orchestrator is away; the caller cancels it.
    pub(super) async fn secrets(&self, id: ExecutionId) -> Result<Vec<SecretValue>, Failure> {
        let request = SecretsRequest { execution_id: id };
        let ask = || self.client.secrets(self.node_id, &request);
        Ok(patiently(ask, "the task's secrets").await?.secrets)
    }

    /// Of those that the execution names only these, or all if there are none. However long the
    /// orchestrator is away; the caller cancels it.
    pub(super) async fn credentials(
        &self,
        id: ExecutionId,
        names: Vec<String>,
    ) -> Result<Vec<CredentialValue>, Failure> {
        let request = CredentialsRequest { execution_id: id, names };
        let ask = || self.client.credentials(self.node_id, &request);
        Ok(patiently(ask, "the task's credentials").await?.credentials)
    }
}

async fn patiently<T, A: Future<Output = Result<T, ClientError>>>(
    ask: impl Fn() -> A,
    what: &str,
) -> Result<T, Failure> {
    let mut backoff = Backoff::new(RETRY_FIRST, RETRY_LONGEST);
    loop {
        let error = match ask().await {
            Ok(answer) => return Ok(answer),
            Err(error) => error,
        };
        match error.code() {
            // It may exist later: the job waits for it, on whichever node.
            Some(Code::SecretNotFound | Code::CredentialNotFound) => {
                return Err(Failure::missing(message(&error)));
            }
            // A certificate that is being renewed, or a session that begins again.
            Some(Code::Unauthenticated | Code::StaleSession) => {}
            _ if error.is_transient() => {}
            _ => return Err(Failure::node(format!("cannot get {what}: {}", message(&error)))),
        }
        tracing::debug!(%error, what, "the orchestrator does not answer; asking again");
        backoff.wait().await;
    }
}

/// The orchestrator's own words, where it said something.
fn message(error: &ClientError) -> String {
    match error {
        ClientError::Api(error) => error.message.clone(),
        other => other.to_string(),
    }
}
