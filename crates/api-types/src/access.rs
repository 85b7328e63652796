//! Who may do what: roles, tokens, sessions of browsers, namespaces.

use serde::{Deserialize, Serialize};

use crate::job::MAX_PRIORITY;
use crate::quota::{DEFAULT_WEIGHT, NamespaceUsage, Quota};
use crate::word::words;

/// The kind of the tokens of the role `monitor`: `jm1_<id>_<secret>`. Agents refuse every other token
/// by its kind, so that no configuration works that shows a node a token which opens anything else.
pub const MONITOR_TOKEN: &str = "jm1";

/// Stands for all namespaces.
pub const ALL_NAMESPACES: &str = "*";

words!(
    /// What a caller may do; docs/security.md has the table.
    Role, "a role", {
        /// Sees what runs, but neither specifications nor output.
        Viewer = "viewer",
        /// Also sees all of a job, submits and stops.
        Submitter = "submitter",
        /// Also manages tokens of its namespaces.
        Owner = "owner",
        /// Scrapes metrics, of the agents too, and does nothing else. Its tokens are shown to nodes.
        Monitor = "monitor",
        /// Manages nodes, and is a viewer of every namespace.
        Operator = "operator",
        /// May do everything.
        Admin = "admin",
    }
);

/// A token without its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct Token {
    #[serde(rename = "ID")]
    pub id: String,
    /// Whose it is, or what uses it.
    pub name: String,
    pub role: Role,
    /// `*` alone for all; empty for the roles of the cluster.
    pub namespaces: Vec<String>,
    /// The name of the token that made it, or the subject and issuer of the ID token that it was given
    /// for; empty for the first.
    pub created_by: String,
    /// The issuer and subject of the person whose token it is, or descends from; empty if there is none.
    #[serde(default)]
    pub subject: String,
    /// RFC 3339, UTC.
    pub create_time: String,
    /// RFC 3339, UTC; empty for never.
    pub expire_time: String,
    /// To the minute, RFC 3339, UTC; empty if it was never used.
    pub last_use_time: String,
}

/// The body of Create Token.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase", default)]
pub struct CreateToken {
    /// Whose it is, or what uses it.
    pub name: String,
    /// One of the roles; `submitter` when absent.
    pub role: String,
    /// `default` when absent; `*` for all; none for the roles of the cluster.
    pub namespaces: Vec<String>,
    /// Seconds until it expires; 0 for never. A token that expires makes none that outlives it; one of
    /// a person who signed in at an issuer makes tokens of 90 days at most.
    #[serde(rename = "TTLSeconds")]
    pub ttl_seconds: u64,
}

/// Response of Create Token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct CreatedToken {
    /// The whole token. It is shown this once.
    pub secret: String,
    pub token: Token,
}

/// Response of List Tokens.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct ListTokens {
    pub tokens: Vec<Token>,
}

/// Response of Revoke Token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct RevokedToken {
    pub token: Token,
    /// The tokens that it made, directly or through others, and that were valid until now.
    #[serde(default)]
    pub descendants: Vec<Token>,
    /// Whether these are revoked too.
    #[serde(default)]
    pub descendants_revoked: bool,
}

/// Response of Revoke Tokens.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct RevokedTokens {
    pub tokens: Vec<Token>,
}

/// The body of Sign In.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase", default)]
pub struct SignIn {
    pub token: String,
}

/// Response of Sign-In Methods.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct SignInMethods {
    /// The issuer whose ID tokens are taken; null if only tokens of the service are.
    #[serde(rename = "OIDC")]
    pub oidc: Option<IssuerOfIdTokens>,
}

/// An issuer of OpenID Connect, and as which of its clients command lines sign people in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct IssuerOfIdTokens {
    /// As ID tokens name it.
    pub issuer: String,
    #[serde(rename = "ClientID")]
    pub client_id: String,
    /// Separated by spaces.
    pub scopes: String,
    /// Whether the client has a secret, which the service keeps: then people sign in with a browser,
    /// and programs trade ID tokens that they got elsewhere.
    pub confidential: bool,
    /// The CA of the issuer, in PEM; empty for one that machines trust anyway.
    #[serde(rename = "CA")]
    pub ca: String,
}

