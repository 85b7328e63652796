//! The agent's side of the agent protocol.

use std::time::Duration;

use api_types::credential::{CredentialsAnswer, CredentialsRequest};
use api_types::job_input::{Archives, InputArchiveRequest, InputResults, InputResultsRequest};
use api_types::protocol::{
    AssignmentLine, Heartbeat, HeartbeatAnswer, ReportAnswer, ReportBatch, SessionAnswer,
    SessionRequest,
};
use api_types::secret::{SecretsAnswer, SecretsRequest};
use api_types::{NodeId, routes};
use bytes::Bytes;
use futures_util::{Stream, TryStream};
use reqwest::{Body, Method};
use uuid::Uuid;

use crate::client::Client;
use crate::download::Download;
use crate::error::ClientError;
use crate::lines;

/// Time limit of a node's small requests. A connection may be dead without a word, and what a node
/// owes must arrive elsewhere well before anything counts as late: an offer waits 15 s for its answer.
const PROTOCOL_TIMEOUT: Duration = Duration::from_secs(10);

impl Client {
    /// `PUT /nodes/:id/session`: joins or rejoins.
    pub async fn join(
        &self,
        node_id: NodeId,
        request: &SessionRequest,
    ) -> Result<SessionAnswer, ClientError> {
        self.call(Method::PUT, &routes::fill(routes::NODE_SESSION, node_id))
            .timeout(PROTOCOL_TIMEOUT)
            .json(request)
            .send()
            .await
    }

    /// `PUT /nodes/:id/heartbeat`: renews the lease. Fails after `timeout`.
    pub async fn heartbeat(
        &self,
        node_id: NodeId,
        heartbeat: &Heartbeat,
        timeout: Duration,
    ) -> Result<HeartbeatAnswer, ClientError> {
        self.call(Method::PUT, &routes::fill(routes::NODE_HEARTBEAT, node_id))
            .timeout(timeout)
            .json(heartbeat)
            .send()
            .await
    }

    /// `GET /nodes/:id/assignments`: the stream of the node's desired state.
    ///
    /// Once it is open, it has no timeout: the caller detects a silent peer by missing
    /// keep-alive lines ([`api_types::protocol::KEEP_ALIVE_SECONDS`]).
    pub async fn assignments(
        &self,
        node_id: NodeId,
        session: u64,
    ) -> Result<
        impl Stream<Item = Result<AssignmentLine, ClientError>> + Send + Unpin + use<>,
        ClientError,
    > {
        let path = routes::fill(routes::NODE_ASSIGNMENTS, node_id);
        let (response, context) = self
            .get(&path)
            .timeout(PROTOCOL_TIMEOUT)
            .query(&[("session", session.to_string())])
            .open()
            .await?;
        Ok(lines::values(Box::pin(response.bytes_stream()), context))
    }

    /// `POST /nodes/:id/streams/:id`: sends the requested output, frame by frame
    /// ([`api_types::log::LogFrame`]). Returns when everything is sent or the reader is gone.
    pub async fn answer_stream<S>(
        &self,
        node_id: NodeId,
        stream_id: Uuid,
        frames: S,
    ) -> Result<(), ClientError>
    where
        S: TryStream<Ok = Bytes, Error = std::io::Error> + Send + 'static,
    {
        let path = routes::fill(&routes::fill(routes::NODE_STREAM, node_id), stream_id);
        self.call(Method::POST, &path).upload(Body::wrap_stream(frames)).await
    }

    /// `POST /nodes/:id/secrets`: the secrets of an execution that this node is about to start.
    pub async fn secrets(
        &self,
        node_id: NodeId,
        request: &SecretsRequest,
    ) -> Result<SecretsAnswer, ClientError> {
        self.call(Method::POST, &routes::fill(routes::NODE_SECRETS, node_id))
            .timeout(PROTOCOL_TIMEOUT)
            .json(request)
            .send()
            .await
    }

    /// `POST /nodes/:id/credentials`: the credentials that an execution on this node names.
    pub async fn credentials(
        &self,
        node_id: NodeId,
        request: &CredentialsRequest,
    ) -> Result<CredentialsAnswer, ClientError> {
        self.call(Method::POST, &routes::fill(routes::NODE_CREDENTIALS, node_id))
            .timeout(PROTOCOL_TIMEOUT)
            .json(request)
            .send()
            .await
    }

    /// `POST /nodes/:id/inputs`: which results an input of an execution on this node has.
    pub async fn input_results(
        &self,
        node_id: NodeId,
        request: &InputResultsRequest,
    ) -> Result<InputResults, ClientError> {
        self.call(Method::POST, &routes::fill(routes::NODE_INPUTS, node_id))
            .timeout(PROTOCOL_TIMEOUT)
            .json(request)
            .send()
            .await
    }

    /// `POST /nodes/:id/inputs/archive`: the archive of one of these results, from its node.
    pub async fn input_archive(
        &self,
        node_id: NodeId,
        request: &InputArchiveRequest,
    ) -> Result<Download, ClientError> {
        let path = routes::fill(routes::NODE_INPUT_ARCHIVE, node_id);
        self.call(Method::POST, &path).json(request).accept("*/*").download(0).await
    }

    /// `POST /nodes/:id/archives/needed`: those of this node's archives that jobs depend on.
    pub async fn needed_archives(
        &self,
        node_id: NodeId,
        archives: &Archives,
    ) -> Result<Archives, ClientError> {
        self.call(Method::POST, &routes::fill(routes::NODE_NEEDED_ARCHIVES, node_id))
            .timeout(PROTOCOL_TIMEOUT)
            .json(archives)
            .send()
            .await
    }

    /// `PUT /nodes/:id/executions`: reports observed states; repeats are harmless. Fails after
    /// `timeout`.
    pub async fn report(
        &self,
        node_id: NodeId,
        batch: &ReportBatch,
        timeout: Duration,
    ) -> Result<ReportAnswer, ClientError> {
        self.call(Method::PUT, &routes::fill(routes::NODE_EXECUTIONS, node_id))
            .timeout(timeout)
            .json(batch)
            .send()
            .await
    }
}
