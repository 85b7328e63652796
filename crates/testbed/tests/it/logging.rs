//! The daemons' logs: JSON for machines, and no secrets.

use api_types::JobId;
use serde_json::{Map, Value, json};
use testbed::harness::{AgentSpec, Cluster, ClusterSpec, batch, eventually, noop};

#[tokio::test]
async fn a_json_log_has_one_object_per_line_with_its_subject() {
    let agent = AgentSpec::new()
        .engines("noop")
        .setting("COMPUTE_AGENT_LOG_FORMAT", "json")
        .setting("RUST_LOG", "debug");
    let cluster = ClusterSpec::new()
        .setting("ORCHESTRATOR_LOG_FORMAT", "json")
        .setting("RUST_LOG", "debug")
        .agent(agent)
        .start_without_docker()
        .await;
    let execution = cluster.run_one(&noop()).await;
    let (job, node) = (execution.job_id.to_string(), cluster.agents[0].node_id().to_string());
    let execution = execution.id.to_string();
    let about = |line: &Map<String, Value>, fields: &[(&str, &str)]| {
        fields.iter().all(|(key, value)| line["span"][*key] == *value)
    };
    for line in objects(&cluster.orchestrator.log()) {
        for key in ["timestamp", "level", "target", "message"] {
            assert!(line[key].is_string(), "no {key}: {line:?}");
        }
    }
    eventually("a request logs its id and its job", async || {
        objects(&cluster.orchestrator.log())
            .iter()
            .filter(|line| line.contains_key("span"))
            .find(|line| about(line, &[("job", &job)]) && line["span"]["request_id"].is_string())
            .map(|_| ())
            .ok_or_else(|| "none does".to_owned())
    })
    .await;
    eventually("a request logs its node", async || {
        objects(&cluster.orchestrator.log())
            .iter()
            .any(|line| line.contains_key("span") && about(line, &[("node", &node)]))
            .then_some(())
            .ok_or_else(|| "none does".to_owned())
    })
    .await;
    eventually("an effect logs its execution, job and node", async || {
        let fields = [("execution", &*execution), ("job", &*job), ("node", &*node)];
        objects(&cluster.agents[0].log())
            .iter()
            .any(|line| line.contains_key("span") && about(line, &fields))
            .then_some(())
            .ok_or_else(|| "none does".to_owned())
    })
    .await;
}

fn objects(log: &str) -> Vec<Map<String, Value>> {
    // The last line may be incomplete.
    let complete = log.rfind('\n').map_or("", |end| &log[..end]);
    complete
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect()
}

/// Credentials in jobs and settings, each distinct.
const SECRETS: [&str; 12] = [
    "s3cret-url-password",
    "s3cret-url-signature",
    "s3cret-git-password",
    "s3cret-aws-key",
    "s3cret-aws-token",
    "s3cret-env",
    "s3cret-docker-env",
    "s3cret-otlp-header",
    "s3cret-authorization",
    "s3cret-query",
    "s3cret-cookie",
    "s3cret-parameter",
];

/// An unavailable input, which appears in errors: nothing listens on the discard port.
fn with_input(image: &str, kind: &str, params: Value) -> Value {
    let mut job = batch(image, &["true"]);
    job["Tasks"][0]["InputSources"] =
        json!([{ "Source": { "Type": kind, "Params": params }, "Target": "/inputs/x" }]);
    job
}

async fn secret_cluster() -> Option<Cluster> {
    let agent = AgentSpec::new()
        .setting("RUST_LOG", "debug")
        .setting("COMPUTE_AGENT_ALLOW_PRIVATE_ADDRESSES", "true")
        .setting("COMPUTE_AGENT_OTLP__ENDPOINT", "http://127.0.0.1:9")
        .setting("COMPUTE_AGENT_OTLP__HEADERS", "authorization=Bearer s3cret-otlp-header")
        .setting("AWS_ACCESS_KEY_ID", "AKIA")
        .setting("AWS_SECRET_ACCESS_KEY", "s3cret-aws-key")
        .setting("AWS_SESSION_TOKEN", "s3cret-aws-token");
    ClusterSpec::new()
        .setting("RUST_LOG", "debug")
        .setting("ORCHESTRATOR_OTLP__ENDPOINT", "http://127.0.0.1:9")
        .setting("ORCHESTRATOR_OTLP__HEADERS", "authorization=Bearer s3cret-otlp-header")
        .agent(agent)
        .start()
        .await
}

#[tokio::test]
async fn no_secret_is_ever_logged() {
    let Some(cluster) = secret_cluster().await else { return };
    let image = &cluster.image;
    let url = "http://user:s3cret-url-password@127.0.0.1:9/f?X-Amz-Signature=s3cret-url-signature";
    let s3 = json!({ "Bucket": "b", "Key": "k", "Region": "x", "Endpoint": "http://127.0.0.1:9" });
    let repo = json!({ "Repo": "http://user:s3cret-git-password@127.0.0.1:9/r.git" });
    let mut lost = Vec::new();
    for (kind, params) in [("urldownload", json!({ "URL": url })), ("s3", s3), ("repoclone", repo)]
    {
        lost.push(cluster.submit(&with_input(image, kind, params)).await);
    }
    let mut runs = batch(image, &["echo", "s3cret-parameter"]);
    runs["Tasks"][0]["Env"] = json!({ "TOKEN": "s3cret-env" });
    runs["Tasks"][0]["Engine"]["Params"]["EnvironmentVariables"] =
        json!(["TOKEN2=s3cret-docker-env"]);
    cluster.run_one(&runs).await;
    send_secrets(&cluster, &runs).await;
    for job in &lost {
        wait_for_attempt(&cluster, *job).await;
    }
    for log in [cluster.orchestrator.log(), cluster.agents[0].log()] {
        assert!(log.contains("DEBUG"), "the log has no debug lines: {log}");
        for secret in SECRETS {
            let lines: Vec<_> = log.lines().filter(|line| line.contains(secret)).collect();
            assert!(lines.is_empty(), "{secret}: {lines:#?}");
        }
    }
}

/// Sends a valid and an invalid request with credentials in headers and query.
async fn send_secrets(cluster: &Cluster, job: &Value) {
    let http = reqwest::Client::builder().no_proxy().build().expect("make a client");
    for path in ["/api/v1/orchestrator/jobs?token=s3cret-query", "/nowhere?token=s3cret-query"] {
        let response = http
            .put(format!("{}{path}", cluster.client().base_url()))
            .header("Authorization", "Bearer s3cret-authorization")
            .header("Cookie", "session=s3cret-cookie")
            .json(&json!({ "Job": job, "Unknown": "s3cret-parameter" }))
            .send()
            .await;
        response.expect("a response");
    }
}

/// Waits until the agent has logged an attempt at the job's inputs.
async fn wait_for_attempt(cluster: &Cluster, job: JobId) {
    eventually("a failed attempt is in the log", async || {
        let (job, log) = (job.to_string(), cluster.agents[0].log());
        let failed = |line: &str| {
            line.contains("an attempt failed; retrying")
                || line.contains("a stage is over")
                || line.contains("is done")
        };
        match log.lines().any(|line| line.contains(&job) && failed(line)) {
            true => Ok(()),
            false => Err("there was no attempt".to_owned()),
        }
    })
    .await;
}
