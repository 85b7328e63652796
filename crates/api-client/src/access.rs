//! Tokens, namespaces, secrets, credentials, the audit log, and the client's identity.

use std::fmt::Display;

use api_types::access::{
    CreateToken, CreatedToken, DescribeNamespace, ExchangeIdToken, Identity, ListNamespaces,
    ListTokens, Namespace, PutNamespace, RevokedToken, RevokedTokens, SignInMethods, Token,
};
use api_types::audit::{AuditChain, ListAudit};
use api_types::credential::{Credential, DescribeCredential, ListCredentials, PutCredential};
use api_types::key::{Key, KeyPurpose, ListKeys, RotateKey};
use api_types::routes;
use api_types::secret::{DescribeSecret, ListSecrets, PutSecret, Secret};
use reqwest::Method;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::client::{Client, segment};
use crate::error::ClientError;
use crate::query::Pairs;

/// Selects records of the audit log.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AuditQuery {
    /// That of changes unless it is set.
    pub chain: Option<AuditChain>,
    pub user: Option<String>,
    pub operation: Option<String>,
    /// Unix seconds or RFC 3339.
    pub since: Option<String>,
    pub limit: Option<u32>,
    pub next_token: Option<String>,
    pub reverse: bool,
}

impl Client {
    /// `GET /audit`.
    pub async fn list_audit(&self, query: &AuditQuery) -> Result<ListAudit, ClientError> {
        let pairs = Pairs::default()
            .add("chain", query.chain)
            .add("user", query.user.as_ref())
            .add("operation", query.operation.as_ref())
            .add("since", query.since.as_ref())
            .add("limit", query.limit)
            .add("next_token", query.next_token.as_ref())
            .add_flag("reverse", query.reverse);
        self.get(routes::AUDIT).query(&pairs.0).send().await
    }

    /// `GET /keys`.
    pub async fn list_keys(&self) -> Result<Vec<Key>, ClientError> {
        let response: ListKeys = self.get(routes::KEYS).send().await?;
        Ok(response.keys)
    }

    /// `POST /keys`; returns the keys as they are then.
    pub async fn rotate_key(&self, purpose: KeyPurpose) -> Result<Vec<Key>, ClientError> {
        let body = RotateKey { purpose };
        let response: ListKeys = self.call(Method::POST, routes::KEYS).json(&body).send().await?;
        Ok(response.keys)
    }

    /// `GET /auth/identity`.
    pub async fn identity(&self) -> Result<Identity, ClientError> {
        self.get(routes::IDENTITY).send().await
    }

    /// `GET /auth/methods`.
    pub async fn sign_in_methods(&self) -> Result<SignInMethods, ClientError> {
        self.get(routes::AUTH_METHODS).send().await
    }

    /// `POST /auth/exchange`: trades an ID token for a token.
    pub async fn exchange_id_token(&self, id_token: &str) -> Result<CreatedToken, ClientError> {
        let body = ExchangeIdToken { id_token: id_token.to_owned() };
        self.call(Method::POST, routes::AUTH_EXCHANGE).json(&body).send().await
    }

    /// `GET /tokens`.
    pub async fn list_tokens(&self) -> Result<ListTokens, ClientError> {
        self.get(routes::TOKENS).send().await
    }

    /// `POST /tokens`.
    pub async fn create_token(&self, token: &CreateToken) -> Result<CreatedToken, ClientError> {
        self.call(Method::POST, routes::TOKENS).json(token).send().await
    }

    /// `DELETE /tokens/:id`; returns the token as it was, and those that it made, which end too if
    /// `descendants` says so.
    pub async fn revoke_token(
        &self,
        id: impl Display,
        descendants: bool,
    ) -> Result<RevokedToken, ClientError> {
        let path = routes::fill(routes::TOKEN, segment(id));
        let pairs = Pairs::default().add_flag("descendants", descendants);
        self.call(Method::DELETE, &path).query(&pairs.0).send().await
    }

