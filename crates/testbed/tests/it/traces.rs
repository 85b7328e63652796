//! Traces over OTLP as a collector receives them: one per job, from both daemons.

mod collector;

use std::collections::BTreeMap;

use api_types::JobId;
use api_types::job::JobStateType;
use serde_json::json;
use testbed::harness::{AgentSpec, Cluster, ClusterSpec, DataUrl, eventually, noop};

use collector::{Collected, Collector};

/// Nothing listens there.
const PROXY: &str = "http://127.0.0.1:9";

fn agent(collector: &Collector) -> AgentSpec {
    AgentSpec::new()
        .engines("noop")
        .setting("http_proxy", PROXY)
        .setting("COMPUTE_AGENT_OTLP__ENDPOINT", &collector.url())
        .setting("COMPUTE_AGENT_OTLP__HEADERS", "x-token=agent")
}

fn cluster(collector: &Collector) -> ClusterSpec {
    ClusterSpec::new()
        .setting("http_proxy", PROXY)
        .setting("ORCHESTRATOR_OTLP__ENDPOINT", &collector.url())
        .setting("ORCHESTRATOR_OTLP__HEADERS", "x-token=orchestrator")
        .setting("ORCHESTRATOR_NODE_TTL", "2")
}

fn trace_of(job: JobId) -> String {
    job.uuid().simple().to_string()
}

/// Waits until a trace has the expected number of spans of each name; returns the spans by name.
async fn spans(
    collector: &Collector,
    trace: &str,
    expected_counts: &[(&str, usize)],
) -> BTreeMap<String, Vec<Collected>> {
    eventually(&format!("the spans of {trace}"), async || {
        let mut spans: BTreeMap<String, Vec<Collected>> = BTreeMap::new();
        for span in collector.spans().into_iter().filter(|span| span.trace == trace) {
            spans.entry(span.name.clone()).or_default().push(span);
        }
        let count = |name: &str| spans.get(name).map_or(0, Vec::len);
        match expected_counts.iter().all(|(name, expected_counts)| count(name) == *expected_counts)
        {
            true => Ok(spans),
            false => Err(format!("{:?}", spans.keys())),
        }
    })
    .await
}

#[tokio::test]
async fn a_job_has_one_trace_across_both_daemons() {
    let collector = Collector::start().await;
    let cluster = cluster(&collector).agent(agent(&collector)).start_without_docker().await;
    let mut job = noop();
    let input = |target| {
        let params = json!({ "URL": DataUrl::text("hello") });
        json!({ "Source": { "Type": "inline", "Params": params }, "Target": target })
    };
    job["Tasks"][0]["InputSources"] = json!([input("/inputs/one"), input("/inputs/two")]);
    job["Tasks"][0]["Publisher"] = json!({ "Type": "local" });
    let id = cluster.submit(&job).await;
    cluster.wait_for_job(id, JobStateType::Completed).await;

    // Name, parent, service.
    let tree = [
        ("submit job", "", "orchestrator"),
        ("job", "submit job", "orchestrator"),
        ("queue", "job", "orchestrator"),
        ("execution", "job", "orchestrator"),
        ("offer", "execution", "orchestrator"),
        ("fetch inputs", "execution", "compute-agent"),
        ("fetch input", "fetch inputs", "compute-agent"),
        ("make", "execution", "compute-agent"),
        ("start", "execution", "compute-agent"),
        ("run", "execution", "compute-agent"),
        ("publish", "execution", "compute-agent"),
        ("report", "execution", "compute-agent"),
    ];
    let expected_counts = tree.map(|(name, ..)| (name, if name == "fetch input" { 2 } else { 1 }));
    let spans = spans(&collector, &trace_of(id), &expected_counts).await;
    assert_eq!(spans.len(), tree.len(), "{:?}", spans.keys());
    for (name, parent, service) in tree {
        for span in &spans[name] {
            let expected = spans.get(parent).map_or("", |spans| spans[0].id.as_str());
            assert_eq!(
                (span.parent.as_str(), span.service.as_str()),
                (expected, service),
                "{name}"
            );
            assert!(span.from <= span.to && span.from > 0, "{span:?}");
            assert_eq!(span.attributes["job.id"], id.to_string(), "{span:?}");
        }
    }
    let whole = &spans["execution"][0];
    for (name, ..) in tree.iter().filter(|(_, parent, _)| *parent == "execution") {
        assert!(spans[*name][0].from >= whole.from, "{name} begins before its execution");
    }
    let node = cluster.agents[0].node_id().to_string();
    assert_eq!(whole.attributes["node.id"], node);
    assert_eq!(spans["run"][0].instance, node);
    assert_eq!(collector.tokens(), ["agent", "orchestrator"]);
}

