//! `GET /api/v1/orchestrator/jobs?view=summary`.

use serde_json::{Value, json};

use crate::node::{FakeNode, completed_job, executions};
use crate::server::{JOBS, Server, job_with, list, plain_job, redacted, text};

/// The names of the jobs that a query finds, in its order.
async fn names(server: &Server, query: &str) -> Vec<String> {
    let answer = server.get(&format!("{JOBS}?view=summary&{query}")).await;
    list(&answer.ok()["Jobs"]).iter().map(|job| text(&job["Name"])).collect()
}

async fn summary(server: &Server, name: &str) -> Value {
    let answer = server.get(&format!("{JOBS}?view=summary&name={name}")).await;
    list(&answer.ok()["Jobs"])[0].clone()
}

fn named(name: &str, fields: Value) -> Value {
    let mut job = job_with(fields);
    job["Name"] = name.into();
    job
}

#[tokio::test]
async fn a_summary_counts_the_executions_and_leaves_out_the_tasks() {
    let server = Server::start().await;
    let node = FakeNode::join(&server).await;
    let fields = json!({ "Count": 3, "Labels": { "team": "a" }, "Priority": 70 });
    let job = server.submit(named("three", fields)).await;
    let expected = json!({
        "ID": "j-…", "Name": "three", "Namespace": "default", "Type": "batch", "Priority": 70,
        "Labels": { "team": "a" },
        "State": { "StateType": "Pending", "Message": "" },
        "Executions": { "Total": 3, "Waiting": 3, "Running": 0, "Completed": 0, "Failed": 0 },
        "Version": 1, "Revision": 1, "CreateTime": "T", "ModifyTime": "T",
        "StartTime": 0, "EndTime": 0,
    });
    assert_eq!(redacted(&summary(&server, "three").await), expected);

    let all = executions(&server, &job, 3).await;
    let report = |execution: &Value, sequence: u64, state: u64| json!({ "ExecutionID": execution["ID"], "Sequence": sequence, "ComputeState": state });
    for execution in &all[..2] {
        node.report(&server, report(execution, 1, 3)).await;
        node.report(&server, report(execution, 2, 5)).await;
    }
    let running = summary(&server, "three").await;
    let counts = json!({ "Total": 3, "Waiting": 1, "Running": 2, "Completed": 0, "Failed": 0 });
    assert_eq!(running["Executions"], counts);
    assert!(running["StartTime"].as_i64() >= running["CreateTime"].as_i64(), "{running}");
    assert_eq!(running["EndTime"], 0);

    node.report(&server, report(&all[0], 3, 7)).await;
    node.report(&server, report(&all[1], 3, 8)).await;
    let failed = summary(&server, "three").await;
    let counts = json!({ "Total": 3, "Waiting": 0, "Running": 0, "Completed": 1, "Failed": 1 });
    assert_eq!((&failed["Executions"], &failed["State"]["StateType"]), (&counts, &json!("Failed")));
    assert_eq!(failed["StartTime"], running["StartTime"]);
    assert_eq!(failed["EndTime"], failed["ModifyTime"]);
}

#[tokio::test]
async fn counts_survive_a_restart() {
    let mut server = Server::start().await;
    let node = FakeNode::join(&server).await;
    completed_job(&server, &node, named("done", json!({}))).await;
    let job = server.submit(named("busy", json!({ "Count": 2 }))).await;
    let execution = executions(&server, &job, 2).await[0]["ID"].clone();
    for (sequence, state) in [(1, 3), (2, 5)] {
        let report =
            json!({ "ExecutionID": execution, "Sequence": sequence, "ComputeState": state });
        node.report(&server, report).await;
    }
    let before = [summary(&server, "done").await, summary(&server, "busy").await];
    server.restart().await;
    assert_eq!([summary(&server, "done").await, summary(&server, "busy").await], before);
    let report = json!({ "ExecutionID": execution, "Sequence": 3, "ComputeState": 7 });
    // The session ended with the process that began it.
    let joined = server
        .put(&crate::node::node_path(&node.id, "/session"), &crate::node::session_request())
        .await;
    let session = joined.ok()["Session"].as_u64().expect("a number");
    let node = FakeNode { session, ..node };
    node.report(&server, report).await;
    let counts = json!({ "Total": 2, "Waiting": 1, "Running": 0, "Completed": 1, "Failed": 0 });
    assert_eq!(summary(&server, "busy").await["Executions"], counts);
}

