//! How the operations are asked for, by what they are about.

use reqwest::Method;
use serde_json::json;

use super::{HOME_CREDENTIAL, HOME_SECRET, NO_NODE, Request, TOKENS, credential};
use crate::server::{JOBS, job_with};

/// The requests about the cluster as a whole.
pub(super) fn of_cluster() -> [(&'static str, Request); 4] {
    [
        ("describeCluster", "cluster"),
        ("readClusterLoad", "cluster/load"),
        ("readClusterDemand", "cluster/demand"),
        ("listMembers", "cluster/members"),
    ]
    .map(|(operation, path)| {
        (operation, (Method::GET, format!("/api/v1/orchestrator/{path}"), None))
    })
}

/// The requests of probes and scrapers.
pub(super) fn of_process() -> [(&'static str, Request); 5] {
    [
        ("isAlive", "/api/v1/agent/alive"),
        ("describeVersion", "/api/v1/agent/version"),
        ("isLive", "/livez"),
        ("isReady", "/readyz"),
        ("scrapeMetrics", "/metrics"),
    ]
    .map(|(operation, path)| (operation, (Method::GET, path.to_owned(), None)))
}

/// The requests about nodes, and of nodes.
pub(super) fn of_nodes(node: &str) -> [(&'static str, Request); 22] {
    let (get, put, post, delete) = (Method::GET, Method::PUT, Method::POST, Method::DELETE);
    let cluster = |path: &str| format!("/api/v1/orchestrator/{path}");
    [
        ("describeNodeUsage", (get.clone(), format!("{node}/usage"), None)),
        ("listNodes", (get.clone(), cluster("nodes"), None)),
        ("describeNode", (get.clone(), node.to_owned(), None)),
        ("listNodeHistory", (get.clone(), format!("{node}/history"), None)),
        ("actOnNode", (put.clone(), NO_NODE.to_owned(), Some(json!({ "Action": "approve" })))),
        ("forgetNode", (delete.clone(), NO_NODE.to_owned(), None)),
        ("labelNode", (put.clone(), format!("{NO_NODE}/labels"), Some(json!({})))),
        ("joinNode", (put.clone(), format!("{node}/session"), Some(json!({})))),
        ("renewLease", (put.clone(), format!("{node}/heartbeat"), Some(json!({})))),
        ("streamAssignments", (get.clone(), format!("{node}/assignments?session=1"), None)),
        ("reportExecutions", (put.clone(), format!("{node}/executions"), Some(json!({})))),
        ("deliverOutput", (post.clone(), format!("{node}/streams/x"), None)),
        ("renewCertificate", (post.clone(), format!("{node}/certificate"), Some(json!({})))),
        ("readSecrets", (post.clone(), format!("{node}/secrets"), Some(json!({})))),
        ("readCredentials", (post.clone(), format!("{node}/credentials"), Some(json!({})))),
        ("readInputResults", (post.clone(), format!("{node}/inputs"), Some(json!({})))),
        ("readInputArchive", (post.clone(), format!("{node}/inputs/archive"), Some(json!({})))),
        ("listNeededArchives", (post.clone(), format!("{node}/archives/needed"), Some(json!({})))),
        ("enrolNode", (post.clone(), cluster("nodes/join"), Some(json!({})))),
        ("listNodeTokens", (get.clone(), cluster("nodes/tokens"), None)),
        ("createNodeToken", (post.clone(), cluster("nodes/tokens"), Some(json!({})))),
        ("revokeNodeToken", (delete.clone(), cluster("nodes/tokens/0000000000000000"), None)),
    ]
}

/// The requests about graphs.
pub(super) fn of_graphs() -> [(&'static str, Request); 4] {
    let graph = "/api/v1/orchestrator/graphs/g-00000000-0000-4000-8000-000000000001".to_owned();
    let new = json!({ "Jobs": { "a": job_with(json!({ "Namespace": "home" })) } });
    [
        ("createGraph", (Method::POST, format!("{JOBS}/graph"), Some(new))),
        (
            "listGraphs",
            (Method::GET, "/api/v1/orchestrator/graphs?namespace=home".to_owned(), None),
        ),
        ("describeGraph", (Method::GET, graph.clone(), None)),
        ("stopGraph", (Method::DELETE, graph, None)),
    ]
}

/// The requests about tokens.
pub(super) fn of_tokens() -> [(&'static str, Request); 4] {
    let (get, post, delete) = (Method::GET, Method::POST, Method::DELETE);
    let new = json!({ "Name": "x", "Role": "viewer", "Namespaces": ["home"] });
    [
        ("listTokens", (get, TOKENS.to_owned(), None)),
        ("createToken", (post, TOKENS.to_owned(), Some(new))),
        ("revokeToken", (delete.clone(), format!("{TOKENS}/0000000000000000"), None)),
        ("revokeTokens", (delete, format!("{TOKENS}?subject=no-one"), None)),
    ]
}

/// The requests about records of a namespace.
pub(super) fn of_namespace() -> [(&'static str, Request); 8] {
    let (get, put, delete) = (Method::GET, Method::PUT, Method::DELETE);
    let cluster = |path: &str| format!("/api/v1/orchestrator/{path}");
    let (home_secret, home_credential) = (HOME_SECRET.to_owned(), HOME_CREDENTIAL.to_owned());
    [
        ("listSecrets", (get.clone(), cluster("secrets?namespace=home"), None)),
        ("putSecret", (put.clone(), home_secret.clone(), Some(json!({ "Value": "x" })))),
        ("describeSecret", (get.clone(), home_secret, None)),
        ("deleteSecret", (delete.clone(), cluster("secrets/none?namespace=home"), None)),
        ("listCredentials", (get.clone(), cluster("credentials?namespace=home"), None)),
        ("putCredential", (put.clone(), home_credential.clone(), Some(credential()))),
        ("describeCredential", (get.clone(), home_credential, None)),
        ("deleteCredential", (delete.clone(), cluster("credentials/none?namespace=home"), None)),
    ]
}