#[tokio::test]
async fn the_traces_of_a_submitter_and_of_the_job_link_to_each_other() {
    let collector = Collector::start().await;
    let cluster = cluster(&collector).start_without_agents().await;
    let url = format!("{}/api/v1/orchestrator/jobs", cluster.client().base_url());
    let http = reqwest::Client::builder().no_proxy().build().expect("make a client");
    let theirs = "0af7651916cd43dd8448eb211c80319c";
    let response = http
        .put(url)
        .header("traceparent", format!("00-{theirs}-b7ad6b7169203331-01"))
        .json(&json!({ "Job": noop() }))
        .send()
        .await
        .expect("a response");
    let response: serde_json::Value = response.json().await.expect("a body");
    let id: JobId = response["JobID"].as_str().expect("an id").parse().expect("an id");
    let root = &spans(&collector, &trace_of(id), &[("submit job", 1)]).await["submit job"][0];
    let ours = &spans(&collector, theirs, &[("submit job", 1)]).await["submit job"][0];
    assert_eq!((root.parent.as_str(), ours.parent.as_str()), ("", "b7ad6b7169203331"));
    assert_eq!(root.links, [(theirs.to_owned(), ours.id.clone())]);
    assert_eq!(ours.links, [(trace_of(id), root.id.clone())]);
}

#[tokio::test]
async fn a_trace_survives_a_restart_of_the_orchestrator_and_retries_are_linked() {
    let collector = Collector::start().await;
    let mut cluster = cluster(&collector).agent(agent(&collector)).start_without_docker().await;
    // An offer to a hanging node is lost with its lease.
    cluster.agents[0].pause();
    let id = cluster.submit(&noop()).await;
    let before = spans(&collector, &trace_of(id), &[("submit job", 1), ("queue", 1)]).await;
    cluster.orchestrator.kill();
    cluster.orchestrator.restart().await;
    cluster.add_agent(&agent(&collector)).await;
    cluster.wait_for_job(id, JobStateType::Completed).await;
    let expected_counts =
        [("submit job", 1), ("job", 1), ("execution", 2), ("run", 1), ("report", 1)];
    let after = spans(&collector, &trace_of(id), &expected_counts).await;
    assert_eq!(after["job"][0].parent, before["submit job"][0].id);
    let (lost, done): (Vec<_>, Vec<_>) =
        after["execution"].iter().partition(|span| !span.error.is_empty());
    assert_eq!((lost.len(), done.len()), (1, 1), "{:?}", after["execution"]);
    assert_eq!(done[0].links, [(trace_of(id), lost[0].id.clone())]);
    assert_eq!(after["run"][0].parent, done[0].id);
    cluster.agents[0].resume();
}

#[tokio::test]
async fn an_unreachable_collector_is_logged_once_and_slows_nothing() {
    let unreachable = "http://127.0.0.1:9";
    let agent =
        AgentSpec::new().engines("noop").setting("COMPUTE_AGENT_OTLP__ENDPOINT", unreachable);
    let cluster: Cluster = ClusterSpec::new()
        .setting("ORCHESTRATOR_OTLP__ENDPOINT", unreachable)
        .agent(agent)
        .start_without_docker()
        .await;
    let message = "cannot export traces";
    let count = |log: &str| log.lines().filter(|line| line.contains(message)).count();
    for round in 0..3 {
        cluster.run_one(&noop()).await;
        // Each round waits, so that its spans are exported separately.
        eventually("both daemons have attempted an export", async || {
            match count(&cluster.orchestrator.log()).min(count(&cluster.agents[0].log())) {
                0 => Err(format!("nothing was logged in round {round}")),
                _ => Ok(()),
            }
        })
        .await;
    }
    for log in [cluster.orchestrator.log(), cluster.agents[0].log()] {
        assert_eq!(count(&log), 1, "{log}");
    }
}
