//! `GET /api/v1/orchestrator/changes`.

use std::time::Instant;

use reqwest::Method;
use serde_json::{Value, json};

use crate::node::{FakeNode, completed_job};
use crate::server::{PATIENCE, Server, list, plain_job, text};

crate::covers! {
    "streamChanges" => changes_are_told_by_id;
}

const CHANGES: &str = "/api/v1/orchestrator/changes";

struct Stream {
    response: reqwest::Response,
    received: String,
}

/// A message: its ID and its data.
type Message = (String, Value);

// === impl Stream ===

impl Stream {
    async fn open(server: &Server, last: &str) -> Self {
        let request = server.request(Method::GET, CHANGES).timeout(PATIENCE * 10);
        let request = if last.is_empty() { request } else { request.header("Last-Event-ID", last) };
        let response = request.send().await.expect("an answer");
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Self { response, received: String::new() }
    }

    /// The next message, or `None` when the stream has ended.
    async fn next(&mut self) -> Option<Message> {
        loop {
            if let Some((block, rest)) = self.received.split_once("\n\n") {
                let field = |name: &str| {
                    let mut lines = block.lines();
                    lines.find_map(|line| line.strip_prefix(name)).map(str::to_owned)
                };
                let message = field("data: ").map(|data| {
                    assert_eq!(field("event: ").as_deref(), Some("changes"));
                    let id = field("id: ").expect("every message has an ID");
                    (id, serde_json::from_str(&data).expect("JSON"))
                });
                self.received = rest.to_owned();
                match message {
                    Some(message) => return Some(message),
                    None => continue,
                }
            }
            let chunk = tokio::time::timeout(PATIENCE, self.response.chunk()).await;
            let chunk = chunk.expect("a message in time").ok().flatten()?;
            self.received.push_str(std::str::from_utf8(&chunk).expect("UTF-8"));
        }
    }

    /// Messages until one names this record.
    async fn until(&mut self, list: &str, id: &str) -> Message {
        loop {
            let (at, message) = self.next().await.expect("the stream continues");
            if crate::server::list(&message[list]).iter().any(|listed| listed == id) {
                return (at, message);
            }
        }
    }
}

#[tokio::test]
async fn changes_are_told_by_id() {
    let server = Server::start().await;
    let mut stream = Stream::open(&server, "").await;
    let (_, first) = stream.next().await.expect("a first message");
    let quiet = json!({ "Through": first["Through"], "Jobs": [], "More": false, "Nodes": [], "Cluster": false });
    // The start of the service may be noted before or after the stream opens.
    assert_eq!(first, quiet);

    let node = FakeNode::join(&server).await;
    stream.until("Nodes", &node.id).await;
    let job = server.submit(plain_job()).await;
    let (_, message) = stream.until("Jobs", &job).await;
    assert_eq!((&message["More"], &message["Cluster"]), (&json!(false), &json!(true)));
    let events = server.get(&format!("/api/v1/orchestrator/jobs/{job}/history")).await;
    assert!(!list(&events.ok()["History"]).is_empty());
    assert!(message["Through"].as_u64() >= Some(1), "{message}");
}

#[tokio::test]
async fn messages_are_a_second_apart() {
    let server = Server::start().await;
    let node = FakeNode::join(&server).await;
    let mut stream = Stream::open(&server, "").await;
    stream.next().await.expect("a first message");
    let began = Instant::now();
    let mut messages: u64 = 0;
    let mut jobs = std::collections::BTreeSet::new();
    let mut submitted = std::collections::BTreeSet::new();
    for _ in 0..30 {
        submitted.insert(completed_job(&server, &node, plain_job()).await.0);
    }
    while !submitted.is_subset(&jobs) {
        let (_, message) = stream.next().await.expect("the stream continues");
        messages += 1;
        jobs.extend(list(&message["Jobs"]).iter().map(text));
    }
    assert!(messages <= began.elapsed().as_secs() + 2, "{messages} in {:?}", began.elapsed());
}

#[tokio::test]
async fn a_stream_resumes_after_a_message_and_reports_what_it_cannot_know() {
    let mut server = Server::start().await;
    let mut stream = Stream::open(&server, "").await;
    stream.next().await.expect("a first message");
    let first = server.submit(plain_job()).await;
    let (id, _) = stream.until("Jobs", &first).await;
    drop(stream);
    let second = server.submit(plain_job()).await;
    let mut stream = Stream::open(&server, &id).await;
    let (_, greeting) = stream.next().await.expect("a first message");
    assert_eq!(greeting["More"], false);
    let (_, message) = stream.until("Jobs", &second).await;
    assert_eq!(message["More"], false);

    for unknown in ["x", "1", "another.7", &format!("{id}9999")] {
        let mut stream = Stream::open(&server, unknown).await;
        let (_, greeting) = stream.next().await.expect("a first message");
        assert_eq!(
            (&greeting["More"], &greeting["Cluster"]),
            (&json!(true), &json!(true)),
            "{unknown}"
        );
    }
    server.stop().await;
    while stream.next().await.is_some() {}
    server.restart().await;
    let mut stream = Stream::open(&server, &id).await;
    assert_eq!(stream.next().await.expect("a first message").1["More"], true);
}
