//! `GET /api/v1/orchestrator/nodes/:nodeID/history`, and events of nodes on the stream.

use serde_json::{Value, json};

use crate::node::{FakeNode, completed_job, fresh_node_id, node_path};
use crate::server::{PATIENCE, Server, list, plain_job, redacted, text};
use crate::stream::Events;

crate::covers! {
    "listNodeHistory" => a_node_has_a_history;
}

async fn history(server: &Server, node: &str, query: &str) -> Vec<Value> {
    let answer = server.get(&node_path(node, &format!("/history?{query}"))).await;
    list(&answer.ok()["History"]).clone()
}

async fn act(server: &Server, node: &FakeNode, action: &str, message: &str) {
    let body = json!({ "Action": action, "Message": message });
    server.put(&node_path(&node.id, ""), &body).await.ok();
}

#[tokio::test]
async fn a_node_has_a_history() {
    let server = Server::start().await;
    let node = FakeNode::join(&server).await;
    let other = FakeNode::join(&server).await;
    act(&server, &node, "cordon", "new disk").await;
    let events = history(&server, &node.id, "").await;
    let expected = |revision: u64, previous: &str, new: &str, comment: &str| {
        json!({
            "Type": "NodeLevel", "JobID": "", "NodeID": "n-…", "ExecutionID": "",
            "JobState": null, "ExecutionState": null,
            "NodeState": { "Previous": previous, "New": new },
            "NewRevision": revision, "Comment": comment, "Time": "T",
        })
    };
    let found: Vec<Value> = events.iter().map(redacted).collect();
    let joined = expected(1, "UNKNOWN", "CONNECTED", "joined for the first time");
    let cordoned = expected(2, "ELIGIBLE", "CORDONED", "cordoned: new disk");
    assert_eq!(found, [joined.clone(), cordoned]);
    assert!(events.iter().all(|event| event["NodeID"] == node.id));
    assert_eq!(history(&server, &node.id[..10], "").await, events);
    let of_other = history(&server, &other.id, "").await;
    assert_eq!(of_other.iter().map(redacted).collect::<Vec<_>>(), [joined]);
    assert_eq!(history(&server, &server.node_id(), "").await, [0; 0], "it never joins");
}

#[tokio::test]
async fn a_history_comes_in_pages_and_since_a_moment() {
    let server = Server::start().await;
    let node = FakeNode::join(&server).await;
    let other = FakeNode::join(&server).await;
    for action in ["cordon", "uncordon", "drain", "uncordon"] {
        act(&server, &node, action, "").await;
    }
    let all = history(&server, &node.id, "").await;
    assert_eq!(all.len(), 6, "a drain of an empty node begins and ends");
    for limit in [1, 2, 5, 6] {
        let (mut paged, mut token) = (Vec::new(), String::new());
        loop {
            let query = format!("/history?limit={limit}&next_token={token}");
            let page = server.get(&node_path(&node.id, &query)).await;
            paged.extend(list(&page.ok()["History"]).clone());
            token = text(&page.body["NextToken"]);
            if token.is_empty() {
                break;
            }
            let foreign = format!("/history?limit={limit}&next_token={token}");
            let answer = server.get(&node_path(&other.id, &foreign)).await;
            answer.refused(400, "InvalidNextToken");
        }
        assert_eq!(paged, all, "{limit}");
    }
    let third = text(&all[2]["Time"]);
    let later: Vec<Value> =
        all.iter().filter(|event| text(&event["Time"]) >= third).cloned().collect();
    assert_eq!(history(&server, &node.id, &format!("since={third}")).await, later);
    assert_eq!(history(&server, &node.id, "since=0s").await, [0; 0]);
    for (query, code) in [("limit=-1", "InvalidQuery"), ("next_token=x", "InvalidNextToken")] {
        let answer = server.get(&node_path(&node.id, &format!("/history?{query}"))).await;
        answer.refused(400, code);
    }
}

#[tokio::test]
async fn the_history_of_a_forgotten_node_is_read_by_its_full_id() {
    let server =
        Server::start_with(|settings| orchestrator::Settings { node_ttl: 2, ..settings }).await;
    let node = FakeNode::join(&server).await;
    let begin = std::time::Instant::now();
    while history(&server, &node.id, "").await.len() < 2 {
        assert!(begin.elapsed() < PATIENCE, "its lease does not end");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    server.delete(&node_path(&node.id, "")).await.ok();
    let events = history(&server, &node.id, "").await;
    let comments: Vec<_> = events.iter().map(|event| text(&event["Comment"])).collect();
    assert!(comments[1].starts_with("its lease ended: no heartbeat for "), "{comments:?}");
    assert_eq!(comments[2..], ["forgotten by an operator"]);
    assert_eq!(history(&server, &node.id, "since=0s").await, [0; 0]);
    for name in [&node.id[..10], &fresh_node_id(), "nonsense"] {
        let answer = server.get(&node_path(name, "/history")).await;
        answer.refused(404, "NodeNotFound").says(name);
    }
}

/// Streams name what a history is about.
fn unnamed(mut event: Value) -> Value {
    let fields = event.as_object_mut().expect("an event");
    for name in ["JobName", "Index", "NodeName"] {
        fields.remove(name);
    }
    event
}

#[tokio::test]
async fn a_stream_has_events_of_nodes_only_when_they_are_requested() {
    let server = Server::start().await;
    let mut of_nodes = Events::open(&server, "event_type=node").await;
    let mut of_jobs = Events::open(&server, "").await;
    let node = FakeNode::join(&server).await;
    let (id, _) = completed_job(&server, &node, plain_job()).await;
    act(&server, &node, "cordon", "").await;
    let told = of_nodes.events(2).await;
    assert!(told.iter().all(|(_, event)| event["NodeName"] == "node"), "{told:?}");
    let told: Vec<Value> = told.into_iter().map(|(_, event)| unnamed(event)).collect();
    assert_eq!(told, history(&server, &node.id, "").await);
    let of_job = server.get(&format!("{}/history", crate::server::job_path(&id))).await;
    let expected = list(&of_job.ok()["History"]).clone();
    assert!(expected.iter().all(|event| event["Type"] != "NodeLevel"));
    let events = of_jobs.events(expected.len()).await;
    let told = events.iter().map(|(_, event)| unnamed(event.clone()));
    assert_eq!(told.collect::<Vec<_>>(), expected);
    assert_eq!(events[0].0, 2, "the sequence counts the event of the node too");

    for filter in [format!("job_id={id}"), "namespace=default".to_owned()] {
        let path = format!("{}?event_type=node&{filter}", crate::stream::EVENTS);
        let answer = server.get(&path).await;
        answer.refused(400, "InvalidQuery").says("belong to no job and no namespace");
    }
    let of_job = crate::server::job_path(&id);
    let answer = server.get(&format!("{of_job}/history?event_type=node")).await;
    answer.refused(400, "InvalidQuery");
}
