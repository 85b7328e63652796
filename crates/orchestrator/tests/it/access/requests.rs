//! Requests that need nothing to be there.

use reqwest::Method;

use super::Request;

/// The requests about the cluster as a whole.
pub(super) fn of_cluster() -> [(&'static str, Request); 3] {
    [
        ("describeCluster", "cluster"),
        ("readClusterLoad", "cluster/load"),
        ("readClusterDemand", "cluster/demand"),
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
