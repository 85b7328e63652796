//! `/api/v1/requester/`: gone, and where to.

use reqwest::Method;

use crate::server::{Server, answer};

#[tokio::test]
async fn every_old_path_names_what_replaces_it() {
    let server = Server::start().await;
    for (old, new) in [
        ("list", "GET /api/v1/orchestrator/jobs"),
        ("nodes", "GET /api/v1/orchestrator/nodes"),
        ("states", "GET /api/v1/orchestrator/jobs/:jobID"),
        ("results", "GET /api/v1/orchestrator/jobs/:jobID"),
        ("events", "GET /api/v1/orchestrator/jobs/:jobID/history"),
        ("submit", "PUT /api/v1/orchestrator/jobs"),
        ("cancel", "DELETE /api/v1/orchestrator/jobs/:jobID"),
        ("debug", "GET /api/v1/orchestrator/nodes/:nodeID"),
        ("websocket/events", "GET /api/v1/orchestrator/jobs/:jobID/history"),
    ] {
        let path = format!("/api/v1/requester/{old}");
        let expected = format!("{path} is gone; it is replaced by {new}");
        for method in [Method::GET, Method::POST, Method::PUT, Method::DELETE] {
            let gone = answer(server.request(method, &path)).await;
            assert_eq!(gone.refused(410, "Gone").body["Message"], expected);
        }
    }
}

#[tokio::test]
async fn anything_else_under_the_group_is_gone_too() {
    let server = Server::start().await;
    for path in ["/api/v1/requester/", "/api/v1/requester", "/api/v1/requester/a/b/c"] {
        server.get(path).await.refused(410, "Gone").says("/api/v1/orchestrator/");
    }
    server.get("/api/v1/requesters").await.refused(404, "PathNotFound");
}
