//! Every row of the error table that no single operation owns, and the envelope itself.

use reqwest::{Method, StatusCode};
use serde_json::json;

use crate::server::{JOBS, Server, answer, job_path, plain_job, text};

const ABSENT: &str = "j-00000000-0000-4000-8000-000000000000";

#[tokio::test]
async fn the_envelope_is_whole() {
    let server = Server::start().await;
    let request = server.request(Method::GET, &job_path(ABSENT)).header("X-Request-Id", "mine-7");
    let answer = answer(request).await;
    let expected = json!({
        "Status": 404,
        "Code": "JobNotFound",
        "Message": format!("no job matches '{ABSENT}'"),
        "Hint": "list jobs with GET /api/v1/orchestrator/jobs",
        "RequestID": "mine-7",
    });
    assert_eq!(answer.body, expected);
    assert_eq!(answer.header("x-request-id"), "mine-7");
}

#[tokio::test]
async fn every_answer_carries_a_request_id() {
    let server = Server::start().await;
    let one = server.get("/livez").await;
    let two = server.get("/livez").await;
    assert_eq!(one.header("x-request-id").len(), 36);
    assert_ne!(one.header("x-request-id"), two.header("x-request-id"));
    let insane = server.request(Method::GET, "/livez").header("X-Request-Id", "a b");
    assert_eq!(answer(insane).await.header("x-request-id").len(), 36);
}