/// The body of Exchange ID Token.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase", default)]
pub struct ExchangeIdToken {
    /// As the issuer gave it.
    #[serde(rename = "IDToken")]
    pub id_token: String,
}

/// As whom a request is answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct Identity {
    /// The name of the token; `local` where none is asked for.
    pub name: String,
    pub role: Role,
    /// Namespaces that the role applies to; `*` alone for all.
    pub namespaces: Vec<String>,
    /// The ID of the token; empty where none is asked for.
    #[serde(rename = "TokenID")]
    pub token_id: String,
    /// When the token, or the browser's session, ends; RFC 3339, UTC; empty for never.
    pub expire_time: String,
}

/// A namespace, and what its jobs may ask for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct Namespace {
    pub name: String,
    pub description: String,
    pub permissions: Permissions,
    /// A selector over the operator's labels of nodes; empty for all nodes.
    pub nodes: String,
    /// The highest `Priority` of its jobs.
    #[serde(default = "highest_priority")]
    pub max_priority: u32,
    #[serde(default, skip_serializing_if = "Quota::is_unbounded")]
    pub quota: Quota,
    /// Of namespaces with waiting jobs of the same priority, the one with the smallest share over its
    /// weight comes first.
    #[serde(default = "usual_weight")]
    pub weight: u32,
    /// What its live jobs hold.
    #[serde(default)]
    pub usage: NamespaceUsage,
    /// RFC 3339, UTC; empty for `default`, which always exists, until it is changed.
    pub create_time: String,
    pub modify_time: String,
}

/// What jobs may ask for. An absent list permits everything of its kind.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase", default)]
pub struct Permissions {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub engines: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub networks: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sources: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub publishers: Option<Vec<String>>,
    /// Of images, like `docker.io` or `registry.example.com:5000`. An image without a registry, which
    /// is named by its ID, is not permitted where there is a list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub registries: Option<Vec<String>>,
    /// Whether root in a container has the capabilities that the node gives it; absent is yes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capabilities: Option<bool>,
}

/// The body of Put Namespace.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase", default)]
pub struct PutNamespace {
    pub description: String,
    pub permissions: Permissions,
    /// The only nodes that run its jobs: a selector over the labels that the operator gives them;
    /// empty for all nodes.
    pub nodes: String,
    /// The highest `Priority` of its jobs, 0 to 100. Absent is 50 where credentials are required,
    /// and 100 elsewhere, for `default`, and for namespaces that were created without a bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_priority: Option<u32>,
    /// What its live jobs may hold together. A lower quota stops nothing.
    #[serde(skip_serializing_if = "Quota::is_unbounded")]
    pub quota: Quota,
    /// Its part of a cluster for which several namespaces wait, next to theirs: 1 to 1000. Absent is 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<u32>,
}

/// Where a namespace sets none.
fn usual_weight() -> u32 {
    DEFAULT_WEIGHT
}

/// Where a namespace sets no bound, as older releases do.
fn highest_priority() -> u32 {
    MAX_PRIORITY
}

/// Response of the operations on one namespace.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct DescribeNamespace {
    pub namespace: Namespace,
}

/// Response of List Namespaces.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct ListNamespaces {
    pub namespaces: Vec<Namespace>,
}

// === impl Role ===

impl Role {
    /// Whether it applies to the whole cluster instead of to some namespaces.
    pub const fn is_of_the_cluster(self) -> bool {
        match self {
            Self::Viewer | Self::Submitter | Self::Owner => false,
            Self::Monitor | Self::Operator | Self::Admin => true,
        }
    }

    /// Whether it sees what every namespace has.
    pub const fn sees_all_namespaces(self) -> bool {
        match self {
            Self::Viewer | Self::Submitter | Self::Owner | Self::Monitor => false,
            Self::Operator | Self::Admin => true,
        }
    }

    /// What it is in a namespace that it applies to; a monitor is nothing there.
    pub const fn within_a_namespace(self) -> Option<Self> {
        match self {
            Self::Monitor => None,
            Self::Viewer | Self::Operator => Some(Self::Viewer),
            Self::Submitter => Some(Self::Submitter),
            Self::Owner | Self::Admin => Some(Self::Owner),
        }
    }
}
