//! A cluster with something of everything that is stored.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use futures_util::StreamExt;
use reqwest::Method;
use serde_json::{Value, json};

use crate::node::{FakeNode, completed_job, executions};
use crate::server::{JOBS, PATIENCE, Server, answer, job_path, job_with, list, task_with, text};

/// Requests at the same time.
const CONCURRENCY: usize = 32;

/// One of the many jobs in this many is read by itself.
const SAMPLE: usize = 500;

/// Executions that go on running: of the schedule, of the group's limit, of the service, and of the
/// first job of the graph.
const RUNNING: usize = 5;

/// What stands for `{…}` in paths.
pub(super) struct Contents {
    ids: BTreeMap<&'static str, Vec<String>>,
}

// === impl Contents ===

impl Contents {
    pub(super) async fn fill(server: &Server, jobs: usize) -> Self {
        let put = async |path: &str, body: Value| {
            server.put(&format!("/api/v1/orchestrator/{path}"), &body).await.ok();
        };
        put("namespaces/ci", json!({ "Description": "builds" })).await;
        put("groups/db?namespace=default", json!({ "Limit": 2 })).await;
        put("secrets/token?namespace=default", json!({ "Value": "hunter2" })).await;
        let login = json!({ "Username": "ci", "Password": "hunter2" });
        let hub = json!({ "Type": "registry", "Hosts": ["ghcr.io"], "Login": login });
        put("credentials/hub?namespace=default", hub).await;
        let yearly = json!({ "Cron": "0 0 1 1 *", "Job": job_with(json!({})) });
        put("schedules/yearly?namespace=default", yearly).await;
        let trigger = "/api/v1/orchestrator/schedules/yearly/trigger?namespace=default";
        answer(server.request(Method::POST, trigger)).await.ok();

        let node = FakeNode::join(server).await;
        let mut ids = BTreeMap::from([
            ("namespace", vec!["default".to_owned(), "ci".to_owned()]),
            ("node_id", vec![node.id.clone()]),
        ]);
        let (mut of_jobs, mut of_executions) = Self::few(server, &node).await;
        ids.insert("graph_id", vec![Self::graph(server).await]);
        Self::run_all(server, &node).await;
        let many = futures_util::stream::iter(0..jobs).map(async |number| {
            let id = server.submit(bulk(number)).await;
            (number % SAMPLE == 0).then_some(id)
        });
        let many: Vec<_> = many.buffer_unordered(CONCURRENCY).collect().await;
        of_jobs.extend(many.into_iter().flatten());
        for job in &of_jobs {
            let page = server.get(&format!("{JOBS}/{job}/executions")).await;
            of_executions.extend(list(&page.ok()["Executions"]).iter().map(|it| text(&it["ID"])));
        }
        ids.insert("job_id", of_jobs);
        ids.insert("execution_id", of_executions);
        Self { ids }
    }

    /// Jobs in every state, with results, output and labels.
    async fn few(server: &Server, node: &FakeNode) -> (Vec<String>, Vec<String>) {
        let named = |name: &str| json!({ "Name": name, "Labels": { "kind": "few" } });
        let (completed, done) = completed_job(server, node, job_with(named("first"))).await;
        let published = server.submit(task_with(json!({ "Publisher": { "Type": "local" } }))).await;
        let publishing = text(&executions(server, &published, 1).await[0]["ID"]);
        let result = json!({ "Type": "local", "Params": { "URL": "http://u/x" } });
        node.complete(server, &publishing, result).await;
        let fields = json!({ "Name": "broken", "RetryPolicy": { "Attempts": 1 } });
        let failed = server.submit(job_with(fields)).await;
        let failing = text(&executions(server, &failed, 1).await[0]["ID"]);
        for (sequence, state) in [(1, 3), (2, 5), (3, 8)] {
            let report = json!({
                "ExecutionID": failing, "Sequence": sequence, "ComputeState": state,
                "Message": "exit code 1", "Cause": "Task",
            });
            node.report(server, report).await;
        }
        let grouped = json!({ "Count": 3, "ConcurrencyGroups": ["db"] });
        let grouped = server.submit(job_with(grouped)).await;
        let service = json!({ "Type": "service", "Namespace": "ci", "Name": "first" });
        let service = server.submit(job_with(service)).await;
        let stopped = server.submit(bulk(0)).await;
        server.delete(&job_path(&stopped)).await.ok();
        (vec![completed, published, failed, grouped, service, stopped], vec![done])
    }

    /// No offer is left that would be given up.
    async fn run_all(server: &Server, node: &FakeNode) {
        let (begin, mut running) = (Instant::now(), BTreeSet::new());
        while running.len() < RUNNING {
            assert!(begin.elapsed() < PATIENCE, "{running:?} run");
            let live = server.get("/api/v1/orchestrator/executions?limit=100").await;
            for execution in list(&live.ok()["Executions"]) {
                if execution["ComputeState"]["StateType"] != 2 {
                    continue;
                }
                for (sequence, state) in [(1, 3), (2, 5)] {
                    let report = json!({
                        "ExecutionID": execution["ID"], "Sequence": sequence, "ComputeState": state,
                    });
                    node.report(server, report).await;
                }
                running.insert(text(&execution["ID"]));
            }
        }
    }

    async fn graph(server: &Server) -> String {
        let after = |job: &str| job_with(json!({ "DependsOn": [{ "Job": job }] }));
        let graph = json!({
            "Name": "nightly",
            "Jobs": { "a": job_with(json!({})), "b": after("a"), "c": after("b") },
        });
        let created = server.post("/api/v1/orchestrator/jobs/graph", &graph).await;
        text(&created.ok()["GraphID"])
    }

    /// The path, with each of the names or IDs that it is about.
    pub(super) fn paths(&self, path: &str) -> Vec<String> {
        let Some((before, rest)) = path.split_once('{') else { return vec![path.to_owned()] };
        let (name, after) = rest.split_once('}').expect("a closing brace");
        let one = |name: &str| vec![name.to_owned()];
        let ids = match name {
            "name" => match before.rsplit('/').nth(1).expect("what has the name") {
                "credentials" => one("hub"),
                "groups" => one("db"),
                "schedules" => one("yearly"),
                "secrets" => one("token"),
                other => panic!("nothing was made of {other}"),
            },
            name => self.ids[name].clone(),
        };
        ids.into_iter().map(|id| format!("{before}{id}{after}")).collect()
    }
}

/// One that waits.
fn bulk(number: usize) -> Value {
    job_with(json!({
        "Name": format!("bulk-{number}"),
        "Labels": { "team": format!("t{}", number % 100), "number": number.to_string() },
        "Count": 1 + number % 2,
        "Constraints": [{ "Key": "zone", "Operator": "=", "Values": ["none"] }],
    }))
}