#[tokio::test]
async fn pretty_indents_answers_and_errors_alike() {
    let server = Server::start().await;
    assert_eq!(server.get("/livez?pretty").await.text, "{\n  \"Status\": \"OK\"\n}\n");
    assert_eq!(server.get("/livez?pretty=false&x").await.text, "{\n  \"Status\": \"OK\"\n}\n");
    assert_eq!(server.get("/livez?x=pretty").await.text, r#"{"Status":"OK"}"#);
    let error = server.get(&format!("{JOBS}?limit=x&pretty")).await;
    error.refused(400, "InvalidQuery");
    assert!(error.text.starts_with("{\n  \"Status\": 400,\n"), "{}", error.text);
    assert!(error.text.ends_with("}\n"), "{}", error.text);
}

#[tokio::test]
async fn an_unknown_path_is_not_found() {
    let server = Server::start().await;
    for path in
        ["/anywhere", "/api/v1", "/api/v1/orchestrator/job", "/api/v2/agent/alive", "/livez/"]
    {
        server.get(path).await.refused(404, "PathNotFound").says(path);
    }
    server.get(&format!("{JOBS}/")).await.refused(404, "PathNotFound");
    server.get(&format!("{JOBS}/%ff")).await.refused(404, "PathNotFound");
}

#[tokio::test]
async fn a_wrong_method_is_refused_with_the_allowed_ones() {
    let server = Server::start().await;
    for (method, path, allowed) in [
        (Method::DELETE, JOBS, &["GET", "HEAD", "PUT", "POST"][..]),
        (Method::PATCH, &job_path(ABSENT), &["GET", "HEAD", "DELETE"]),
        (Method::PUT, "/api/v1/agent/alive", &["GET", "HEAD"]),
        (Method::GET, "/api/v1/orchestrator/nodes/n-1/heartbeat", &["PUT"]),
        (Method::OPTIONS, "/livez", &["GET", "HEAD"]),
    ] {
        let answer = answer(server.request(method, path)).await;
        answer.refused(405, "MethodNotAllowed").says(path);
        let mut came: Vec<_> = answer.header("allow").split(',').map(str::trim).collect();
        let mut allowed = allowed.to_vec();
        came.sort_unstable();
        allowed.sort_unstable();
        assert_eq!(came, allowed, "{path}");
    }
}

#[tokio::test]
async fn head_is_answered_like_get_without_a_body() {
    let server = Server::start().await;
    for (path, status) in [("/livez", 200), ("/livez?pretty", 200), ("/nowhere", 404)] {
        let answer = answer(server.request(Method::HEAD, path)).await;
        assert_eq!(answer.status.as_u16(), status);
        assert_eq!(answer.text, "");
    }
}

#[tokio::test]
async fn an_unknown_id_is_not_found_and_an_invalid_one_is_explained() {
    let server = Server::start().await;
    for id in ["12ab34cd", "j-12ab34c", "n-12ab34cd", "j-12ab34cx", "%20", "j-12ab34cd%2F.."] {
        let answer = server.get(&job_path(id)).await;
        answer.refused(404, "JobNotFound");
        assert!(text(&answer.body["Hint"]).contains("at least its first 8 characters"));
    }
    for rest in ["", "/history", "/executions", "/results"] {
        let path = format!("{}{rest}", job_path(ABSENT));
        server.get(&path).await.refused(404, "JobNotFound").says(ABSENT);
    }
    server.delete(&job_path(ABSENT)).await.refused(404, "JobNotFound");
    let node = "/api/v1/orchestrator/nodes/n-00000000-0000-4000-8000-000000000000";
    server.get(node).await.refused(404, "NodeNotFound");
    server.delete(node).await.refused(404, "NodeNotFound");
    server.put(node, &json!({ "Action": "cordon" })).await.refused(404, "NodeNotFound");
}

#[tokio::test]
async fn an_invalid_query_is_refused() {
    let server = Server::start().await;
    let job = job_path(&server.submit(plain_job()).await);
    for (path, part) in [
        (format!("{JOBS}?limit=-1"), "limit: '-1' is not a non-negative integer"),
        (format!("{JOBS}?limit=many"), "limit: 'many' is not a non-negative integer"),
        (format!("{JOBS}?limit=1&limit=2"), "limit is given more than once"),
        (format!("{JOBS}?reverse=perhaps"), "reverse: 'perhaps' is neither true nor false"),
        (format!("{JOBS}?labels=a+b"), "labels: 'b' is not an operator"),
        (format!("{JOBS}?state=Done"), "state: 'Done' is not permitted"),
        (format!("{JOBS}?type=cron"), "type: 'cron' is not permitted"),
        (format!("{JOBS}?created_after=soon"), "created_after: 'soon' is neither Unix seconds"),
        (format!("{JOBS}?name=%zz"), "'%' without two hexadecimal digits"),
        (format!("{JOBS}?name=%ff"), "not UTF-8"),
        (format!("{job}?%"), "'%' without two hexadecimal digits"),
        (format!("{job}/history?since=soon"), "since: 'soon' is neither Unix seconds"),
        (format!("{job}/history?since=-1"), "since: '-1' is negative"),
        (format!("{job}/history?since=2w"), "nor a duration back from now, like 2h"),
        ("/api/v1/orchestrator/events?since=-1".to_owned(), "since: '-1' is negative"),
        (format!("{job}/history?event_type=node"), "event_type: 'node' is not permitted"),
        (
            "/api/v1/orchestrator/nodes?limit=x".to_owned(),
            "limit: 'x' is not a non-negative integer",
        ),
    ] {
        server.get(&path).await.refused(400, "InvalidQuery").says(part);
    }
    for (path, permitted) in [
        (JOBS.to_owned(), json!(["create_time", "modify_time", "id", "created_at", "modified_at"])),
        (
            format!("{job}/executions"),
            json!([
                "modify_time",
                "create_time",
                "id",
                "state",
                "index",
                "created_at",
                "modified_at"
            ]),
        ),
        (
            "/api/v1/orchestrator/nodes".to_owned(),
            json!([
                "id",
                "type",
                "available_cpu",
                "available_memory",
                "available_disk",
                "available_gpu"
            ]),
        ),
    ] {
        let answer = server.get(&format!("{path}?order_by=color")).await;
        assert_eq!(answer.refused(400, "InvalidQuery").body["Details"], permitted);
    }
}

#[tokio::test]
async fn a_made_up_next_token_is_refused() {
    let server = Server::start().await;
    let mut jobs = Vec::new();
    for _ in 0..3 {
        jobs.push(server.submit(plain_job()).await);
    }
    let page = server.get(&format!("{JOBS}?limit=1")).await;
    let token = text(&page.ok()["NextToken"]);
    let refused = |query: String| {
        let server = &server;
        async move { server.get(&query).await.refused(400, "InvalidNextToken").text.clone() }
    };
    refused(format!("{JOBS}?next_token=made-up")).await;
    refused(format!("{JOBS}?next_token={}", &token[..token.len() - 2])).await;
    refused(format!("{JOBS}?next_token={token}&order_by=id")).await;
    refused(format!("{JOBS}?next_token={token}&reverse=true")).await;
    refused(format!("/api/v1/orchestrator/nodes?next_token={token}")).await;
    for part in ["history", "executions", "results"] {
        refused(format!("{}/{part}?next_token={token}", job_path(&jobs[0]))).await;
    }
    let history = server.get(&format!("{}/history?limit=1", job_path(&jobs[0]))).await;
    let token = text(&history.ok()["NextToken"]);
    assert_ne!(token, "", "a queued job has two events");
    refused(format!("{}/history?next_token={token}", job_path(&jobs[1]))).await;
}

#[tokio::test]
async fn invalid_http_closes_only_its_own_connection() {
    let server = Server::start().await;
    for request in [
        b"NONSENSE\r\n\r\n".to_vec(),
        b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: many\r\n\r\n".to_vec(),
        format!("GET /{} HTTP/1.1\r\n", "x".repeat(80_000)).into_bytes(),
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec(),
    ] {
        let answer = server.raw(&request).await;
        assert!(answer.starts_with("HTTP/1.1 4"), "{answer:?}");
    }
    assert_eq!(server.get("/livez").await.status, StatusCode::OK);
}
