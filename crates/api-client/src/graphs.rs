//! Graphs: create, list, describe, stop.

use api_types::graph::{CreateGraph, DescribeGraph, ListGraphs, StopGraph};
use api_types::routes;
use bytes::Bytes;
use reqwest::Method;

use crate::client::{Client, segment};
use crate::error::ClientError;
use crate::query::Pairs;

/// Selects graphs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GraphsQuery {
    /// `*` means all.
    pub namespace: Option<String>,
    pub name: Option<String>,
    pub limit: Option<u32>,
    pub next_token: Option<String>,
}

impl Client {
    /// `POST /jobs/graph` with a raw body, such as the contents of a file.
    pub async fn create_graph_raw(
        &self,
        body: Bytes,
        idempotency_key: Option<&str>,
    ) -> Result<CreateGraph, ClientError> {
        let mut call = self.call(Method::POST, routes::JOB_GRAPH).json_bytes(body);
        if let Some(key) = idempotency_key {
            call = call.header("idempotency-key", key);
        }
        call.send().await
    }

    /// `GET /graphs`.
    pub async fn list_graphs(&self, query: &GraphsQuery) -> Result<ListGraphs, ClientError> {
        let GraphsQuery { namespace, name, limit, next_token } = query;
        let pairs = Pairs::default()
            .add("namespace", namespace.as_ref())
            .add("name", name.as_ref())
            .add("limit", *limit)
            .add("next_token", next_token.as_ref());
        self.get(routes::GRAPHS).query(&pairs.0).send().await
    }

    /// `GET /graphs/:graphID`.
    pub async fn describe_graph(&self, graph: &str) -> Result<DescribeGraph, ClientError> {
        self.get(&routes::fill(routes::GRAPH, segment(graph))).send().await
    }

    /// `DELETE /graphs/:graphID`.
    pub async fn stop_graph(&self, graph: &str) -> Result<StopGraph, ClientError> {
        self.call(Method::DELETE, &routes::fill(routes::GRAPH, segment(graph))).send().await
    }
}
