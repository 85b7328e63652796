//! Nodes: list, describe, act on, delete; their history.

use std::collections::BTreeMap;
use std::fmt::Display;

use api_types::history::ListHistory;
use api_types::joining::ActedOnNode;
use api_types::node::{
    DescribeNode, LabelNodeRequest, ListNodes, Node, NodeAction, NodeActionRequest,
};
use api_types::routes;
use reqwest::Method;
use serde_json::Value;

use crate::client::{Client, segment};
use crate::error::ClientError;
use crate::query::Pairs;

/// Selects and orders nodes; the service has a default for each absent field.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodesQuery {
    /// Label selectors; all must match.
    pub labels: Vec<String>,
    pub limit: Option<u32>,
    pub next_token: Option<String>,
    pub order_by: Option<String>,
    pub reverse: bool,
}

/// Selects events of a node's history.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodeHistoryQuery {
    /// Unix seconds or RFC 3339.
    pub since: Option<String>,
    pub limit: Option<u32>,
    pub next_token: Option<String>,
}

impl Client {
    /// `GET /nodes`.
    pub async fn list_nodes(&self, query: &NodesQuery) -> Result<ListNodes, ClientError> {
        let pairs = Pairs::default()
            .add_all("labels", &query.labels)
            .add("limit", query.limit)
            .add("next_token", query.next_token.as_ref())
            .add("order_by", query.order_by.as_ref())
            .add_flag("reverse", query.reverse);
        self.get(routes::NODES).query(&pairs.0).send().await
    }

    /// `PUT /nodes/:id/labels`: the operator's labels, in place of those before.
    pub async fn label_node(
        &self,
        id: impl Display,
        labels: &BTreeMap<String, String>,
    ) -> Result<Node, ClientError> {
        let path = routes::fill(routes::NODE_LABELS, segment(id));
        let body = LabelNodeRequest { labels: labels.clone() };
        let response: DescribeNode = self.call(Method::PUT, &path).json(&body).send().await?;
        Ok(response.node)
    }

    /// `GET /nodes/:id`; the id may be short.
    pub async fn describe_node(&self, id: impl Display) -> Result<Node, ClientError> {
        let response: DescribeNode =
            self.get(&routes::fill(routes::NODE, segment(id))).send().await?;
        Ok(response.node)
    }

    /// `GET /nodes/:id/history`; the id of a node that is known may be short.
    pub async fn node_history(
        &self,
        id: impl Display,
        query: &NodeHistoryQuery,
    ) -> Result<ListHistory, ClientError> {
        let pairs = Pairs::default()
            .add("since", query.since.as_ref())
            .add("limit", query.limit)
            .add("next_token", query.next_token.as_ref());
        self.get(&routes::fill(routes::NODE_HISTORY, segment(id))).query(&pairs.0).send().await
    }

    /// `PUT /nodes/:id`; returns the updated node, and the join tokens that ended with it.
    pub async fn act_on_node(
        &self,
        id: impl Display,
        action: NodeAction,
        message: &str,
    ) -> Result<ActedOnNode, ClientError> {
        let body = NodeActionRequest { action: action.to_string(), message: message.to_owned() };
        self.call(Method::PUT, &routes::fill(routes::NODE, segment(id))).json(&body).send().await
    }

    /// `DELETE /nodes/:id`: deletes a disconnected node; with `now`, even if its executions are not
    /// given up yet.
    pub async fn delete_node(&self, id: impl Display, now: bool) -> Result<(), ClientError> {
        let pairs = Pairs::default().add_flag("now", now);
        let call = self.call(Method::DELETE, &routes::fill(routes::NODE, segment(id)));
        let _: Value = call.query(&pairs.0).send().await?;
        Ok(())
    }
}
