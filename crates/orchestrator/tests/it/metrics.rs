//! `/metrics`: values change with events, and names follow the conventions of Prometheus.

use serde_json::json;
use telemetry::metrics::Exposed;

use crate::node::{FakeNode, completed_job, executions};
use crate::server::{Server, answer, job_with, plain_job};

crate::covers! {
    "scrapeMetrics" => requests_are_counted_by_route_and_status;
}

pub(crate) async fn scraped(server: &Server) -> Exposed {
    let answer = server.get("/metrics").await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    assert_eq!(answer.header("content-type"), "text/plain; version=0.0.4; charset=utf-8");
    Exposed::read(&answer.text)
}

#[tokio::test]
async fn names_units_and_labels_keep_to_the_conventions() {
    let server = Server::start().await;
    let node = FakeNode::join(&server).await;
    completed_job(&server, &node, plain_job()).await;
    server.get("/nowhere/j-0af76519-16cd-43dd-8448-eb211c80319c").await;
    let exposed = scraped(&server).await;
    assert_eq!(exposed.broken(), Vec::<String>::new());
    let request = server.request(reqwest::Method::GET, "/metrics");
    let open = answer(request.header("Accept", "application/openmetrics-text")).await;
    assert!(open.header("content-type").starts_with("application/openmetrics-text; version=1.0.0"));
    assert!(open.text.ends_with("# EOF\n"), "{}", open.text);
}

#[tokio::test]
async fn jobs_at_a_gate_are_counted() {
    let server = Server::start().await;
    let at_limit = [("gate", "MaxRunning")];
    assert_eq!(scraped(&server).await.sum("orchestrator_gated_jobs", &at_limit), 0.0);
    let _node = FakeNode::join(&server).await;
    let job = server.submit(job_with(json!({ "Count": 2, "MaxRunning": 1 }))).await;
    executions(&server, &job, 1).await;
    let exposed = scraped(&server).await;
    assert_eq!(exposed.sum("orchestrator_gated_jobs", &at_limit), 1.0);
    assert_eq!(exposed.sum("orchestrator_queue_jobs", &[]), 0.0);
}

#[tokio::test]
async fn values_change_as_jobs_run() {
    let server = Server::start().await;
    let empty = scraped(&server).await;
    for name in ["orchestrator_jobs", "orchestrator_executions", "orchestrator_queue_jobs"] {
        assert!(empty.names().contains(name) && empty.sum(name, &[]) == 0.0, "{name}");
    }
    assert_eq!(empty.sum("orchestrator_build_info", &[]), 1.0);

    let waiting = server.submit(plain_job()).await;
    let queued = scraped(&server).await;
    assert_eq!(queued.sum("orchestrator_queue_jobs", &[]), 1.0);
    assert!(queued.sum("orchestrator_queue_oldest_wait_seconds", &[]) > 0.0);
    assert_eq!(queued.sum("orchestrator_jobs", &[("state", "queued")]), 1.0);

    let node = FakeNode::join(&server).await;
    let execution = executions(&server, &waiting, 1).await[0]["ID"].clone();
    let placed = scraped(&server).await;
    assert_eq!(placed.sum("orchestrator_queue_jobs", &[]), 0.0);
    assert_eq!(placed.sum("orchestrator_placements_total", &[]), 1.0);
    assert_eq!(placed.sum("orchestrator_executions", &[("state", "offered")]), 1.0);
    assert_eq!(placed.sum("orchestrator_allocated_cpu_cores", &[]), 0.5);
    assert_eq!(placed.sum("orchestrator_capacity_cpu_cores", &[]), 4.0);
    assert_eq!(placed.sum("orchestrator_sessions", &[]), 1.0);

    let execution = execution.as_str().expect("an id");
    node.complete(&server, execution, json!({ "Type": "", "Params": {} })).await;
    let over = scraped(&server).await;
    for (name, state, value) in [
        ("orchestrator_executions", "", 0.0),
        ("orchestrator_jobs", "", 0.0),
        ("orchestrator_execution_ends_total", "completed", 1.0),
        ("orchestrator_job_ends_total", "completed", 1.0),
    ] {
        let labels = [("state", state)];
        let labels = if state.is_empty() { &[][..] } else { &labels[..] };
        assert_eq!(over.sum(name, labels), value, "{name} {state}");
    }
    for name in [
        "orchestrator_submission_to_placement_seconds_count",
        "orchestrator_placement_to_start_seconds_count",
        "orchestrator_submission_to_start_seconds_count",
        "orchestrator_submissions_total",
        "orchestrator_sessions_opened_total",
    ] {
        assert_eq!(over.sum(name, &[]), 1.0, "{name}");
    }
    assert_eq!(over.sum("orchestrator_reports_total", &[]), 3.0);
    let commits = over.sum("orchestrator_commit_duration_seconds_count", &[]);
    assert!(commits >= 5.0 && commits == over.sum("orchestrator_commit_inputs_count", &[]));
    assert!(over.sum("orchestrator_store_size_bytes", &[("file", "log")]) > 4096.0);
    assert!(over.sum("orchestrator_store_pages", &[]) > 1.0);
}

#[tokio::test]
async fn requests_are_counted_by_route_and_status() {
    let server = Server::start().await;
    let path = "/api/v1/orchestrator/jobs/j-0af76519-16cd-43dd-8448-eb211c80319c";
    for _ in 0..3 {
        server.get(path).await.refused(404, "JobNotFound");
    }
    server.get("/api/v1/nowhere").await.refused(404, "PathNotFound");
    let exposed = scraped(&server).await;
    let route = ("route", "/api/v1/orchestrator/jobs/{job_id}");
    let requests = "orchestrator_http_requests_total";
    assert_eq!(exposed.sum(requests, &[route, ("method", "GET"), ("status", "404")]), 3.0);
    assert_eq!(exposed.sum(requests, &[("route", "unmatched")]), 1.0);
    assert_eq!(exposed.sum("orchestrator_http_request_duration_seconds_count", &[route]), 3.0);
}

/// Gauges are counted again from the database; counters begin at zero.
#[tokio::test]
async fn a_restart_counts_live_jobs_and_executions() {
    let mut server = Server::start().await;
    server.submit(plain_job()).await;
    server.restart().await;
    let exposed = scraped(&server).await;
    assert_eq!(exposed.sum("orchestrator_jobs", &[("state", "queued")]), 1.0);
    assert_eq!(exposed.sum("orchestrator_queue_jobs", &[]), 1.0);
    assert_eq!(exposed.sum("orchestrator_submissions_total", &[]), 0.0);
}
