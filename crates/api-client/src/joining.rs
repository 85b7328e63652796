//! Join tokens, and the certificates of nodes.

use api_types::joining::{
    CreateNodeToken, CreatedNodeToken, EnrolRequest, ListNodeTokens, NodeCertificate, NodeToken,
    RenewRequest, RevokedNodeToken,
};
use api_types::{NodeId, routes};
use reqwest::Method;

use crate::client::{Client, segment};
use crate::error::ClientError;

impl Client {
    /// `POST /nodes/tokens`; the only answer with the secret.
    pub async fn create_node_token(
        &self,
        request: &CreateNodeToken,
    ) -> Result<CreatedNodeToken, ClientError> {
        self.call(Method::POST, routes::NODE_TOKENS).json(request).send().await
    }

    /// `GET /nodes/tokens`.
    pub async fn list_node_tokens(&self) -> Result<ListNodeTokens, ClientError> {
        self.get(routes::NODE_TOKENS).send().await
    }

    /// `DELETE /nodes/tokens/:id`; returns the token as it was.
    pub async fn revoke_node_token(&self, id: &str) -> Result<NodeToken, ClientError> {
        let path = routes::fill(routes::NODE_TOKEN, segment(id));
        let response: RevokedNodeToken = self.call(Method::DELETE, &path).send().await?;
        Ok(response.node_token)
    }

    /// `POST /nodes/join`: makes a node of the holder of a join token.
    pub async fn enrol(&self, request: &EnrolRequest) -> Result<NodeCertificate, ClientError> {
        self.call(Method::POST, routes::NODE_JOIN).json(request).send().await
    }

    /// `POST /nodes/:id/certificate`: a newer certificate for the node's key.
    pub async fn renew_certificate(
        &self,
        node_id: NodeId,
        request: &RenewRequest,
    ) -> Result<NodeCertificate, ClientError> {
        let path = routes::fill(routes::NODE_CERTIFICATE, node_id);
        self.call(Method::POST, &path).json(request).send().await
    }
}
