//! Asks the orchestrator for what an execution may have and its assignment does not contain.

use std::time::Duration;

use agent_core::execution::Failure;
use api_client::{Client, ClientError, Download};
use api_types::credential::{CredentialValue, CredentialsRequest};
use api_types::job_input::{
    Archives, InputArchiveRequest, InputResults, InputResultsRequest, MAX_ARCHIVES_PER_REQUEST,
};
use api_types::secret::{SecretValue, SecretsRequest};
use api_types::{Code, ExecutionId, NodeId};

use crate::data::retry::AttemptError;
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

/// What the orchestrator relays of other jobs.
impl Handover {
    /// Which results an input of the execution has. However long the orchestrator is away; the caller
    /// cancels it.
    pub(super) async fn input_results(
        &self,
        id: ExecutionId,
        input: u32,
    ) -> Result<InputResults, Failure> {
        let request = InputResultsRequest { execution_id: id, input };
        let ask = || self.client.input_results(self.node_id, &request);
        patiently(ask, "the results of another job").await
    }

    /// Opens one of the archives; makes one attempt to reach the node that has it.
    pub(super) async fn input_archive(
        &self,
        request: &InputArchiveRequest,
    ) -> Result<Download, AttemptError> {
        let mut backoff = Backoff::new(RETRY_FIRST, RETRY_LONGEST);
        loop {
            let error = match self.client.input_archive(self.node_id, request).await {
                Ok(download) => return Ok(download),
                Err(error) => error,
            };
            match error.code() {
                Some(Code::NodeUnavailable) => {
                    return Err(AttemptError::transient(message(&error)));
                }
                _ => await_retry(&error, "an archive", &mut backoff)
                    .await
                    .map_err(AttemptError::Permanent)?,
            }
        }
    }

    /// Those of these archives that have to stay, because live jobs depend on the jobs that published
    /// them. However long the orchestrator is away.
    pub(crate) async fn needed_archives(
        &self,
        ids: &[ExecutionId],
    ) -> Result<Vec<ExecutionId>, Failure> {
        let mut needed = Vec::new();
        for part in ids.chunks(MAX_ARCHIVES_PER_REQUEST) {
            let archives = Archives { executions: part.to_vec() };
            let ask = || async {
                match self.client.needed_archives(self.node_id, &archives).await {
                    // An orchestrator of an earlier release, which has no jobs that read results.
                    Err(error) if error.code() == Some(Code::PathNotFound) => {
                        Ok(Archives::default())
                    }
                    answer => answer,
                }
            };
            needed.extend(patiently(ask, "which archives are needed").await?.executions);
        }
        Ok(needed)
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
        await_retry(&error, what, &mut backoff).await?;
    }
}

/// Waits until it makes sense to ask again, unless it does not.
async fn await_retry(
    error: &ClientError,
    what: &str,
    backoff: &mut Backoff,
) -> Result<(), Failure> {
    match error.code() {
        // It may exist later: the job waits for it, on whichever node.
        Some(Code::SecretNotFound | Code::CredentialNotFound) => {
            return Err(Failure::missing(message(error)));
        }
        // Of another job, which has ended: they will not exist later either.
        Some(Code::ResultNotFound) => return Err(Failure::task(message(error))),
        // A certificate that is being renewed, or a session that begins again.
        Some(Code::Unauthenticated | Code::StaleSession) => {}
        _ if error.is_transient() => {}
        _ => return Err(Failure::node(format!("cannot get {what}: {}", message(error)))),
    }
    tracing::debug!(%error, what, "the orchestrator does not answer; asking again");
    backoff.wait().await;
    Ok(())
}

/// The orchestrator's own words, where it said something.
fn message(error: &ClientError) -> String {
    match error {
        ClientError::Api(error) => error.message.clone(),
        other => other.to_string(),
    }
}
