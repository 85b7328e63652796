//! Quotas of namespaces.

use serde_json::json;

use crate::metrics::scraped;
use crate::node::{FakeNode, executions};
use crate::server::{JOBS, Server, job_path, job_with, task_with};

const NAMESPACE: &str = "/api/v1/orchestrator/namespaces/ci";

#[tokio::test]
async fn a_quota_is_kept_checked_and_removed() {
    let mut server = Server::start().await;
    let quota = json!({ "CPU": "2", "Memory": "4GB", "Executions": 5, "QueuedExecutions": 0 });
    let put = server.put(NAMESPACE, &json!({ "Quota": quota })).await;
    assert_eq!(put.ok()["Namespace"]["Quota"], quota);
    let idle = json!({ "CPU": "0", "Memory": 0, "GPU": 0, "Executions": 0, "QueuedExecutions": 0 });
    assert_eq!(server.get(NAMESPACE).await.ok()["Namespace"]["Usage"], idle);
    let wrong = json!({ "Quota": { "CPU": "much", "Executions": 5 } });
    let problems = server.put(NAMESPACE, &wrong).await.problems();
    assert!(problems[0].starts_with("Quota.CPU: 'much' is not an amount of CPU"), "{problems:?}");
    server.restart().await;
    assert_eq!(server.get(NAMESPACE).await.ok()["Namespace"]["Quota"], quota);
    server.put(NAMESPACE, &json!({})).await.ok();
    assert!(server.get(NAMESPACE).await.ok()["Namespace"].get("Quota").is_none());
}

#[tokio::test]
async fn what_a_quota_never_allows_is_refused() {
    let server = Server::start().await;
    let quota = json!({ "CPU": "2", "Memory": "1GB", "QueuedExecutions": 3 });
    server.put(NAMESPACE, &json!({ "Quota": quota })).await.ok();
    let mut job = job_with(json!({ "Namespace": "ci", "Count": 4 }));
    job["Tasks"][0]["Resources"] = json!({ "CPU": "4", "Memory": "2GB" });
    for dry_run in ["", "?dry_run"] {
        let refused = server.put(&format!("{JOBS}{dry_run}"), &json!({ "Job": job })).await;
        let expected = [
            "Count: must be at most 3, the quota of namespace 'ci', got 4",
            "Tasks[0].Resources.CPU: must be at most 2, the quota of namespace 'ci', got 4",
            "Tasks[0].Resources.Memory: must be at most 1 GB, the quota of namespace 'ci', got 2 GB",
        ];
        assert_eq!(refused.problems(), expected);
    }
    server.submit(job_with(json!({ "Namespace": "ci", "Count": 2 }))).await;
    let body = json!({ "Job": job_with(json!({ "Namespace": "ci", "Count": 2 })) });
    let refused = server.put(JOBS, &body).await;
    let says = "2 executions would be queued, and the quota of namespace 'ci' allows 3; 2 wait now";
    refused.refused(429, "QuotaExceeded").says(says);
    server.submit(job_with(json!({ "Namespace": "default", "Count": 20 }))).await;
}

#[tokio::test]
async fn a_job_that_waits_for_its_quota_says_so_with_the_numbers() {
    let server = Server::start().await;
    server.put(NAMESPACE, &json!({ "Quota": { "CPU": "1" } })).await.ok();
    let _node = FakeNode::join(&server).await;
    let mut job = task_with(json!({ "Resources": { "CPU": "0.6" } }));
    job["Namespace"] = json!("ci");
    let first = server.submit(job.clone()).await;
    executions(&server, &first, 1).await;
    let second = server.submit(job).await;
    let explained = server.get(&format!("{}/explain", job_path(&second))).await;
    let gate = &explained.ok()["Gates"][0];
    assert_eq!(gate["Type"], "Quota");
    assert_eq!(gate["Message"], "namespace 'ci' uses 0.6 of 1 CPU; this needs 0.6");
    let usage = server.get(NAMESPACE).await.ok()["Namespace"]["Usage"].clone();
    assert_eq!((&usage["CPU"], &usage["QueuedExecutions"]), (&json!("0.6"), &json!(1)));
    let cpu = [("namespace", "ci"), ("resource", "cpu")];
    let exposed = scraped(&server).await;
    assert_eq!(exposed.sum("orchestrator_namespace_quota", &cpu), 1.0);
    assert_eq!(exposed.sum("orchestrator_namespace_usage", &cpu), 0.6);
}