    /// `DELETE /tokens`: all tokens of a person who signed in at an issuer.
    pub async fn revoke_tokens_of(&self, subject: &str) -> Result<Vec<Token>, ClientError> {
        let pairs = Pairs::default().add("subject", Some(&subject));
        let call = self.call(Method::DELETE, routes::TOKENS).query(&pairs.0);
        let response: RevokedTokens = call.send().await?;
        Ok(response.tokens)
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

    /// `GET /credentials`.
    pub async fn list_credentials(
        &self,
        namespace: Option<&str>,
    ) -> Result<ListCredentials, ClientError> {
        let pairs = Pairs::default().add("namespace", namespace);
        self.get(routes::CREDENTIALS).query(&pairs.0).send().await
    }

    /// `GET /credentials/:name`.
    pub async fn describe_credential(
        &self,
        namespace: Option<&str>,
        name: impl Display,
    ) -> Result<Credential, ClientError> {
        self.on_credential(Method::GET, namespace, name, None).await
    }

    /// `PUT /credentials/:name`: creates them, or replaces them.
    pub async fn put_credential(
        &self,
        namespace: Option<&str>,
        name: impl Display,
        credential: &PutCredential,
    ) -> Result<Credential, ClientError> {
        self.on_credential(Method::PUT, namespace, name, Some(credential)).await
    }

    /// `DELETE /credentials/:name`; returns them as they were.
    pub async fn delete_credential(
        &self,
        namespace: Option<&str>,
        name: impl Display,
    ) -> Result<Credential, ClientError> {
        self.on_credential(Method::DELETE, namespace, name, None).await
    }

    async fn on_credential(
        &self,
        method: Method,
        namespace: Option<&str>,
        name: impl Display,
        body: Option<&PutCredential>,
    ) -> Result<Credential, ClientError> {
        let response: DescribeCredential =
            self.on_record(method, routes::CREDENTIAL, namespace, name, body).await?;
        Ok(response.credential)
    }

    /// `GET /secrets`.
    pub async fn list_secrets(&self, namespace: Option<&str>) -> Result<ListSecrets, ClientError> {
        let pairs = Pairs::default().add("namespace", namespace);
        self.get(routes::SECRETS).query(&pairs.0).send().await
    }

    /// `GET /secrets/:name`.
    pub async fn describe_secret(
        &self,
        namespace: Option<&str>,
        name: impl Display,
    ) -> Result<Secret, ClientError> {
        self.on_secret(Method::GET, namespace, name, None).await
    }

    /// `PUT /secrets/:name`: creates it, or gives it another value.
    pub async fn put_secret(
        &self,
        namespace: Option<&str>,
        name: impl Display,
        secret: &PutSecret,
    ) -> Result<Secret, ClientError> {
        self.on_secret(Method::PUT, namespace, name, Some(secret)).await
    }

    /// `DELETE /secrets/:name`; returns the secret as it was.
    pub async fn delete_secret(
        &self,
        namespace: Option<&str>,
        name: impl Display,
    ) -> Result<Secret, ClientError> {
        self.on_secret(Method::DELETE, namespace, name, None).await
    }

    async fn on_secret(
        &self,
        method: Method,
        namespace: Option<&str>,
        name: impl Display,
        body: Option<&PutSecret>,
    ) -> Result<Secret, ClientError> {
        let response: DescribeSecret =
            self.on_record(method, routes::SECRET, namespace, name, body).await?;
        Ok(response.secret)
    }

    /// One record of a namespace.
    pub(crate) async fn on_record<T: DeserializeOwned>(
        &self,
        method: Method,
        route: &str,
        namespace: Option<&str>,
        name: impl Display,
        body: Option<&impl Serialize>,
    ) -> Result<T, ClientError> {
        let pairs = Pairs::default().add("namespace", namespace);
        let call = self.call(method, &routes::fill(route, segment(name))).query(&pairs.0);
        match body {
            Some(body) => call.json(body).send().await,
            None => call.send().await,
        }
    }
}
