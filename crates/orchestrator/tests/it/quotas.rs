//! Quotas of namespaces.

use serde_json::{Value, json};

use crate::metrics::scraped;
use crate::node::{FakeNode, executions};
use crate::reruns::{half_failed, rerun_path};
use crate::server::{JOBS, Server, job_path, job_with, list, task_with, text};

const NAMESPACE: &str = "/api/v1/orchestrator/namespaces/ci";
const GRAPH: &str = "/api/v1/orchestrator/jobs/graph";

#[tokio::test]
async fn a_quota_is_kept_checked_and_removed() {
    let mut server = Server::start().await;
    let quota = json!({ "CPU": "2", "Memory": "4GB", "Executions": 5, "QueuedExecutions": 0 });
    let put = server.put(NAMESPACE, &json!({ "Quota": quota })).await;
    assert_eq!(put.ok()["Namespace"]["Quota"], quota);
    let idle = json!({ "CPU": "0", "Memory": 0, "GPU": 0, "Executions": 0, "QueuedExecutions": 0, "Share": 0.0 });
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
    let says = "2 executions would be queued, and the quota of namespace 'ci' allows 3; 2 wait now";
    for dry_run in ["", "?dry_run"] {
        let refused = server.put(&format!("{JOBS}{dry_run}"), &body).await;
        refused.refused(429, "QuotaExceeded").says(says);
    }
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

#[tokio::test]
async fn the_jobs_of_a_graph_count_together() {
    let server = Server::start().await;
    server.put(NAMESPACE, &json!({ "Quota": { "QueuedExecutions": 5 } })).await.ok();
    let graph = |count: u32| {
        let job = || job_with(json!({ "Namespace": "ci", "Count": count }));
        json!({ "Namespace": "ci", "Jobs": { "a": job(), "b": job() } })
    };
    let post = async |count: u32| server.post(GRAPH, &graph(count)).await;
    let alone = post(3).await;
    alone.refused(400, "InvalidJob").says("6 executions");
    post(2).await.ok();
    post(1).await.refused(429, "QuotaExceeded").says("4 wait now");
    let graphs = server.get("/api/v1/orchestrator/graphs?namespace=ci").await;
    assert_eq!(list(&graphs.ok()["Graphs"]).len(), 1, "a refused graph stores nothing");
}

#[tokio::test]
async fn a_rerun_counts_as_many_executions_as_it_repeats() {
    let server = Server::start().await;
    let node = FakeNode::join(&server).await;
    let first = half_failed(&server, &node).await;
    let default = NAMESPACE.replace("ci", "default");
    server.put(&default, &json!({ "Quota": { "QueuedExecutions": 2 } })).await.ok();
    for dry_run in ["?dry_run", ""] {
        let path = format!("{}{dry_run}", rerun_path(&first));
        let problems = server.post(&path, &json!({ "Only": "All" })).await.problems();
        assert_eq!(problems, ["Count: must be at most 2, the quota of namespace 'default', got 4"]);
        server.post(&path, &json!({ "Only": "Failed" })).await.ok();
    }
}

/// The live executions of a job.
async fn live(server: &Server, job: &str) -> Vec<String> {
    let found = server.get(&format!("{}/executions", job_path(job))).await;
    let is_live = |it: &&Value| it["ComputeState"]["StateType"] != 7;
    list(&found.ok()["Executions"]).iter().filter(is_live).map(|it| text(&it["ID"])).collect()
}

#[tokio::test]
async fn a_weight_is_kept_checked_and_decides_whose_turn_it_is() {
    let mut server = Server::start().await;
    let weigh = async |server: &Server, weight: Value| {
        server.put(NAMESPACE, &json!({ "Weight": weight })).await
    };
    for wrong in [0, 1001] {
        let problems = weigh(&server, json!(wrong)).await.problems();
        assert_eq!(problems, [format!("Weight: must be between 1 and 1000, got {wrong}")]);
    }
    assert_eq!(weigh(&server, json!(3)).await.ok()["Namespace"]["Weight"], 3);
    server.restart().await;
    assert_eq!(server.get(NAMESPACE).await.ok()["Namespace"]["Weight"], 3);
    let node = FakeNode::join(&server).await;
    let of = |namespace: &str, count: u32| {
        let mut job = task_with(json!({ "Resources": { "CPU": "1", "Memory": "1MB" } }));
        (job["Namespace"], job["Count"]) = (json!(namespace), json!(count));
        job
    };
    let first = server.submit(of("default", 100)).await;
    let running = live(&server, &first).await;
    let second = server.submit(of("ci", 100)).await;
    let most = running.len();
    for execution in &running {
        node.complete(&server, execution, json!(null)).await;
    }
    assert_eq!((most, live(&server, &second).await.len()), (4, 3));
    let exposed = scraped(&server).await;
    assert_eq!(exposed.sum("orchestrator_namespace_share", &[("namespace", "ci")]), 0.75);
    let namespace = server.get(NAMESPACE).await.ok()["Namespace"].clone();
    assert_eq!(namespace["Usage"]["Share"], 0.75);
    server.put(NAMESPACE, &json!({})).await.ok();
    assert_eq!(server.get(NAMESPACE).await.ok()["Namespace"]["Weight"], 1);
}
