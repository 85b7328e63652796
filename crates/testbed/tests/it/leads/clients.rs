//! Clients that use the service while its orchestrators fail, and what they were answered.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use api_client::{Client, JobLogsQuery};
use api_types::JobId;
use api_types::log::LogSource;
use futures_util::StreamExt;
use serde_json::{Value, json};
use simulator::random::Random;
use testbed::harness::noop;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::measure::http;

/// How long a client waits for one response: a process that stands still never responds.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(3);

const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// How long a stream of logs may be silent while its task prints.
const SILENCE: Duration = Duration::from_secs(3);

/// A submission with its first answer.
#[derive(Debug, Clone)]
pub(crate) struct Submitted {
    pub(crate) key: String,
    pub(crate) job: Value,
    pub(crate) answer: Value,
    pub(crate) id: JobId,
    pub(crate) is_stopped: bool,
}

/// The highest revision of each job in any answer that has ended.
pub(crate) type Revisions = Arc<Mutex<BTreeMap<JobId, u64>>>;

/// Sends requests to one address, each again until it is answered.
#[derive(Clone)]
pub(crate) struct Caller {
    http: reqwest::Client,
    base_url: String,
}

// === impl Caller ===

impl Caller {
    pub(crate) fn new(base_url: &str) -> Self {
        Self { http: http(), base_url: base_url.to_owned() }
    }

    /// The answer with status 200; anything that may be repeated is repeated.
    pub(crate) async fn call(
        &self,
        method: reqwest::Method,
        path: &str,
        key: Option<&str>,
        body: Option<&Value>,
    ) -> Value {
        loop {
            let url = format!("{}/api/v1/orchestrator/{path}", self.base_url);
            let mut request = self.http.request(method.clone(), url).timeout(RESPONSE_TIMEOUT);
            if let Some(key) = key {
                request = request.header("Idempotency-Key", key);
            }
            if let Some(body) = body {
                request = request.json(body);
            }
            if let Ok(response) = request.send().await {
                let status = response.status();
                if let Ok(text) = response.text().await {
                    if status == 200 {
                        return serde_json::from_str(&text).expect("a response is JSON");
                    }
                    let repeats = status == 429 || status.is_server_error();
                    assert!(repeats, "{method} {path}: {status} {text}");
                }
            }
            tokio::time::sleep(RETRY_PAUSE).await;
        }
    }

    pub(crate) async fn submit(&self, job: &Value, key: &str) -> Value {
        let body = json!({ "Job": job });
        self.call(reqwest::Method::PUT, "jobs", Some(key), Some(&body)).await
    }

    /// Reads a job, which may not be older than any answer that ended before.
    pub(crate) async fn describe(&self, id: JobId, revisions: &Revisions) -> Value {
        let floor = revisions.lock().expect("no client panics").get(&id).copied();
        let answer = self.call(reqwest::Method::GET, &format!("jobs/{id}"), None, None).await;
        let revision = answer["Job"]["Revision"].as_u64().expect("a job has a revision");
        assert!(
            floor.is_none_or(|floor| revision >= floor),
            "{id} was at revision {floor:?} before a read showed {revision}"
        );
        let mut revisions = revisions.lock().expect("no client panics");
        let known = revisions.entry(id).or_default();
        *known = revision.max(*known);
        answer
    }
}

/// A client that submits, describes and stops jobs until the deadline.
pub(crate) async fn work_until(
    deadline: Instant,
    caller: Caller,
    mut random: Random,
    number: usize,
    revisions: Revisions,
) -> Vec<Submitted> {
    let mut submitted: Vec<Submitted> = Vec::new();
    while Instant::now() < deadline {
        let key = format!("{number}-{}", submitted.len());
        let is_stopped = random.chance(100);
        let mut job = noop();
        if is_stopped {
            // No node has it, so that the job waits.
            job["Constraints"] = json!([{ "Key": "none", "Operator": "=", "Values": ["such"] }]);
        }
        let answer = caller.submit(&job, &key).await;
        let id: JobId = answer["JobID"].as_str().and_then(|id| id.parse().ok()).expect("a job");
        if is_stopped {
            caller.call(reqwest::Method::DELETE, &format!("jobs/{id}"), None, None).await;
        }
        caller.describe(id, &revisions).await;
        if !submitted.is_empty() {
            let former = random.within(0..submitted.len() as u64);
            let former = &submitted[usize::try_from(former).expect("an index")];
            caller.describe(former.id, &revisions).await;
        }
        submitted.push(Submitted { key, job, answer, id, is_stopped });
        tokio::time::sleep(random.millis(300..1500)).await;
    }
    submitted
}

/// Follows the output of a job to its end, and returns its lines.
pub(crate) fn follow_logs(client: Client, job: JobId, lines: usize) -> JoinHandle<Vec<String>> {
    tokio::spawn(async move {
        let mut received = Vec::new();
        let mut from = None;
        while received.len() < lines {
            let query = JobLogsQuery { follow: true, from: from.clone(), ..Default::default() };
            let opened = tokio::time::timeout(RESPONSE_TIMEOUT, client.job_logs(job, &query)).await;
            if let Ok(Ok(mut stream)) = opened {
                while let Ok(Some(Ok(line))) = tokio::time::timeout(SILENCE, stream.next()).await {
                    if let (LogSource::Stdout, Some(offset)) = (line.source, line.offset) {
                        from = Some(format!("{}.stdout.{offset}", line.execution_id));
                        received.push(line.line);
                    }
                }
            }
            tokio::time::sleep(RETRY_PAUSE).await;
        }
        received
    })
}
