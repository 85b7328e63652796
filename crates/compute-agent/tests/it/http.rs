//! The agent's own operations: every one of them, and every way to ask wrongly.

use std::cell::RefCell;

use api_types::engine::EngineType;
use api_types::execution::{ComputeState, DesiredState};
use api_types::node::{Connection, Membership, Node as Record, NodeType};
use api_types::protocol::ListLocalExecutions;
use api_types::version::VersionRecord;
use api_types::{ApiError, Code};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::node::{DockerNode, Node, eventually, work};

crate::covers! {
    "isAlive" => the_agent_reports_its_liveness_and_its_record;
    "describeVersion" => the_agent_reports_its_liveness_and_its_record;
    "describeOwnNode" => the_agent_reports_its_liveness_and_its_record;
    "isLive" => the_agent_reports_its_liveness_and_its_record;
    "isReady" => the_agent_reports_its_liveness_and_its_record;
    "listOwnExecutions" => executions_are_listed_and_found_by_their_short_id;
    "describeOwnExecution" => executions_are_listed_and_found_by_their_short_id;
    "requesterGet" => the_old_group_is_gone_whatever_the_method;
    "requesterPut" => the_old_group_is_gone_whatever_the_method;
    "requesterPost" => the_old_group_is_gone_whatever_the_method;
    "requesterDelete" => the_old_group_is_gone_whatever_the_method;
    "requesterOptions" => the_old_group_is_gone_whatever_the_method;
    "requesterHead" => the_old_group_is_gone_whatever_the_method;
    "requesterPatch" => the_old_group_is_gone_whatever_the_method;
    "requesterTrace" => the_old_group_is_gone_whatever_the_method;
    "readOwnLogs" => executions_are_listed_and_found_by_their_short_id;
}

thread_local! {
    /// Paths that the test on this thread has requested.
    static REQUESTS: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Runs a test, and returns the paths that it requested.
pub(crate) fn requests_of(test: fn()) -> Vec<String> {
    REQUESTS.take();
    test();
    REQUESTS.take()
}

pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

pub(crate) async fn get(url: &str) -> Answer {
    ask("GET", url, "").await
}

/// Sends one raw request on a separate connection.
pub(crate) async fn ask(method: &str, url: &str, headers: &str) -> Answer {
    let rest = url.strip_prefix("http://").expect("a plain URL");
    let (host, path) = rest.split_at(rest.find('/').expect("a path"));
    let asked = path.split('?').next().unwrap_or_default().to_owned();
    REQUESTS.with_borrow_mut(|requests| requests.push(asked));
    let mut stream = tokio::net::TcpStream::connect(host).await.expect("connect");
    let request =
        format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{headers}\r\n");
    stream.write_all(request.as_bytes()).await.expect("send");
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).await.expect("receive");
    let split = bytes.windows(4).position(|four| four == b"\r\n\r\n").expect("a head");
    let head = String::from_utf8(bytes[..split].to_vec()).expect("text").to_ascii_lowercase();
    let body = bytes[split + 4..].to_vec();
    let body = if head.contains("transfer-encoding: chunked") { unchunked(&body) } else { body };
    let status = head[9..12].parse().expect("a status");
    Answer { status, head, body }
}

fn unchunked(mut bytes: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    loop {
        let end = bytes.windows(2).position(|two| two == b"\r\n").expect("a chunk size");
        let size = std::str::from_utf8(&bytes[..end]).expect("text");
        let size = usize::from_str_radix(size, 16).expect("a hexadecimal size");
        if size == 0 {
            return body;
        }
        body.extend_from_slice(&bytes[end + 2..end + 2 + size]);
        bytes = &bytes[end + 2 + size + 2..];
    }
}