#[tokio::test]
async fn a_queued_job_says_why_it_waits_now() {
    let server = Server::start().await;
    server.submit(named("waits", json!({}))).await;
    let begin = std::time::Instant::now();
    let message = async |part: &str| {
        loop {
            let message = text(&summary(&server, "waits").await["State"]["Message"]);
            if message.contains(part) {
                return;
            }
            assert!(begin.elapsed() < crate::server::PATIENCE, "{part:?} is not in {message:?}");
        }
    };
    message("no node has joined").await;
    FakeNode::join_with(&server, |node| {
        node["ComputeNodeInfo"]["ExecutionEngines"] = json!(["wasm"]);
    })
    .await;
    message("1 of 1 node").await;
}

#[tokio::test]
async fn jobs_are_found_by_the_beginning_of_their_name() {
    let server = Server::start().await;
    for name in ["build", "Build-2", "build-10%", "deploy"] {
        server.submit(named(name, json!({}))).await;
    }
    let unnamed = server.submit(plain_job()).await;
    assert_eq!(names(&server, "name_prefix=build").await, ["build", "build-10%"]);
    assert_eq!(names(&server, "name_prefix=build-10%25").await, ["build-10%"]);
    assert_eq!(names(&server, "name_prefix=build&name=build").await, ["build"]);
    assert_eq!(names(&server, "name_prefix=b%25").await, Vec::<String>::new());
    // A generated name is found by its beginning and as a whole, in both lists.
    let name = format!("image-{}", &unnamed[2..6]);
    for query in [
        "name_prefix=imag".to_owned(),
        "name_prefix=image-".to_owned(),
        format!("name_prefix={}", &name[..name.len() - 1]),
        format!("name={name}"),
    ] {
        assert_eq!(names(&server, &query).await, [&*name], "{query}");
        let full = server.get(&format!("{JOBS}?{query}")).await;
        assert_eq!(list(&full.ok()["Jobs"])[0]["Name"], name);
    }
    assert_eq!(names(&server, "name=image").await, Vec::<String>::new());
    let described = server.get(&format!("{JOBS}/{unnamed}")).await;
    assert_eq!(described.ok()["Job"]["Name"], name);
    assert_eq!(names(&server, "name_prefix=").await.len(), 5);
    let full = server.get(&format!("{JOBS}?name_prefix=deploy")).await;
    let full = &list(&full.ok()["Jobs"])[0];
    assert_eq!((&full["Name"], full["Tasks"].is_array()), (&json!("deploy"), true));
}

#[tokio::test]
async fn jobs_are_ordered_by_their_last_change() {
    let server = Server::start().await;
    for name in ["a", "b", "c"] {
        server.submit(named(name, json!({}))).await;
    }
    let first = text(&summary(&server, "a").await["ID"]);
    server.delete(&format!("{JOBS}/{first}")).await.ok();
    assert_eq!(names(&server, "order_by=modify_time").await, ["b", "c", "a"]);
    assert_eq!(names(&server, "order_by=modified_at&reverse=1").await, ["a", "c", "b"]);
    assert_eq!(names(&server, "order_by=created_at").await, ["a", "b", "c"]);
    let (mut seen, mut token) = (Vec::new(), String::new());
    loop {
        let query = format!("{JOBS}?view=summary&order_by=modify_time&limit=1&next_token={token}");
        let page = server.get(&query).await;
        seen.extend(list(&page.ok()["Jobs"]).iter().map(|job| text(&job["Name"])));
        token = text(&page.body["NextToken"]);
        if token.is_empty() {
            break;
        }
    }
    assert_eq!(seen, ["b", "c", "a"]);
    server.get(&format!("{JOBS}?view=short")).await.refused(400, "InvalidQuery");
}
