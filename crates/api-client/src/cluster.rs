//! The cluster as a whole, and the executions of all jobs.

use std::fmt::Display;

use api_types::cluster::{Cluster, ClusterLoad};
use api_types::demand::ClusterDemand;
use api_types::execution::{DescribeExecution, Execution, ListExecutions};
use api_types::member::ListMembers;
use api_types::routes;
use api_types::search::SearchResults;
use api_types::usage::{DescribeExecutionUsage, DescribeJobUsage, DescribeNodeUsage, ListUsage};

use crate::client::{Client, segment};
use crate::error::ClientError;
use crate::query::Pairs;

/// Selects executions that have not ended.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LiveExecutionsQuery {
    /// The id may be short.
    pub node_id: Option<String>,
    pub limit: Option<u32>,
    pub next_token: Option<String>,
    pub reverse: bool,
}

/// Selects running executions, those first that use most.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UsageQuery {
    /// The ids may be short.
    pub job_id: Option<String>,
    pub node_id: Option<String>,
    pub namespace: Option<String>,
    /// `cpu` or `memory`.
    pub order_by: Option<String>,
    pub limit: Option<u32>,
}

impl Client {
    /// `GET /cluster`.
    pub async fn describe_cluster(&self) -> Result<Cluster, ClientError> {
        self.get(routes::CLUSTER).send().await
    }

    /// `GET /cluster/demand`: what waits in one namespace, or in all that the caller sees.
    pub async fn cluster_demand(
        &self,
        namespace: Option<&str>,
        limit: Option<u32>,
    ) -> Result<ClusterDemand, ClientError> {
        let pairs = Pairs::default().add("namespace", namespace).add("limit", limit);
        self.get(routes::CLUSTER_DEMAND).query(&pairs.0).send().await
    }

    /// `GET /cluster/members`: the orchestrators that share the store.
    pub async fn list_members(&self) -> Result<ListMembers, ClientError> {
        self.get(routes::CLUSTER_MEMBERS).send().await
    }

    /// `GET /search`: what has this text in a name, an ID or a label.
    pub async fn search(
        &self,
        text: &str,
        limit: Option<u32>,
    ) -> Result<SearchResults, ClientError> {
        let pairs = Pairs::default().add("text", Some(text)).add("limit", limit);
        self.get(routes::SEARCH).query(&pairs.0).send().await
    }

    /// `GET /cluster/load`, from a time on, with one sample for each `step` seconds.
    pub async fn cluster_load(
        &self,
        since: Option<&str>,
        step_seconds: Option<u64>,
    ) -> Result<ClusterLoad, ClientError> {
        let pairs = Pairs::default().add("since", since).add("step", step_seconds);
        self.get(routes::CLUSTER_LOAD).query(&pairs.0).send().await
    }

    /// `GET /executions/:id`; the id may be short.
    pub async fn describe_execution(&self, id: impl Display) -> Result<Execution, ClientError> {
        let path = routes::fill(routes::EXECUTION, segment(id));
        let response: DescribeExecution = self.get(&path).send().await?;
        Ok(response.execution)
    }

    /// `GET /executions/:id/usage`; the id may be short.
    pub async fn execution_usage(
        &self,
        id: impl Display,
    ) -> Result<DescribeExecutionUsage, ClientError> {
        self.get(&routes::fill(routes::EXECUTION_USAGE, segment(id))).send().await
    }

    /// `GET /jobs/:id/usage`, with the curves of its first executions or without.
    pub async fn job_usage(
        &self,
        id: impl Display,
        executions: bool,
    ) -> Result<DescribeJobUsage, ClientError> {
        let pairs = Pairs::default().add("executions", executions.then_some("true"));
        self.get(&routes::fill(routes::JOB_USAGE, segment(id))).query(&pairs.0).send().await
    }

    /// `GET /nodes/:id/usage`; the id may be short.
    pub async fn node_usage(&self, id: impl Display) -> Result<DescribeNodeUsage, ClientError> {
        self.get(&routes::fill(routes::NODE_USAGE, segment(id))).send().await
    }

    /// `GET /executions`: those that have not ended.
    pub async fn live_executions(
        &self,
        query: &LiveExecutionsQuery,
    ) -> Result<ListExecutions, ClientError> {
        let pairs = Pairs::default()
            .add("node_id", query.node_id.as_ref())
            .add("limit", query.limit)
            .add("next_token", query.next_token.as_ref())
            .add_flag("reverse", query.reverse);
        self.get(routes::EXECUTIONS).query(&pairs.0).send().await
    }

    /// `GET /usage`: the running executions that use most.
    pub async fn list_usage(&self, query: &UsageQuery) -> Result<ListUsage, ClientError> {
        let pairs = Pairs::default()
            .add("job_id", query.job_id.as_ref())
            .add("node_id", query.node_id.as_ref())
            .add("namespace", query.namespace.as_ref())
            .add("order_by", query.order_by.as_ref())
            .add("limit", query.limit);
        self.get(routes::USAGE).query(&pairs.0).send().await
    }
}
