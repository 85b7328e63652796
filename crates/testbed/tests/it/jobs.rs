//! The job collection: short ids, pagination, filters and dry runs.

use std::collections::BTreeSet;

use api_client::{ExecutionsQuery, HistoryQuery, JobsQuery, ResultsQuery};
use api_types::job::JobStateType;
use api_types::{Code, JobId};
use serde_json::json;
use testbed::harness::{Cluster, ClusterSpec, batch};

#[tokio::test]
async fn every_operation_on_a_job_accepts_its_short_id() {
    let Some(cluster) = Cluster::with_agents(1).await else { return };
    let id = cluster.submit(&batch(&cluster.image, &["sleep", "600"])).await;
    let client = cluster.client();
    let short = id.short();
    assert_eq!(client.describe_job(&short).await.unwrap().id, id);
    client.stop_job(&short, "").await.unwrap();
    cluster.wait_for_job(id, JobStateType::Stopped).await;
    let history = client.job_history(&short, &HistoryQuery::default()).await.unwrap().history;
    assert!(!history.is_empty() && history.iter().all(|event| event.job_id == Some(id)));
    let executions =
        client.job_executions(&short, &ExecutionsQuery::default()).await.unwrap().executions;
    assert!(executions.iter().all(|execution| execution.job_id == id));
    assert_eq!(client.job_results(&short, &ResultsQuery::default()).await.unwrap().results, []);

    let unknown = client.describe_job("j-00000000").await.unwrap_err();
    assert_eq!(unknown.code(), Some(Code::JobNotFound), "{unknown}");
}

#[tokio::test]
async fn pages_neither_repeat_nor_skip_while_jobs_are_being_added() {
    let cluster = ClusterSpec::new().start_without_agents().await;
    let mut before = Vec::new();
    for _ in 0..23 {
        before.push(cluster.submit(&batch(&cluster.image, &["echo"])).await);
    }
    for reverse in [false, true] {
        let seen = walk(&cluster, reverse).await;
        let unique: BTreeSet<_> = seen.iter().copied().collect();
        assert_eq!(unique.len(), seen.len(), "a job is repeated");
        let mut old: Vec<_> = seen.into_iter().filter(|id| before.contains(id)).collect();
        if reverse {
            old.reverse();
        }
        assert_eq!(old, before, "every earlier job is listed in order");
    }
}

/// Lists pages of five jobs, adding a job between two pages.
async fn walk(cluster: &Cluster, reverse: bool) -> Vec<JobId> {
    let mut seen = Vec::new();
    let mut query = JobsQuery { limit: Some(5), reverse, ..JobsQuery::default() };
    // New jobs at the end of the list would continue it forever.
    for _ in 0..12 {
        let page = cluster.client().list_jobs(&query).await.expect("a page");
        assert!(page.jobs.len() <= 5);
        seen.extend(page.jobs.iter().map(|job| job.id));
        if page.next_token.is_empty() {
            break;
        }
        query.next_token = Some(page.next_token);
        cluster.submit(&batch(&cluster.image, &["echo"])).await;
    }
    seen
}

#[tokio::test]
async fn jobs_are_found_by_namespace_and_labels() {
    let cluster = ClusterSpec::new().start_without_agents().await;
    let mut ids = Vec::new();
    for (namespace, team) in [("default", "red"), ("default", "blue"), ("lab", "red")] {
        let mut job = batch(&cluster.image, &["echo"]);
        job["Namespace"] = json!(namespace);
        job["Labels"] = json!({ "team": team });
        ids.push(cluster.submit(&job).await);
    }
    for (namespace, labels, expected) in [
        (None, "", &ids[..2]),
        (Some("*"), "", &ids[..]),
        (Some("lab"), "", &ids[2..]),
        (None, "team=red", &ids[..1]),
        (Some("*"), "team in (blue,green)", &ids[1..2]),
    ] {
        let query = JobsQuery {
            namespace: namespace.map(str::to_owned),
            labels: if labels.is_empty() { Vec::new() } else { vec![labels.to_owned()] },
            ..JobsQuery::default()
        };
        let jobs = cluster.client().list_jobs(&query).await.unwrap().jobs;
        let found: Vec<_> = jobs.iter().map(|job| job.id).collect();
        assert_eq!(found, expected, "{namespace:?} {labels}");
    }
}

#[tokio::test]
async fn a_dry_run_returns_the_chosen_nodes_and_stores_nothing() {
    let Some(cluster) = Cluster::with_agents(1).await else { return };
    let job = json!({ "Job": batch(&cluster.image, &["echo"]) }).to_string();
    let response = cluster.client().dry_run_job_raw(job.into()).await.unwrap();
    assert_eq!(response.job.spec.namespace, "default");
    let chosen: Vec<_> =
        response.nodes.iter().filter(|node| node.chosen).map(|node| node.node_id).collect();
    assert_eq!(chosen, [cluster.agents[0].node_id()]);
    assert_eq!(cluster.client().list_jobs(&JobsQuery::default()).await.unwrap().jobs, []);
}
