//! Invalid bodies, sent to every operation that takes one.

use reqwest::Method;
use serde_json::{Value, json};

use crate::node::{FakeNode, fresh_node_id, node_path};
use crate::server::{JOBS, Server, answer, job_path, plain_job};

/// Method and path of every operation that reads a body.
async fn operations(server: &Server) -> Vec<(Method, String)> {
    let node = FakeNode::join(server).await.id;
    let job = server.submit(plain_job()).await;
    vec![
        (Method::PUT, JOBS.to_owned()),
        (Method::POST, JOBS.to_owned()),
        (Method::PUT, format!("{JOBS}?dry_run=true")),
        (Method::DELETE, job_path(&job)),
        (Method::PUT, node_path(&node, "")),
        (Method::PUT, node_path(&node, "/session")),
        (Method::PUT, node_path(&node, "/heartbeat")),
        (Method::PUT, node_path(&node, "/executions")),
    ]
}

#[tokio::test]
async fn a_body_that_is_not_json_is_refused_everywhere() {
    let server = Server::start().await;
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let deep_object = r#"{"Job":"#.repeat(200);
    let many = format!("[{}0]", "0,".repeat(300_000));
    let bodies: Vec<Vec<u8>> = vec![
        b"{".to_vec(),
        br#"{"Job":{"Type":"batch""#.to_vec(),
        br#"{"Job":{}} trailing"#.to_vec(),
        b"not json".to_vec(),
        b"\0".to_vec(),
        b"{\"Job\":\"\xff\xfe\"}".to_vec(),
        b"\xef\xbb\xbf".to_vec(),
        br#"{"Job":"\ud800"}"#.to_vec(),
        b"{\"Job\":\"line\nbreak\"}".to_vec(),
        b"{'Job':1}".to_vec(),
        b"{\"Job\":1e999}".to_vec(),
        b"{\"Job\":NaN}".to_vec(),
        deep.into_bytes(),
        deep_object.into_bytes(),
        many.into_bytes(),
    ];
    for (method, path) in operations(&server).await {
        for body in &bodies {
            let request = server
                .request(method.clone(), &path)
                .header("Content-Type", "application/json")
                .body(body.clone());
            answer(request).await.refused(400, "MalformedBody");
        }
    }
}

#[tokio::test]
async fn json_of_the_wrong_shape_is_refused_with_its_path() {
    let server = Server::start().await;
    for (method, path) in operations(&server).await {
        for body in [json!([]), json!("text"), json!(5), json!(true), json!(null)] {
            let answer = answer(server.request(method.clone(), &path).json(&body)).await;
            let code = if path.starts_with(JOBS) && method != Method::DELETE {
                "InvalidJob"
            } else {
                "InvalidRequest"
            };
            answer.refused(400, code).says("expected an object");
        }
    }
}

#[tokio::test]
async fn an_empty_body_is_refused_where_one_is_required() {
    let server = Server::start().await;
    for (method, path) in operations(&server).await {
        if method == Method::DELETE {
            continue;
        }
        let none = server.request(method.clone(), &path);
        answer(none).await.refused(400, "MalformedBody").says("the body is empty");
        let blank = server.request(method, &path).header("Content-Type", "application/json");
        answer(blank.body(" \n")).await.refused(400, "MalformedBody").says("the body is empty");
    }
}

#[tokio::test]
async fn a_body_with_a_content_encoding_is_refused() {
    let server = Server::start().await;
    for (method, path) in operations(&server).await {
        for encoding in ["gzip", "identity, zstd", "x"] {
            let request = server.request(method.clone(), &path).body("{}");
            let request = request.header("Content-Type", "application/json");
            let answer = answer(request.header("Content-Encoding", encoding)).await;
            answer.refused(415, "UnsupportedMediaType").says(encoding);
            assert_eq!(
                answer.body["Hint"],
                "send the body uncompressed, without 'Content-Encoding'"
            );
        }
    }
    // A byte order mark is no part of the text.
    let plain = format!("\u{feff}{}", json!({ "Job": plain_job() }));
    let request = server.request(Method::PUT, JOBS).header("Content-Encoding", "Identity");
    answer(request.header("Content-Type", "application/json").body(plain)).await.ok();
}

