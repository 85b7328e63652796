//! Tokens, namespaces, and as whom the service knows the client.

use std::fmt::Display;

use api_types::access::{
    CreateToken, CreatedToken, DescribeNamespace, Identity, ListNamespaces, ListTokens, Namespace,
    PutNamespace, RevokedToken, Token,
};
use api_types::routes;
use reqwest::Method;

use crate::client::{Client, segment};
use crate::error::ClientError;

impl Client {
    /// `GET /auth/identity`.
    pub async fn identity(&self) -> Result<Identity, ClientError> {
        self.get(routes::IDENTITY).send().await
    }

    /// `GET /tokens`.
    pub async fn list_tokens(&self) -> Result<ListTokens, ClientError> {
        self.get(routes::TOKENS).send().await
    }

    /// `POST /tokens`.
    pub async fn create_token(&self, token: &CreateToken) -> Result<CreatedToken, ClientError> {
        self.call(Method::POST, routes::TOKENS).json(token).send().await
    }

    /// `DELETE /tokens/:id`; returns the token as it was.
    pub async fn revoke_token(&self, id: impl Display) -> Result<Token, ClientError> {
        let path = routes::fill(routes::TOKEN, segment(id));
        let response: RevokedToken = self.call(Method::DELETE, &path).send().await?;
        Ok(response.token)
    }

    /// `GET /namespaces`.
    pub async fn list_namespaces(&self) -> Result<ListNamespaces, ClientError> {
        self.get(routes::NAMESPACES).send().await
    }

    /// `GET /namespaces/:name`.
    pub async fn describe_namespace(&self, name: impl Display) -> Result<Namespace, ClientError> {
        self.on_namespace(Method::GET, name, None).await
    }

    /// `PUT /namespaces/:name`: creates or changes it.
    pub async fn put_namespace(
        &self,
        name: impl Display,
        namespace: &PutNamespace,
    ) -> Result<Namespace, ClientError> {
        self.on_namespace(Method::PUT, name, Some(namespace)).await
    }

    /// `DELETE /namespaces/:name`; returns the namespace as it was.
    pub async fn delete_namespace(&self, name: impl Display) -> Result<Namespace, ClientError> {
        self.on_namespace(Method::DELETE, name, None).await
    }

    async fn on_namespace(
        &self,
        method: Method,
        name: impl Display,
        body: Option<&PutNamespace>,
    ) -> Result<Namespace, ClientError> {
        let call = self.call(method, &routes::fill(routes::NAMESPACE, segment(name)));
        let call = match body {
            Some(body) => call.json(body),
            None => call,
        };
        let response: DescribeNamespace = call.send().await?;
        Ok(response.namespace)
    }
}
