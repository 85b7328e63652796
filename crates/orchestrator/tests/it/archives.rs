//! `GET /api/v1/orchestrator/executions/:executionID/results` with a fake node.

use api_types::log::{ArchiveHead, LogFrame, LogPosition};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::node::{Assignments, FakeNode, executions, node_path};
use crate::server::{Server, answer, task_with, text};

crate::covers! {
    "readExecutionResults" => an_archive_is_relayed_from_its_node;
}

fn results_path(execution: &str, query: &str) -> String {
    format!("/api/v1/orchestrator/executions/{execution}/results?{query}")
}

/// An execution that published with this publisher, and the node's stream.
async fn published(server: &Server, node: &FakeNode, publisher: &str) -> (String, Assignments) {
    let job = server.submit(task_with(json!({ "Publisher": { "Type": "local" } }))).await;
    let execution = text(&executions(server, &job, 1).await[0]["ID"]);
    let params = json!({ "URL": "http://192.0.2.1/x.tar.gz" });
    node.complete(server, &execution, json!({ "Type": publisher, "Params": params })).await;
    (execution, node.open(server).await)
}

async fn asked(stream: &mut Assignments) -> Value {
    loop {
        let line = stream.next().await.expect("the stream continues");
        if line["Type"] == "Stream" {
            return line;
        }
    }
}

/// Answers the next request of the node's stream, and returns it.
async fn send(
    server: &Server,
    node: &FakeNode,
    stream: &mut Assignments,
    frames: &[LogFrame],
) -> Value {
    let request = asked(stream).await;
    let mut body = Vec::new();
    for frame in frames {
        serde_json::to_writer(&mut body, frame).expect("a frame is plain data");
        body.push(b'\n');
    }
    let path = node_path(&node.id, &format!("/streams/{}", text(&request["StreamID"])));
    answer(server.request(Method::POST, &path).body(body)).await.ok();
    request
}

fn head(size: u64, start: u64, length: u64) -> LogFrame {
    LogFrame::Archive(ArchiveHead { size, start, length, tag: "a-1".to_owned() })
}

fn content(bytes: &[u8]) -> LogFrame {
    LogFrame::Content { base64: STANDARD.encode(bytes) }
}

#[tokio::test]
async fn an_archive_is_relayed_from_its_node() {
    let server = Server::start().await;
    let node = FakeNode::join(&server).await;
    let (execution, mut stream) = published(&server, &node, "local").await;
    let whole = server.request(Method::GET, &results_path(&execution[..10], "")).send();
    let frames =
        [head(9, 0, 9), LogFrame::KeepAlive, content(b"<script"), content(b">\xff"), LogFrame::End];
    let (response, request) = tokio::join!(whole, send(&server, &node, &mut stream, &frames));
    let expected = json!({
        "Type": "Stream", "StreamID": request["StreamID"], "ExecutionID": execution,
        "Follow": false, "Archive": { "Start": 0 },
    });
    assert_eq!(request, expected);
    let response = response.expect("an answer");
    assert_eq!(response.status(), StatusCode::OK);
    let field = |name: &str| response.headers()[name].to_str().expect("ASCII").to_owned();
    assert_eq!(field("content-type"), "application/octet-stream");
    assert_eq!(
        field("content-disposition"),
        format!("attachment; filename=\"{execution}.tar.gz\"")
    );
    assert_eq!(field("content-security-policy"), "sandbox; default-src 'none'");
    assert_eq!(field("x-content-type-options"), "nosniff");
    assert_eq!((field("etag"), field("content-length")), ("\"a-1\"".to_owned(), "9".to_owned()));
    assert_eq!(response.bytes().await.expect("a body")[..], *b"<script>\xff");

    let part = server
        .request(Method::GET, &results_path(&execution, "path=outputs/a%20b.html"))
        .header("Range", "bytes=4-")
        .header("If-Range", "\"a-1\"")
        .send();
    let frames = [head(9, 4, 5), content(b"ipt>\xff"), LogFrame::End];
    let (response, request) = tokio::join!(part, send(&server, &node, &mut stream, &frames));
    let expected = json!({ "Path": "outputs/a b.html", "Start": 4, "Tag": "a-1" });
    assert_eq!(request["Archive"], expected);
    let response = response.expect("an answer");
    assert_eq!(response.status(), StatusCode::PARTIAL_CONTENT);
    assert_eq!(response.headers()["content-range"], "bytes 4-8/9");
    assert_eq!(response.headers()["content-disposition"], "attachment; filename=\"a_b.html\"");
    assert_eq!(response.bytes().await.expect("a body")[..], *b"ipt>\xff");
}

