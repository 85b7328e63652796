//! Callers of one namespace, and what they do as users.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use api_types::Timestamp;
use api_types::access::{CreateToken, PutNamespace, Role};
use api_types::execution::ComputeState;
use reqwest::{Client, Method, Response};
use serde_json::{Value, json};
use testbed::harness::{Cluster, batch};

/// How long a request of a user may take.
pub(crate) const SERVED_WITHIN: Duration = Duration::from_secs(10);

pub(crate) const ORCHESTRATOR: &str = "/api/v1/orchestrator";

/// How long a job took from its submission.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Took {
    /// Until its only execution ran.
    pub(crate) start: Duration,
    /// Until its end was known here.
    pub(crate) end: Duration,
}

/// A caller of one namespace.
#[derive(Clone)]
pub(crate) struct Tenant {
    pub(crate) http: Client,
    pub(crate) url: String,
    pub(crate) namespace: &'static str,
    pub(crate) token: String,
}

/// A client without connections.
pub(crate) fn client(cluster: &Cluster) -> Client {
    let ca = cluster.orchestrator.data_dir().join("ca.crt");
    let ca = reqwest::Certificate::from_pem(&std::fs::read(ca).expect("the CA")).expect("a CA");
    Client::builder().no_proxy().tls_certs_only([ca]).build().expect("a client")
}

// === impl Tenant ===

impl Tenant {
    /// Creates a namespace; returns that many callers, each with a token of its own.
    pub(crate) async fn create(
        cluster: &Cluster,
        namespace: &'static str,
        count: usize,
    ) -> Vec<Self> {
        let admin = cluster.client();
        let body = PutNamespace { max_priority: Some(100), ..PutNamespace::default() };
        admin.put_namespace(namespace, &body).await.expect("a namespace");
        let http = client(cluster);
        let mut tenants = Vec::new();
        for number in 0..count {
            let token = CreateToken {
                name: format!("{namespace}-{number}"),
                role: Role::Submitter.to_string(),
                namespaces: vec![namespace.to_owned()],
                ..CreateToken::default()
            };
            let token = admin.create_token(&token).await.expect("a token").secret;
            let url = cluster.orchestrator.base_url().trim_end_matches('/').to_owned();
            tenants.push(Self { http: http.clone(), url, namespace, token });
        }
        tenants
    }

    pub(crate) fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        self.http.request(method, format!("{}{path}", self.url)).bearer_auth(&self.token)
    }

    /// What a user reads, which must succeed.
    pub(crate) async fn get(&self, path: &str) -> Response {
        let sent = self.request(Method::GET, path).timeout(SERVED_WITHIN).send().await;
        let response = sent.unwrap_or_else(|error| panic!("{path}: {error:?}"));
        let status = response.status();
        assert!(status.is_success(), "{path}: {status}: {:?}", response.text().await);
        response
    }

    pub(crate) async fn submit(&self, mut job: Value) -> reqwest::Result<Response> {
        job["Namespace"] = json!(self.namespace);
        let request = self.request(Method::PUT, &format!("{ORCHESTRATOR}/jobs"));
        let body = json!({ "Job": job });
        request.timeout(SERVED_WITHIN).json(&body).send().await
    }

    /// Runs a job to its end; returns its ID, its only execution, and the time that it took.
    pub(crate) async fn run(&self, job: Value) -> (String, Value, Took) {
        let (begin, submitted) = (Instant::now(), now());
        let created: Value = self.submit(job).await.expect("an answer").json().await.expect("JSON");
        let id = created["JobID"].as_str().unwrap_or_else(|| panic!("{created}")).to_owned();
        let limit = begin + SERVED_WITHIN * 6;
        loop {
            let path = format!("{ORCHESTRATOR}/jobs/{id}?wait=10s");
            let request = self.request(Method::GET, &path).timeout(SERVED_WITHIN * 2);
            let record: Value =
                request.send().await.expect("an answer").json().await.expect("JSON");
            let state = &record["Job"]["State"];
            match state["StateType"].as_str() {
                Some("Completed") => break,
                Some("Pending" | "Queued" | "Running") if Instant::now() < limit => {}
                _ => panic!("{}: {record}", self.namespace),
            }
        }
        let end = begin.elapsed();
        let start = self.started(&id).await.since(submitted);
        let executions = self.get(&format!("{ORCHESTRATOR}/jobs/{id}/executions")).await;
        let executions: Value = executions.json().await.expect("JSON");
        (id, executions["Executions"][0].clone(), Took { start, end })
    }

    /// When the only execution of a job that has ended began to run, by the orchestrator's clock,
    /// which is also this program's.
    async fn started(&self, id: &str) -> Timestamp {
        let path = format!("{ORCHESTRATOR}/jobs/{id}/history?event_type=execution");
        let history: Value = self.get(&path).await.json().await.expect("JSON");
        let events = history["History"].as_array().expect("events");
        let running = json!(ComputeState::BidAccepted);
        let event = events.iter().find(|event| event["ExecutionState"]["New"] == running);
        let time = event.and_then(|event| event["Time"].as_str()).and_then(Timestamp::parse);
        time.unwrap_or_else(|| panic!("it never ran: {history}"))
    }
}

#[expect(clippy::disallowed_methods, reason = "compared with the times of a daemon's records")]
fn now() -> Timestamp {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock is after 1970");
    Timestamp::ZERO + elapsed
}

/// A job that publishes this many megabytes.
pub(crate) fn publishing(image: &str, megabytes: u32) -> Value {
    let mut job = batch(image, &["fill", "/outputs/data.bin", &megabytes.to_string()]);
    job["Tasks"][0]["ResultPaths"] = json!([{ "Name": "outputs", "Path": "/outputs" }]);
    job["Tasks"][0]["Publisher"] = json!({ "Type": "local" });
    job
}
