//! Callers of one namespace, and what they do as users.

use std::time::{Duration, Instant};

use api_types::access::{CreateToken, PutNamespace, Role};
use reqwest::{Client, Method, Response};
use serde_json::{Value, json};
use testbed::harness::{Cluster, batch};

/// How long a request of a user may take.
pub(crate) const SERVED_WITHIN: Duration = Duration::from_secs(10);

pub(crate) const ORCHESTRATOR: &str = "/api/v1/orchestrator";

/// A caller of one namespace.
#[derive(Clone)]
pub(crate) struct Tenant {
    pub(crate) http: Client,
    pub(crate) url: String,
    pub(crate) namespace: &'static str,
    pub(crate) token: String,
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
        admin.put_namespace(namespace, &PutNamespace::default()).await.expect("a namespace");
        let ca = cluster.orchestrator.data_dir().join("ca.crt");
        let ca = reqwest::Certificate::from_pem(&std::fs::read(ca).expect("the CA")).expect("a CA");
        let http = Client::builder().no_proxy().tls_certs_only([ca]).build().expect("a client");
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

    /// Runs a job to its end; returns its ID, its only execution, and the time to its end.
    pub(crate) async fn run(&self, job: Value) -> (String, Value, Duration) {
        let begin = Instant::now();
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
        let took = begin.elapsed();
        let executions = self.get(&format!("{ORCHESTRATOR}/jobs/{id}/executions")).await;
        let executions: Value = executions.json().await.expect("JSON");
        (id, executions["Executions"][0].clone(), took)
    }
}

/// A job that publishes this many megabytes.
pub(crate) fn publishing(image: &str, megabytes: u32) -> Value {
    let mut job = batch(image, &["fill", "/outputs/data.bin", &megabytes.to_string()]);
    job["Tasks"][0]["ResultPaths"] = json!([{ "Name": "outputs", "Path": "/outputs" }]);
    job["Tasks"][0]["Publisher"] = json!({ "Type": "local" });
    job
}
