//! Concurrency groups.

use std::fmt::Display;

use api_types::group::{DescribeGroup, Group, ListGroups, PutGroup};
use api_types::routes;
use reqwest::Method;

use crate::client::Client;
use crate::error::ClientError;
use crate::query::Pairs;

impl Client {
    /// `GET /groups`.
    pub async fn list_groups(&self, namespace: Option<&str>) -> Result<ListGroups, ClientError> {
        let pairs = Pairs::default().add("namespace", namespace);
        self.get(routes::GROUPS).query(&pairs.0).send().await
    }

    /// `GET /groups/:name`.
    pub async fn describe_group(
        &self,
        namespace: Option<&str>,
        name: impl Display,
    ) -> Result<Group, ClientError> {
        self.on_group(Method::GET, namespace, name, None).await
    }

    /// `PUT /groups/:name`: creates it, or changes its limit.
    pub async fn put_group(
        &self,
        namespace: Option<&str>,
        name: impl Display,
        group: &PutGroup,
    ) -> Result<Group, ClientError> {
        self.on_group(Method::PUT, namespace, name, Some(group)).await
    }

    /// `DELETE /groups/:name`; returns the group as it was.
    pub async fn delete_group(
        &self,
        namespace: Option<&str>,
        name: impl Display,
    ) -> Result<Group, ClientError> {
        self.on_group(Method::DELETE, namespace, name, None).await
    }

    async fn on_group(
        &self,
        method: Method,
        namespace: Option<&str>,
        name: impl Display,
        body: Option<&PutGroup>,
    ) -> Result<Group, ClientError> {
        let response: DescribeGroup =
            self.on_record(method, routes::GROUP, namespace, name, body).await?;
        Ok(response.group)
    }
}
