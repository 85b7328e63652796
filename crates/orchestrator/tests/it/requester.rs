//! `/api/v1/requester/`: gone, with a pointer to the replacement.

use reqwest::Method;

use crate::server::{Server, answer};

crate::covers! {
    "requesterGet" => every_old_path_names_its_replacement;
    "requesterPut" => every_old_path_names_its_replacement;
    "requesterPost" => every_old_path_names_its_replacement;
    "requesterDelete" => every_old_path_names_its_replacement;
    "requesterOptions" => every_old_path_names_its_replacement;
    "requesterHead" => every_old_path_names_its_replacement;
    "requesterPatch" => every_old_path_names_its_replacement;
    "requesterTrace" => every_old_path_names_its_replacement;
}

#[tokio::test]
async fn every_old_path_names_its_replacement() {
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
        for method in [
            Method::GET,
            Method::PUT,
            Method::POST,
            Method::DELETE,
            Method::OPTIONS,
            Method::PATCH,
            Method::TRACE,
        ] {
            let gone = answer(server.request(method, &path)).await;
            assert_eq!(gone.refused(410, "Gone").body["Message"], expected);
        }
        let head = answer(server.request(Method::HEAD, &path)).await;
        assert_eq!((head.status.as_u16(), head.text.as_str()), (410, ""));
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
