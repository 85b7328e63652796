//! `/metrics` of an agent: its values follow the events on the node.

use api_types::engine::{EngineType, PublisherType};
use api_types::execution::{ComputeState, DesiredState};
use api_types::source::{InputSource, SourceSpec, SourceType};
use serde_json::json;
use telemetry::metrics::Exposed;

use crate::http::{ask, get};
use crate::node::{Node, eventually, work};

crate::covers! {
    "scrapeMetrics" => requests_are_counted_by_route_and_status;
}

async fn scraped(node: &Node) -> Exposed {
    let answer = get(&node.url("/metrics")).await;
    assert_eq!(answer.status, 200);
    assert!(answer.head.contains("content-type: text/plain; version=0.0.4; charset=utf-8"));
    Exposed::read(std::str::from_utf8(&answer.body).expect("text"))
}

pub(crate) async fn all_reports_are_acknowledged(node: &Node) {
    eventually("everything is acknowledged", async || {
        scraped(node).await.sum("compute_agent_reports_waiting", &[]) == 0.0
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn values_move_as_executions_run() {
    let node = Node::start(|_| ()).await;
    eventually("the agent has joined", async || {
        scraped(&node).await.sum("compute_agent_session_joined", &[]) == 1.0
    })
    .await;
    let empty = scraped(&node).await;
    assert_eq!(empty.sum("compute_agent_running_executions", &[]), 0.0);
    assert_eq!(empty.sum("compute_agent_engine_available", &[("engine", "noop")]), 1.0);
    assert!(empty.sum("compute_agent_capacity_memory_bytes", &[]) > 1e6);

    let mut work = work(EngineType::Noop, json!({}));
    work.task.publisher.publisher_type = PublisherType::Local;
    let params = json!({ "URL": "data:,hello" });
    work.task.input_sources = vec![InputSource {
        source: SourceSpec {
            source_type: SourceType::Inline,
            params: params.as_object().expect("an object").clone(),
        },
        target: "/inputs/text".to_owned(),
        alias: String::new(),
    }];
    let id = node.orchestrator.offer(work);
    node.orchestrator.reported(id, ComputeState::AskForBidAccepted).await;
    let accepted = scraped(&node).await;
    assert_eq!(accepted.sum("compute_agent_enqueued_executions", &[]), 1.0);
    assert!(accepted.sum("compute_agent_allocated_cpu_cores", &[]) > 0.0);
    node.orchestrator.want_state(id, DesiredState::Running, "");
    node.orchestrator.reported(id, ComputeState::Completed).await;
    all_reports_are_acknowledged(&node).await;

    let over = scraped(&node).await;
    assert_eq!(over.broken(), Vec::<String>::new());
    for (name, labels) in [
        ("compute_agent_execution_ends_total", ("state", "completed")),
        ("compute_agent_input_fetches_total", ("kind", "inline")),
        ("compute_agent_input_fetch_duration_seconds_count", ("kind", "inline")),
        ("compute_agent_publications_total", ("outcome", "done")),
        ("compute_agent_publication_duration_seconds_count", ("kind", "local")),
        ("compute_agent_acceptance_to_start_seconds_count", ("engine", "noop")),
        ("compute_agent_run_duration_seconds_count", ("engine", "noop")),
        ("compute_agent_start_stage_duration_seconds_count", ("stage", "go_ahead")),
        ("compute_agent_start_stage_duration_seconds_count", ("stage", "inputs")),
        ("compute_agent_start_stage_duration_seconds_count", ("stage", "make")),
        ("compute_agent_start_stage_duration_seconds_count", ("stage", "start")),
    ] {
        assert_eq!(over.sum(name, &[labels]), 1.0, "{name} {labels:?}");
    }
    assert_eq!(over.sum("compute_agent_input_fetched_bytes_total", &[]), 5.0);
    assert!(over.sum("compute_agent_published_bytes_total", &[]) > 50.0);
    assert!(over.sum("compute_agent_commit_duration_seconds_count", &[]) >= 3.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_are_counted_by_route_and_status() {
    let node = Node::start(|_| ()).await;
    for _ in 0..2 {
        get(&node.url("/api/v1/agent/executions/e-0af76519-16cd-43dd-8448-eb211c80319c")).await;
    }
    get(&node.url("/nowhere")).await;
    let exposed = scraped(&node).await;
    let route = ("route", "/api/v1/agent/executions/{execution_id}");
    let requests = "compute_agent_http_requests_total";
    assert_eq!(exposed.sum(requests, &[route, ("status", "404")]), 2.0);
    assert_eq!(exposed.sum(requests, &[("route", "unmatched")]), 1.0);
    let open = "Accept: application/openmetrics-text; version=1.0.0\r\n";
    let answer = ask("GET", &node.url("/metrics"), open).await;
    assert!(answer.head.contains("content-type: application/openmetrics-text; version=1.0.0"));
    assert!(answer.body.ends_with(b"# EOF\n"));
}