#[tokio::test]
async fn what_cannot_be_had_is_refused_with_the_reason() {
    let server = Server::start().await;
    let node = FakeNode::join(&server).await;
    let (execution, mut stream) = published(&server, &node, "local").await;
    for (query, frames, status, code, part) in [
        ("", vec![LogFrame::Absent], 404, "ResultNotFound", "no longer has the archive"),
        ("path=x", vec![LogFrame::Absent], 404, "ResultNotFound", "has no file 'x'"),
        (
            "",
            vec![LogFrame::Failed { message: "the disk is gone".to_owned() }],
            404,
            "ResultNotFound",
            "the disk is gone",
        ),
        // An agent that knows no archives.
        (
            "",
            vec![LogFrame::Begin(LogPosition::default()), LogFrame::End],
            503,
            "NodeUnavailable",
            "not connected",
        ),
    ] {
        let path = results_path(&execution, query);
        let asking = server.get(&path);
        let (answer, _) = tokio::join!(asking, send(&server, &node, &mut stream, &frames));
        answer.refused(status, code).says(part);
    }
    drop(stream);
    let begin = std::time::Instant::now();
    loop {
        // The orchestrator notices soon that the stream is closed.
        let answer = server.get(&results_path(&execution, "")).await;
        if answer.status == StatusCode::SERVICE_UNAVAILABLE {
            answer.refused(503, "NodeUnavailable");
            break;
        }
        assert!(begin.elapsed() < crate::server::PATIENCE, "{}", answer.text);
    }
    let (nothing, _stream) = published(&server, &node, "").await;
    let refused = server.get(&results_path(&nothing, "")).await;
    refused.refused(404, "ResultNotFound").says("has published nothing");
    let (elsewhere, _stream) = published(&server, &node, "s3").await;
    server.get(&results_path(&elsewhere, "")).await.refused(404, "ResultNotFound").says("with s3");
    let absent = "e-00000000-0000-4000-8000-000000000000";
    server.get(&results_path(absent, "")).await.refused(404, "ExecutionNotFound");
}

#[tokio::test]
async fn an_archive_that_breaks_off_does_not_pass_for_whole() {
    let server = Server::start().await;
    let node = FakeNode::join(&server).await;
    let (execution, mut stream) = published(&server, &node, "local").await;
    for frames in [
        vec![head(9, 0, 9), content(b"four"), LogFrame::End],
        vec![head(9, 0, 9), content(b"four")],
        vec![head(3, 0, 3), content(b"four"), LogFrame::End],
        vec![head(9, 0, 9), LogFrame::Content { base64: "?".to_owned() }],
    ] {
        let path = results_path(&execution, "");
        let asking = server.request(Method::GET, &path).send();
        let (response, _) = tokio::join!(asking, send(&server, &node, &mut stream, &frames));
        // The connection may break before the head has left.
        let is_whole = match response {
            Ok(response) => response.bytes().await.is_ok(),
            Err(_) => false,
        };
        assert!(!is_whole, "{frames:?}");
    }
}

#[tokio::test]
async fn downloads_beyond_the_pool_are_refused_until_one_ends() {
    const DOWNLOADS: usize = 64;
    let server = Server::start().await;
    let node = FakeNode::join(&server).await;
    let (execution, mut stream) = published(&server, &node, "local").await;
    let path = results_path(&execution, "");
    let download = || tokio::spawn(server.request(Method::GET, &path).send());
    // The node answers none of them.
    let mut open = Vec::new();
    for _ in 0..DOWNLOADS {
        open.push(download());
        asked(&mut stream).await;
    }
    let refused = answer(server.request(Method::GET, &path)).await;
    refused.refused(429, "TooManyRequests").says("downloads of results");
    open.remove(0).abort();
    // Its place is another's as soon as its connection is known to be closed.
    let next = loop {
        let response = server.request(Method::GET, &path).send();
        tokio::select! {
            response = response => assert_eq!(response.expect("an answer").status(), 429),
            request = asked(&mut stream) => break request,
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    };
    assert_eq!(text(&next["ExecutionID"]), execution);
}
