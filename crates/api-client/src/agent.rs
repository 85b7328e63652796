//! The agent group: the addressed daemon's own state, an orchestrator's or an agent's.

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

/// Selects a part of an execution's output.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LogsQuery {
    /// Continue until the execution ends.
    pub follow: bool,
    /// Number of last lines to begin with; all when absent.
    pub tail: Option<u64>,
    /// `stdout` or `stderr`; both when absent.
    pub stream: Option<String>,
}

/// Rows of a page: as many as an agent sends.
const LARGEST_PAGE: u32 = 1000;

impl Client {
    /// `GET /api/v1/agent/alive`.
    pub async fn alive(&self) -> Result<Alive, ClientError> {
        self.get(routes::ALIVE).send().await
    }

    /// `GET /api/v1/agent/version`.
    pub async fn version(&self) -> Result<VersionRecord, ClientError> {
        self.get(routes::VERSION).send().await
    }

    /// `GET /api/v1/agent/node`.
    pub async fn agent_node(&self) -> Result<Node, ClientError> {
        self.get(routes::AGENT_NODE).send().await
    }

    /// `GET /api/v1/agent/executions`, all pages; only agents serve it and the two operations below.
    pub async fn agent_executions(&self) -> Result<Vec<LocalExecution>, ClientError> {
        let mut executions = Vec::new();
        let mut next_token = None;
        loop {
            let pairs =
                Pairs::default().add("limit", Some(LARGEST_PAGE)).add("next_token", next_token);
            let page: ListLocalExecutions =
                self.get(routes::AGENT_EXECUTIONS).query(&pairs.0).send().await?;
            executions.extend(page.executions);
            if page.next_token.is_empty() {
                return Ok(executions);
            }
            next_token = Some(page.next_token);
        }
    }

    /// `GET /api/v1/agent/executions/:id`.
    pub async fn agent_execution(&self, id: impl Display) -> Result<LocalExecution, ClientError> {
        self.get(&routes::fill(routes::AGENT_EXECUTION, segment(id))).send().await
    }

    /// `GET /api/v1/agent/executions/:id/logs`: the output as it arrives.
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
        let (response, context) = self.get(&path).query(&pairs.0).open().await?;
        Ok(response.bytes_stream().map_err(move |error| context.unreachable(&error)))
    }
}