#[tokio::test]
async fn a_body_of_another_type_is_refused() {
    let server = Server::start().await;
    for (method, path) in operations(&server).await {
        let none = server.request(method.clone(), &path).body("{}");
        answer(none).await.refused(415, "UnsupportedMediaType").says("no content type");
        for content_type in ["text/plain", "application/x-www-form-urlencoded", "application/jsonx"]
        {
            let request =
                server.request(method.clone(), &path).header("Content-Type", content_type);
            let answer = answer(request.body("{}")).await;
            answer.refused(415, "UnsupportedMediaType").says(content_type);
            assert_eq!(
                answer.body["Hint"],
                "send the body with 'Content-Type: application/json', a job also with 'application/yaml'"
            );
        }
    }
    let request = server
        .request(Method::PUT, JOBS)
        .header("Content-Type", "Application/JSON; charset=utf-8")
        .body(json!({ "Job": plain_job() }).to_string());
    answer(request).await.ok();
}

#[tokio::test]
async fn a_body_over_the_limit_is_refused() {
    let server = Server::start().await;
    let large = "x".repeat(10_000_001);
    server.put_text(JOBS, large.clone()).await.refused(413, "BodyTooLarge").says("10000000 bytes");
    // With a declared length or chunked, the limit is the same.
    let length = large.len();
    let chunked = format!(
        "PUT {JOBS} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Transfer-Encoding: chunked\r\n\r\n{length:x}\r\n{large}\r\n0\r\n\r\n"
    );
    let answer = server.raw(chunked.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 413 "), "{}", &answer[..answer.len().min(200)]);
    assert!(answer.contains("BodyTooLarge"));
    // Just within the limit the body is read, and found not to be JSON.
    server.put_text(JOBS, "x".repeat(10_000_000)).await.refused(400, "MalformedBody");
}

#[tokio::test]
async fn a_client_that_expects_100_continue_is_answered_at_once() {
    let server = Server::start().await;
    let request = format!(
        "PUT {JOBS} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Content-Length: 99999999\r\nExpect: 100-continue\r\n\r\n"
    );
    let answer = server.raw(request.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
}

#[tokio::test]
async fn protocol_mistakes_are_reported_with_their_paths() {
    let server = Server::start().await;
    let node = FakeNode::join(&server).await;
    let wrong = |rest: &'static str, body: Value| {
        let (server, path) = (&server, node_path(&node.id, rest));
        async move { server.put(&path, &body).await.refused(400, "InvalidRequest").problems() }
    };
    assert_eq!(
        wrong("/heartbeat", json!({ "Session": "x", "UsedCapacity": 5 })).await[..2],
        [
            "Session: expected a non-negative integer, got the string \"x\"",
            "UsedCapacity: expected an object, got the number 5",
        ]
    );
    let report = json!({ "ExecutionID": "e-1", "Sequence": 1, "ComputeState": 3 });
    assert_eq!(
        wrong("/executions", json!({ "Session": 1, "Reports": [report] })).await,
        ["Reports[0].ExecutionID: 'e-1' is not an execution ID: it is 'e-' followed by a UUID"]
    );
    let execution = "e-00000000-0000-4000-8000-000000000000";
    let report = json!({ "ExecutionID": execution, "Sequence": 1, "ComputeState": 1 });
    assert_eq!(
        wrong("/executions", json!({ "Session": 1, "Reports": [report] })).await,
        ["Reports[0].ComputeState: must be one of 3, 4, 5, 7, 8, 9"]
    );
    let mut session = crate::node::session_request();
    session["ComputeNodeInfo"]["ExecutionEngines"] = json!(["podman"]);
    let path = node_path(&fresh_node_id(), "/session");
    let problems = server.put(&path, &session).await.problems();
    assert!(
        problems[0].starts_with("ComputeNodeInfo.ExecutionEngines[0]: unknown variant `podman`"),
        "{problems:?}"
    );
}
