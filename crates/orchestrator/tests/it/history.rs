//! `GET /api/v1/orchestrator/jobs/:jobID/history`.

use serde_json::{Value, json};

use crate::node::{FakeNode, completed_job, executions, fresh_node_id};
use crate::server::{Server, job_path, job_with, list, plain_job, redacted, text};

crate::covers! {
    "listHistory" => a_successful_execution_has_six_events;
}

async fn history(server: &Server, job: &str, query: &str) -> Vec<Value> {
    let answer = server.get(&format!("{}/history?{query}", job_path(job))).await;
    list(&answer.ok()["History"]).clone()
}

#[tokio::test]
async fn a_successful_execution_has_six_events() {
    let server = Server::start().await;
    let node = FakeNode::join(&server).await;
    let (id, execution) = completed_job(&server, &node, plain_job()).await;
    let events = history(&server, &id, "event_type=execution").await;
    let steps: Vec<_> = events
        .iter()
        .map(|event| {
            let state = &event["ExecutionState"];
            (event["NewRevision"].as_u64(), state["Previous"].as_u64(), state["New"].as_u64())
        })
        .collect();
    let expected = [(1, 1, 1), (2, 1, 2), (3, 2, 3), (4, 3, 3), (5, 3, 5), (6, 5, 7)]
        .map(|(revision, previous, new)| (Some(revision), Some(previous), Some(new)));
    assert_eq!(steps, expected);

    let mut first = redacted(&events[0]);
    assert!(!text(&first["Comment"].take()).is_empty());
    let expected = json!({
        "Type": "ExecutionLevel", "JobID": "j-…", "NodeID": "n-…", "ExecutionID": "e-…",
        "JobState": null, "ExecutionState": { "Previous": 1, "New": 1 }, "NewRevision": 1,
        "Comment": null, "Time": "T",
    });
    assert_eq!(first, expected);
    assert_eq!(events[0]["ExecutionID"], execution);
    assert_eq!(events[0]["NodeID"], node.id);
}

#[tokio::test]
async fn since_is_absolute_or_back_from_now() {
    let server = Server::start().await;
    let id = server.submit(plain_job()).await;
    for (since, is_found) in
        [("0", true), ("2020-01-31", true), ("2h", true), ("0s", false), ("2200-01-31", false)]
    {
        let found = history(&server, &id, &format!("event_type=job&since={since}")).await;
        assert_eq!(!found.is_empty(), is_found, "{since}");
    }
}

#[tokio::test]
async fn a_job_has_events_of_its_own() {
    let server = Server::start().await;
    let node = FakeNode::join(&server).await;
    let (id, _) = completed_job(&server, &node, plain_job()).await;
    let events = history(&server, &id, "event_type=job").await;
    let states: Vec<_> = events.iter().map(|event| event["JobState"].clone()).collect();
    assert_eq!(states.last(), Some(&json!({ "Previous": "Running", "New": "Completed" })));
    for (revision, event) in (1_u64..).zip(&events) {
        let mut event = redacted(event);
        assert!(!text(&event["Comment"].take()).is_empty());
        event["JobState"].take();
        let expected = json!({
            "Type": "JobLevel", "JobID": "j-…", "NodeID": "", "ExecutionID": "",
            "JobState": null, "ExecutionState": null, "NewRevision": revision,
            "Comment": null, "Time": "T",
        });
        assert_eq!(event, expected);
    }
}

#[tokio::test]
async fn filters_select_events() {
    let server = Server::start().await;
    let node = FakeNode::join(&server).await;
    let id = server.submit(job_with(json!({ "Count": 2 }))).await;
    let both = executions(&server, &id, 2).await;
    let one = text(&both[0]["ID"]);
    node.complete(&server, &one, json!(null)).await;
    let all = history(&server, &id, "").await;
    let of = |kind: &str| all.iter().filter(|event| event["Type"] == kind).cloned().collect();
    let (jobs, runs): (Vec<Value>, Vec<Value>) = (of("JobLevel"), of("ExecutionLevel"));
    assert!(!jobs.is_empty() && runs.len() >= 8);
    assert_eq!(history(&server, &id, "event_type=ALL").await, all);
    assert_eq!(history(&server, &id, "event_type=job").await, jobs);
    assert_eq!(history(&server, &id, "event_type=execution").await, runs);
    let of_one: Vec<Value> =
        runs.iter().filter(|event| event["ExecutionID"] == one).cloned().collect();
    assert_eq!(of_one.len(), 6);
    for name in [&one, &one[..10]] {
        assert_eq!(history(&server, &id, &format!("execution_id={name}")).await, of_one);
    }
    for name in [&node.id, &node.id[..10]] {
        assert_eq!(history(&server, &id, &format!("node_id={name}")).await, runs);
    }
    assert_eq!(history(&server, &id, &format!("node_id={}", fresh_node_id())).await, [0; 0]);
    let none = history(&server, &id, &format!("event_type=job&execution_id={one}")).await;
    assert_eq!(none, [0; 0]);
}

#[tokio::test]
async fn an_unknown_execution_or_node_is_not_found() {
    let server = Server::start().await;
    let node = FakeNode::join(&server).await;
    let (_, foreign) = completed_job(&server, &node, plain_job()).await;
    let id = server.submit(plain_job()).await;
    let path = format!("{}/history", job_path(&id));
    for name in ["e-00000000-0000-4000-8000-000000000000", "e-00000000", "nonsense", &foreign] {
        let answer = server.get(&format!("{path}?execution_id={name}")).await;
        answer.refused(404, "ExecutionNotFound").says(name);
    }
    for name in ["n-00000000", "nonsense"] {
        let answer = server.get(&format!("{path}?node_id={name}")).await;
        answer.refused(404, "NodeNotFound").says(name);
    }
}

#[tokio::test]
async fn since_selects_later_events() {
    let server = Server::start().await;
    let node = FakeNode::join(&server).await;
    let (id, _) = completed_job(&server, &node, plain_job()).await;
    let all = history(&server, &id, "").await;
    let third = text(&all[3]["Time"]);
    let since = history(&server, &id, &format!("since={third}")).await;
    let expected: Vec<Value> =
        all.iter().filter(|event| text(&event["Time"]) >= third).cloned().collect();
    assert_eq!(since, expected);
    assert!(since.len() < all.len());
    assert_eq!(history(&server, &id, "since=0").await, all);
    assert_eq!(history(&server, &id, "since=4000000000").await, [0; 0]);
}

#[tokio::test]
async fn a_history_is_paged_in_the_order_of_its_events() {
    let server = Server::start().await;
    let node = FakeNode::join(&server).await;
    let (id, _) = completed_job(&server, &node, plain_job()).await;
    let all = history(&server, &id, "").await;
    let times: Vec<_> = all.iter().map(|event| text(&event["Time"])).collect();
    assert!(times.is_sorted());
    let (mut paged, mut token) = (Vec::new(), String::new());
    loop {
        let path = format!("{}/history?limit=4&next_token={token}", job_path(&id));
        let page = server.get(&path).await;
        let events = list(&page.ok()["History"]);
        assert!(events.len() <= 4);
        paged.extend(events.clone());
        token = text(&page.body["NextToken"]);
        if token.is_empty() {
            break;
        }
    }
    assert_eq!(paged, all);
}