async fn refused(node: &Node, method: &str, path: &str) -> (ApiError, String) {
    let answer = ask(method, &node.url(path), "").await;
    let error: ApiError = serde_json::from_slice(&answer.body).expect("the envelope");
    assert_eq!(answer.status, error.status);
    assert!(
        answer.head.contains(&format!("x-request-id: {}", error.request_id)),
        "{}",
        answer.head
    );
    (error, answer.head)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_agent_reports_its_liveness_and_its_record() {
    let node = Node::start(|_| ()).await;
    let alive = get(&node.url("/api/v1/agent/alive")).await;
    assert_eq!((alive.status, alive.body.as_slice()), (200, &br#"{"Status":"OK"}"#[..]));
    assert!(alive.head.contains("content-type: application/json"), "{}", alive.head);
    let pretty = get(&node.url("/api/v1/agent/alive?pretty")).await;
    assert_eq!(pretty.body, b"{\n  \"Status\": \"OK\"\n}\n");
    let version = get(&node.url("/api/v1/agent/version")).await;
    let version: VersionRecord = serde_json::from_slice(&version.body).unwrap();
    assert_eq!(version, VersionRecord::current());
    assert_eq!(get(&node.url("/livez")).await.status, 200);
    eventually("the agent to be ready", async || get(&node.url("/readyz")).await.status == 200)
        .await;
    let record: Record =
        serde_json::from_slice(&get(&node.url("/api/v1/agent/node")).await.body).unwrap();
    assert_eq!((record.peer_info.id, record.node_type), (node.id(), NodeType::Compute));
    assert_eq!(record.membership, Membership::Approved);
    assert_eq!(record.connection, Connection::Connected);
    assert!(record.last_heartbeat.ends_with('Z'), "{}", record.last_heartbeat);
    assert_eq!(record.compute_node_info.execution_engines, [EngineType::Noop]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_without_its_orchestrator_is_alive_but_not_ready() {
    let node =
        Node::start(|settings| settings.orchestrator = "http://127.0.0.1:9".to_owned()).await;
    assert_eq!(get(&node.url("/livez")).await.status, 200);
    let answer = get(&node.url("/readyz")).await;
    assert_eq!(answer.status, 503);
    assert!(answer.head.contains("retry-after: "), "{}", answer.head);
}

#[tokio::test(flavor = "multi_thread")]
async fn executions_are_listed_and_found_by_their_short_id() {
    let node = Node::start(|_| ()).await;
    let id = node.orchestrator.run(work(EngineType::Noop, json!({}))).await;
    node.orchestrator.reported(id, ComputeState::Completed).await;
    for path in [id.to_string(), id.short()] {
        let answer = get(&node.url(&format!("/api/v1/agent/executions/{path}"))).await;
        let found: api_types::protocol::LocalExecution =
            serde_json::from_slice(&answer.body).unwrap();
        assert_eq!((found.id, found.phase.as_str()), (id, "Completed"));
        let output = get(&node.url(&format!("/api/v1/agent/executions/{path}/logs"))).await;
        assert_eq!((output.status, output.body.as_slice()), (200, &b""[..]), "{}", output.head);
        assert!(output.head.contains("content-type: text/plain"), "{}", output.head);
    }
    assert_eq!(node.phase(id).await.as_deref(), Some("Completed"));
}

#[tokio::test(flavor = "multi_thread")]
async fn executions_are_listed_page_by_page() {
    let node = Node::start(|_| ()).await;
    let mut ids = Vec::new();
    for _ in 0..3 {
        let id = node.orchestrator.run(work(EngineType::Noop, json!({}))).await;
        node.orchestrator.reported(id, ComputeState::Completed).await;
        ids.push(id);
    }
    ids.sort_unstable();
    let (mut found, mut token) = (Vec::new(), String::new());
    loop {
        let path = format!("/api/v1/agent/executions?limit=2&next_token={token}");
        let page: ListLocalExecutions =
            serde_json::from_slice(&get(&node.url(&path)).await.body).unwrap();
        found.extend(page.executions.iter().map(|one| one.id));
        token = page.next_token;
        if token.is_empty() {
            break;
        }
    }
    assert_eq!(found, ids);
    for (query, code) in [
        ("limit=-1", Code::InvalidQuery),
        ("order_by=state", Code::InvalidQuery),
        ("reverse=%zz", Code::InvalidQuery),
        ("next_token=x", Code::InvalidNextToken),
    ] {
        let (error, _) = refused(&node, "GET", &format!("/api/v1/agent/executions?{query}")).await;
        assert_eq!((error.status, error.code), (400, code), "{query}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_old_group_is_gone_whatever_the_method() {
    let node = Node::start(|_| ()).await;
    for method in ["GET", "PUT", "POST", "DELETE", "OPTIONS", "PATCH", "TRACE", "PROPFIND"] {
        let (error, _) = refused(&node, method, "/api/v1/requester/list").await;
        assert_eq!((error.status, error.code), (410, Code::Gone), "{method}");
        assert_eq!(
            error.message,
            "/api/v1/requester/list is gone; it is replaced by GET /api/v1/orchestrator/jobs"
        );
    }
    for path in ["/api/v1/requester", "/api/v1/requester/", "/api/v1/requester/a/b"] {
        let head = ask("HEAD", &node.url(path), "").await;
        assert_eq!((head.status, head.body.len()), (410, 0), "{path}");
    }
    assert_eq!(refused(&node, "GET", "/api/v1/requesters").await.0.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn logs_are_readable_while_a_task_runs_and_afterwards() {
    let Some(node) = DockerNode::start().await else { return };
    let steps = ["out", "to stdout", "err", "to stderr", "sleep", "60000"];
    let id = node.orchestrator().run(node.work(&steps)).await;
    node.orchestrator().reported(id, ComputeState::BidAccepted).await;
    let url = |query: &str| node.node.url(&format!("/api/v1/agent/executions/{id}/logs{query}"));
    eventually("both lines to be printed", async || {
        let both = String::from_utf8(get(&url("")).await.body).unwrap();
        both.contains("to stdout\n") && both.contains("to stderr\n")
    })
    .await;
    assert_eq!(get(&url("?stream=stdout")).await.body, b"to stdout\n");
    node.orchestrator().want_state(id, DesiredState::Stopped, "");
    node.orchestrator().reported(id, ComputeState::Cancelled).await;
    // The two streams reach the engine on two ways, so either line may have come first.
    let both = String::from_utf8(get(&url("?follow")).await.body).unwrap();
    assert!(["to stdout\nto stderr\n", "to stderr\nto stdout\n"].contains(&&*both), "{both}");
    let last = String::from_utf8(get(&url("?tail=1")).await.body).unwrap();
    assert!(both.ends_with(&last) && last.lines().count() == 1, "{last}");
    assert_eq!(get(&url("?stream=stderr")).await.body, b"to stderr\n");
    assert_eq!(get(&url("?stream=both")).await.status, 400);
    node.nothing_is_left().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn followers_leave_room_for_the_health_check() {
    let node = Node::start(|settings| settings.engines = vec![EngineType::Wasm]).await;
    let program = crate::programs::sleeping();
    let module = crate::programs::module(&program, "sleeping");
    let work = crate::programs::wasm_work(&program, serde_json::json!({ "EntryModule": module }));
    let id = node.orchestrator.run(work).await;
    node.orchestrator.reported(id, ComputeState::BidAccepted).await;
    let url = node.url(&format!("/api/v1/agent/executions/{id}/logs"));
    let address = node.url("").replace("http://", "");
    let mut followers = Vec::new();
    for _ in 0..64 {
        let mut stream = tokio::net::TcpStream::connect(&address).await.expect("connect");
        let path = format!("/api/v1/agent/executions/{id}/logs?follow");
        let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n");
        stream.write_all(request.as_bytes()).await.expect("send");
        let mut begin = [0; 15];
        stream.read_exact(&mut begin).await.expect("receive");
        assert_eq!(&begin, b"HTTP/1.1 200 OK");
        followers.push(stream);
    }
    assert_eq!(get(&url).await.status, 429);
    assert_eq!(get(&node.url("/livez")).await.status, 200);
    drop(followers);
    eventually("a permit to be returned", async || get(&url).await.status == 200).await;
    node.orchestrator.want_state(id, DesiredState::Stopped, "");
    node.orchestrator.reported(id, ComputeState::Cancelled).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_request_gets_the_error_envelope() {
    let node = Node::start(|_| ()).await;
    let absent = "/api/v1/agent/executions/e-00000000";
    for (method, path, status, code) in [
        ("GET", "/", 404, Code::PathNotFound),
        ("GET", "/api/v1/agent/nothing", 404, Code::PathNotFound),
        ("DELETE", "/api/v1/agent/alive", 405, Code::MethodNotAllowed),
        ("GET", absent, 404, Code::ExecutionNotFound),
        ("GET", "/api/v1/agent/executions/e-1", 404, Code::ExecutionNotFound),
        ("GET", "/api/v1/agent/executions/%FF", 400, Code::InvalidRequest),
    ] {
        let (error, head) = refused(&node, method, path).await;
        assert_eq!((error.status, error.code), (status, code), "{method} {path}");
        assert_eq!(head.contains("allow: get"), status == 405, "{head}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sane_request_id_is_kept_and_another_is_replaced() {
    let node = Node::start(|_| ()).await;
    let url = node.url("/api/v1/agent/alive");
    let answer = ask("GET", &url, "X-Request-Id: my-id.1\r\n").await;
    assert!(answer.head.contains("x-request-id: my-id.1"), "{}", answer.head);
    let answer = ask("GET", &url, "X-Request-Id: not sane\r\n").await;
    assert!(!answer.head.contains("sane"), "{}", answer.head);
    assert!(answer.head.contains("x-request-id: "), "{}", answer.head);
}
