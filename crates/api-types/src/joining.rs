//! How nodes join a protected orchestrator: join tokens, and certificates for them.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::id::NodeId;
use crate::node::Node;
use crate::quantity::Capacity;
use crate::trust::KeyDigest;

const PREFIX: &str = "jn1";

/// Longer texts are no join tokens: those of this release have 128 characters.
const MAX_TOKEN_CHARS: usize = 512;

/// What an operator hands to a new node: `jn1.<id>.<secret>.<digest of the CA's key>`.
///
/// The digest comes first to its use: a node sends the secret only to an orchestrator of that CA.
#[derive(Clone, PartialEq, Eq)]
pub struct JoinToken {
    pub id: String,
    pub secret: String,
    pub ca: KeyDigest,
}

/// A text that is not a join token; it is not repeated, because a part of it may be secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("is not a join token; `jobctl node token` prints one, which begins with '{PREFIX}.'")]
pub struct InvalidJoinToken;

/// A join token without its secret.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct NodeToken {
    #[serde(rename = "ID")]
    pub id: String,
    /// The name of the node that joins with it; empty if the node chooses one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Labels of the nodes that join with it.
    pub labels: BTreeMap<String, String>,
    /// The keys of those that an admin gave, which count for `Nodes` of namespaces.
    #[serde(default)]
    pub admin_labels: Vec<String>,
    /// The only node that may join with it, and that gets this ID back.
    #[serde(rename = "NodeID", skip_serializing_if = "Option::is_none")]
    pub node_id: Option<NodeId>,
    /// What such a node may offer at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_capacity: Option<Capacity>,
    /// How many nodes may still join with it.
    pub uses_left: u32,
    /// RFC 3339, UTC.
    pub create_time: String,
    /// RFC 3339, UTC.
    pub expire_time: String,
}

/// Response of a node action.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct ActedOnNode {
    pub node: Node,
    /// The join tokens that a rejection revoked.
    #[serde(default)]
    pub revoked_node_tokens: Vec<NodeToken>,
}

/// The body of Create Node Token.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase", default)]
pub struct CreateNodeToken {
    /// Seconds until it expires; an hour when absent.
    #[serde(rename = "TTLSeconds")]
    pub ttl_seconds: u64,
    /// How many nodes may join with it; one when absent.
    pub uses: u32,
    /// The name of the node that joins with it, with characters of its ID if the name is taken; the
    /// node chooses one when absent.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Labels of the nodes that join with it; the nodes cannot change them.
    pub labels: BTreeMap<String, String>,
    /// Gives a known node its ID back, with a new key; its old one is refused from then on.
    #[serde(rename = "NodeID", skip_serializing_if = "Option::is_none")]
    pub node_id: Option<NodeId>,
    /// What such a node may offer at most; 0 and what is absent are without a bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_capacity: Option<Capacity>,
}

/// Response of Create Node Token.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct CreatedNodeToken {
    /// The whole token. It is shown this once.
    pub secret: String,
    pub node_token: NodeToken,
}

/// Response of List Node Tokens.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct ListNodeTokens {
    pub node_tokens: Vec<NodeToken>,
}

/// Response of Revoke Node Token.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct RevokedNodeToken {
    pub node_token: NodeToken,
}

/// `POST …/nodes/join`: a new node asks for its certificate.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct EnrolRequest {
    /// The whole join token.
    pub token: String,
    /// A certificate request for the node's key, in PEM; the names in it are ignored.
    #[serde(rename = "CSR")]
    pub csr: String,
    /// The ID that a node with executions cannot give up.
    #[serde(rename = "NodeID", default, skip_serializing_if = "Option::is_none")]
    pub node_id: Option<NodeId>,
}

/// `POST …/nodes/:nodeID/certificate`: a node asks for a newer certificate of its key.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct RenewRequest {
    /// A certificate request for the node's key, in PEM; the names in it are ignored.
    #[serde(rename = "CSR")]
    pub csr: String,
}

/// The answer to both.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct NodeCertificate {
    #[serde(rename = "NodeID")]
    pub node_id: NodeId,
    /// The certificate with its chain, in PEM.
    pub certificate: String,
    /// The CA of the orchestrator, in PEM.
    #[serde(rename = "CA")]
    pub ca: String,
    /// For how long the certificate is valid; the node renews it at two thirds.
    pub lifetime_seconds: u64,
}

// === impl JoinToken ===

impl fmt::Display for JoinToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}.{}.{}.{}", self.id, self.secret, self.ca)
    }
}

impl fmt::Debug for JoinToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinToken").field("id", &self.id).finish_non_exhaustive()
    }
}

impl FromStr for JoinToken {
    type Err = InvalidJoinToken;

    fn from_str(text: &str) -> Result<Self, InvalidJoinToken> {
        let text = text.trim();
        let parts: Vec<&str> = text.split('.').collect();
        let &[PREFIX, id, secret, ca] = &parts[..] else { return Err(InvalidJoinToken) };
        let is_word = |part: &str| {
            let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
            !part.is_empty() && part.bytes().all(is_part)
        };
        if text.len() > MAX_TOKEN_CHARS || !is_word(id) || !is_word(secret) {
            return Err(InvalidJoinToken);
        }
        let ca = ca.parse().map_err(|_| InvalidJoinToken)?;
        Ok(Self { id: id.to_owned(), secret: secret.to_owned(), ca })
    }
}

// === impl EnrolRequest ===

impl fmt::Debug for EnrolRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EnrolRequest").field("node_id", &self.node_id).finish_non_exhaustive()
    }
}

// === impl CreateNodeToken ===

impl Default for CreateNodeToken {
    fn default() -> Self {
        Self {
            ttl_seconds: 3600,
            uses: 1,
            name: String::new(),
            labels: BTreeMap::new(),
            node_id: None,
            max_capacity: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_reads_back_and_shows_no_secret() {
        let ca = KeyDigest([7; 32]);
        let token = JoinToken { id: "12ab".to_owned(), secret: "se_cr-et".to_owned(), ca };
        let text = token.to_string();
        assert_eq!(text, format!("jn1.12ab.se_cr-et.{}", "07".repeat(32)));
        assert_eq!(format!("{text}\n").parse(), Ok(token.clone()));
        assert!(!format!("{token:?}").contains("se_cr"));
    }

    #[test]
    fn what_is_no_token_is_refused() {
        let digest = "07".repeat(32);
        for text in [
            "",
            "jn1",
            "jn1.a.b",
            "jn1.a.b.c",
            &format!("jn2.a.b.{digest}"),
            &format!("jn1..b.{digest}"),
            &format!("jn1.a.b c.{digest}"),
            &format!("jn1.a.b.c.{digest}"),
            &format!("jn1.a.{}.{digest}", "b".repeat(600)),
        ] {
            assert_eq!(text.parse::<JoinToken>(), Err(InvalidJoinToken), "{text}");
        }
    }
}
