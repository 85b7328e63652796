//! A fake node: it sends over HTTP what an agent would send.

use api_types::NodeId;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::server::{PATIENCE, Server, answer, list, text};

pub(crate) struct FakeNode {
    pub(crate) id: String,
    pub(crate) session: u64,
}

/// The assignments stream of a node, line by line.
pub(crate) struct Assignments {
    response: reqwest::Response,
    received: Vec<u8>,
}

/// The body of a node's session request.
pub(crate) fn session_request() -> Value {
    json!({
        "Addrs": ["/ip4/10.0.0.1/tcp/1234"],
        "Labels": { "zone": "a" },
        "ComputeNodeInfo": {
            "ExecutionEngines": ["docker"],
            "Publishers": ["noop", "local"],
            "StorageSources": ["inline"],
            "MaxCapacity": { "CPU": 4.0, "Memory": 8_000_000_000_u64, "Disk": 100_000_000_000_u64, "GPU": 0 },
            "MaxJobRequirements": { "CPU": 4.0, "Memory": 8_000_000_000_u64, "Disk": 100_000_000_000_u64, "GPU": 0 },
        },
        "DefaultResources": { "CPU": 0.5, "Memory": 512_000_000, "Disk": 0, "GPU": 0 },
        "ServiceVersion": { "Major": "0", "Minor": "1", "GitVersion": "v0.1.0" },
    })
}

pub(crate) fn node_path(id: &str, rest: &str) -> String {
    format!("/api/v1/orchestrator/nodes/{id}{rest}")
}

// === impl FakeNode ===

impl FakeNode {
    pub(crate) async fn join(server: &Server) -> Self {
        Self::join_with(server, |_| ()).await
    }

    pub(crate) async fn join_with(server: &Server, change: impl FnOnce(&mut Value)) -> Self {
        let id = fresh_node_id();
        let mut request = session_request();
        change(&mut request);
        let answer = server.put(&node_path(&id, "/session"), &request).await;
        let session = answer.ok()["Session"].as_u64().expect("a number");
        Self { id, session }
    }

    /// After a restart of the orchestrator.
    pub(crate) async fn rejoin(server: &Server, node: Self) -> Self {
        let answer = server.put(&node_path(&node.id, "/session"), &session_request()).await;
        let session = answer.ok()["Session"].as_u64().expect("a number");
        Self { session, ..node }
    }

    /// One report, which must be acknowledged.
    pub(crate) async fn report(&self, server: &Server, report: Value) {
        let (execution, sequence) = (report["ExecutionID"].clone(), report["Sequence"].clone());
        let body = json!({ "Session": self.session, "Reports": [report] });
        let answer = server.put(&node_path(&self.id, "/executions"), &body).await;
        assert_eq!(
            answer.ok(),
            &json!({ "Acknowledged": [{ "ExecutionID": execution, "Sequence": sequence }] })
        );
    }

    /// Accepts the execution, runs it and completes it.
    pub(crate) async fn complete(&self, server: &Server, execution: &str, published: Value) {
        for (sequence, state) in [(1, 3), (2, 5)] {
            let report =
                json!({ "ExecutionID": execution, "Sequence": sequence, "ComputeState": state });
            self.report(server, report).await;
        }
        let report = json!({
            "ExecutionID": execution, "Sequence": 3, "ComputeState": 7, "Message": "done",
            "RunOutput": {
                "stdout": "hello\n", "stdouttruncated": false, "stderr": "", "stderrtruncated": false,
                "exitCode": 0, "runnerError": "",
            },
            "PublishedResult": published,
        });
        self.report(server, report).await;
    }

    pub(crate) async fn open(&self, server: &Server) -> Assignments {
        let path = node_path(&self.id, &format!("/assignments?session={}", self.session));
        // The stream outlives any timeout of one request.
        let request = server.request(Method::GET, &path).timeout(PATIENCE * 100);
        let response = request.send().await.expect("an answer");
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(response.headers()["content-type"], "application/x-ndjson");
        Assignments { response, received: Vec::new() }
    }
}

// === impl Assignments ===

impl Assignments {
    /// The next line, or `None` when the stream has ended.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.received.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.received.drain(..=end).collect();
                return Some(serde_json::from_slice(&line).expect("a line of JSON"));
            }
            let chunk = tokio::time::timeout(PATIENCE, self.response.chunk())
                .await
                .expect("a line in time");
            match chunk {
                Ok(Some(bytes)) => self.received.extend_from_slice(&bytes),
                Ok(None) | Err(_) => return None,
            }
        }
    }

    /// The next assignment, past keep-alive lines.
    pub(crate) async fn assignment(&mut self) -> Value {
        loop {
            let line = self.next().await.expect("the stream continues");
            if line["Type"] == "Assignment" {
                return line;
            }
            assert!(line["Type"] == "KeepAlive" || line["Type"] == "Snapshot", "{line}");
        }
    }
}

pub(crate) fn fresh_node_id() -> String {
    #[expect(clippy::disallowed_methods, reason = "a fake node creates its own id")]
    let uuid = Uuid::new_v4();
    NodeId::from_uuid(uuid).to_string()
}

/// The executions of a job, once there are this many.
pub(crate) async fn executions(server: &Server, job: &str, count: usize) -> Vec<Value> {
    let path = format!("/api/v1/orchestrator/jobs/{job}/executions");
    let begin = std::time::Instant::now();
    loop {
        let found = answer(server.request(Method::GET, &path)).await;
        let found = list(&found.ok()["Executions"]).clone();
        if found.len() >= count {
            return found;
        }
        assert!(begin.elapsed() < PATIENCE, "{} executions instead of {count}", found.len());
        tokio::task::yield_now().await;
    }
}

/// A job that a node ran to its end, and its execution.
pub(crate) async fn completed_job(
    server: &Server,
    node: &FakeNode,
    job: Value,
) -> (String, String) {
    let job = server.submit(job).await;
    let execution = text(&executions(server, &job, 1).await[0]["ID"]);
    node.complete(server, &execution, json!({ "Type": "", "Params": {} })).await;
    (job, execution)
}
