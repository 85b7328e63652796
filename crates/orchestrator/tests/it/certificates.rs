//! What a node's certificate is good for: its own part of the agent protocol, and nothing else.

use reqwest::Method;
use serde_json::{Value, json};

use crate::joining::Protected;
use crate::node::{node_path, session_request};
use crate::server::{answer, text};

#[tokio::test]
async fn a_node_acts_for_itself_alone() {
    let protected = Protected::start().await;
    let token = protected.token(json!({ "Uses": 2 })).await;
    let (node, other) = (protected.node(&token).await, protected.node(&token).await);
    node.session().await.ok();
    other.session().await.ok();
    let (get, put, post) = (&Method::GET, &Method::PUT, &Method::POST);
    for id in [&other.id, &protected.server().node_id()] {
        for (method, rest, body) in [
            (put, "/session", session_request()),
            (put, "/heartbeat", json!({ "Session": 1, "UsedCapacity": {} })),
            (get, "/assignments?session=1", Value::Null),
            (put, "/executions", json!({ "Session": 1, "Reports": [] })),
            (post, "/streams/x", Value::Null),
            (post, "/certificate", json!({ "CSR": node.key.request().unwrap() })),
            (put, "", json!({ "Action": "drain" })),
            (get, "", Value::Null),
        ] {
            let refused = node.ask(method.clone(), &node_path(id, rest), &body).await;
            refused.refused(403, "Forbidden").says(&node.id[..10]);
        }
    }
    // Without a certificate no one speaks for a node, not even an admin.
    let session = node_path(&node.id, "/session");
    let request = protected.server().request(Method::PUT, &session).json(&session_request());
    answer(request).await.refused(401, "Unauthenticated");
    protected.ask(Method::PUT, &session, &session_request()).await.refused(403, "Forbidden");
}

/// Every operation that asks who the caller is, with its method and a path that names this node.
async fn guarded_operations(protected: &Protected, node: &str) -> Vec<(String, Method, String)> {
    let document = protected.ask(Method::GET, "/api/v1/openapi.json", &Value::Null).await;
    let table = crate::roles::table();
    let mut operations = Vec::new();
    for (path, item) in document.ok()["paths"].as_object().expect("paths") {
        for (method, operation) in item.as_object().expect("operations") {
            let id = text(&operation["operationId"]);
            if table.get(&id).is_some_and(|statuses| statuses[0] == 401) {
                let method = method.to_uppercase().parse().expect("a method");
                let fill = |part: &str| match part.starts_with('{') {
                    true => node.to_owned(),
                    false => part.to_owned(),
                };
                let path: Vec<_> = path.split('/').map(fill).collect();
                operations.push((id, method, path.join("/")));
            }
        }
    }
    operations
}

#[tokio::test]
async fn a_node_is_no_user_and_its_tries_are_audited() {
    let mut protected = Protected::start().await;
    let token = protected.token(json!({ "Uses": 2 })).await;
    let (node, other) = (protected.node(&token).await, protected.node(&token).await);
    node.session().await.ok();
    other.session().await.ok();
    let operations = guarded_operations(&protected, &other.id).await;
    assert!(operations.len() > 50, "{operations:?}");
    let mut wrong = Vec::new();
    for (id, method, path) in &operations {
        for _ in 0..2 {
            let status = node.ask(method.clone(), path, &json!({})).await.status;
            if status != 403 {
                wrong.push(format!("{id}: {status}"));
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new());

    // Of each operation the first try is a record, and all that followed are one more.
    protected.restart().await;
    let path = "/api/v1/orchestrator/audit?chain=rest&limit=1000&user=node";
    let records = protected.ask(Method::GET, path, &Value::Null).await;
    let mut records = records.ok()["Records"].as_array().expect("records").clone();
    records.retain(|record| record["TokenID"] == node.id && record["Outcome"] == "denied");
    let mut denied: std::collections::BTreeMap<_, u64> = Default::default();
    for record in &records {
        *denied.entry(text(&record["Operation"])).or_default() +=
            record["Count"].as_u64().expect("a number");
    }
    let expected = operations.into_iter().map(|(id, ..)| (id, 2)).collect();
    assert_eq!(denied, expected);
    assert_eq!(records.len(), 2 * denied.len(), "an operation has the first and one more");
}
