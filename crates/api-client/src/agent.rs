//! The agent group: what the addressed node, an orchestrator or an agent, says of itself.

use std::fmt::Display;

use api_types::node::{Alive, Node};
use api_types::protocol::{ListLocalExecutions, LocalExecution};
use api_types::routes;
use api_types::version::VersionRecord;
use bytes::Bytes;
use futures_util::{Stream, TryStreamExt};

use crate::client::{Client, segment};
use crate::error::ClientError;
use crate::query::Pairs;

/// Which part of an execution's output.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LogsQuery {
    /// Goes on until the execution ends.
    pub follow: bool,
    /// Only so many of the last lines.
    pub tail: Option<u64>,
    /// `stdout` or `stderr`; both when absent.
    pub stream: Option<String>,
}

impl Client {
    /// `GET /api/v1/agent/alive`.
    pub async fn alive(&self) -> Result<Alive, ClientError> {
        self.get(routes::ALIVE).answer().await
    }

    /// `GET /api/v1/agent/version`.
    pub async fn version(&self) -> Result<VersionRecord, ClientError> {
        self.get(routes::VERSION).answer().await
    }

    /// `GET /api/v1/agent/node`.
    pub async fn agent_node(&self) -> Result<Node, ClientError> {
        self.get(routes::AGENT_NODE).answer().await
    }

    /// `GET /api/v1/agent/executions`; only agents serve it, like the two below.
    pub async fn agent_executions(&self) -> Result<Vec<LocalExecution>, ClientError> {
        let answer: ListLocalExecutions = self.get(routes::AGENT_EXECUTIONS).answer().await?;
        Ok(answer.executions)
    }

    /// `GET /api/v1/agent/executions/:id`.
    pub async fn agent_execution(&self, id: impl Display) -> Result<LocalExecution, ClientError> {
        self.get(&routes::fill(routes::AGENT_EXECUTION, segment(id))).answer().await
    }

    /// `GET /api/v1/agent/executions/:id/logs`: the output as it comes.
    pub async fn agent_execution_logs(
        &self,
        id: &str,
        query: &LogsQuery,
    ) -> Result<impl Stream<Item = Result<Bytes, ClientError>> + Send + Unpin + use<>, ClientError>
    {
        let pairs = Pairs::default()
            .add_flag("follow", query.follow)
            .add("tail", query.tail)
            .add("stream", query.stream.as_ref());
        let path = routes::fill(routes::AGENT_EXECUTION_LOGS, segment(id));
        let (response, place) = self.get(&path).query(&pairs.0).open().await?;
        Ok(response.bytes_stream().map_err(move |error| place.unreachable(&error)))
    }
}
