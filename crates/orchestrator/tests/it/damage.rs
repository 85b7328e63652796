//! Rows of the state database that were damaged while the orchestrator was stopped.

use reqwest::Method;
use rusqlite::Connection;
use serde_json::{Value, json};

use crate::node::{Assignments, FakeNode, executions, node_path, session_request};
use crate::server::{Server, answer, job_path, job_with, list, task_with, text};

/// Changes the stored specification of the job.
fn damage(server: &Server, job: &str, change: &str) {
    let path = server.data_dir().join("orchestrator.db");
    let id = job.trim_start_matches("j-").replace('-', "");
    let sql = format!(
        "UPDATE job_spec SET {change} WHERE job = (SELECT number FROM job WHERE id = x'{id}')"
    );
    let database = Connection::open(path).expect("the file is there");
    let changed = database.execute(&sql, []).expect("the statement fits its table");
    assert_eq!(changed, 1);
}

async fn named(server: &Server, name: &str) -> String {
    server.submit(job_with(json!({ "Name": name }))).await
}

async fn state(server: &Server, job: &str) -> (Value, String) {
    let job = server.get(&job_path(job)).await;
    let state = &job.ok()["Job"]["State"];
    (state["StateType"].clone(), text(&state["Message"]))
}

async fn rejoined(server: &Server, node: &FakeNode) -> (FakeNode, Assignments) {
    let answer = server.put(&node_path(&node.id, "/session"), &session_request()).await;
    let session = answer.ok()["Session"].as_u64().expect("a number");
    let node = FakeNode { id: node.id.clone(), session };
    let stream = node.open(server).await;
    (node, stream)
}

/// The next assignments of the stream that have work, by the name of their job.
async fn work(stream: &mut Assignments, count: usize) -> Vec<String> {
    let mut names = Vec::new();
    while names.len() < count {
        let assignment = stream.assignment().await;
        if let Some(name) = assignment["Work"]["JobName"].as_str() {
            names.push(name.to_owned());
        }
    }
    names.sort();
    names
}

#[tokio::test]
async fn a_waiting_job_whose_specification_is_damaged_fails_when_it_is_offered_and_no_other() {
    let mut server = Server::start().await;
    let damaged = named(&server, "damaged").await;
    named(&server, "whole").await;
    server.stop().await;
    damage(&server, &damaged, "json = substr(json, 1, 40)");
    server.restart().await;
    assert_eq!(state(&server, &damaged).await.0, "Queued", "the start does not read it");
    let node = FakeNode::join(&server).await;
    let mut stream = node.open(&server).await;
    assert_eq!(work(&mut stream, 1).await, ["whole"]);
    let (ended, message) = state(&server, &damaged).await;
    assert_eq!(ended, "Failed");
    assert!(message.starts_with("its stored specification cannot be read (EOF"), "{message}");
    assert!(message.contains("submit the job again"), "{message}");
    let [execution] = executions(&server, &damaged, 1).await.try_into().unwrap();
    assert_eq!(execution["ComputeState"]["StateType"], 8, "{execution}");
    let history = server.get(&format!("{}/history", job_path(&damaged))).await;
    assert!(history.text.contains("cannot be read"), "{}", history.text);
    // The stream goes on.
    named(&server, "later").await;
    assert_eq!(work(&mut stream, 1).await, ["later"]);
    let jobs = server.get("/api/v1/orchestrator/jobs").await;
    assert_eq!(list(&jobs.ok()["Jobs"]).len(), 3, "all of them are listed");
}

#[tokio::test]
async fn what_runs_does_not_need_its_specification_any_more() {
    let mut server = Server::start().await;
    let node = FakeNode::join(&server).await;
    let damaged = named(&server, "damaged").await;
    let whole = named(&server, "whole").await;
    let mut running = Vec::new();
    for job in [&damaged, &whole] {
        let [execution] = executions(&server, job, 1).await.try_into().unwrap();
        let execution = text(&execution["ID"]);
        for (sequence, state) in [(1, 3), (2, 5)] {
            let report =
                json!({ "ExecutionID": execution, "Sequence": sequence, "ComputeState": state });
            node.report(&server, report).await;
        }
        running.push(execution);
    }
    server.stop().await;
    damage(&server, &damaged, "json = x'00ff'");
    server.restart().await;
    let (node, mut stream) = rejoined(&server, &node).await;
    assert_eq!(stream.next().await, Some(json!({ "Type": "Snapshot", "Executions": 2 })));
    let mut assignments = [stream.assignment().await, stream.assignment().await];
    assignments.sort_by_key(|assignment| !assignment["Work"].is_null());
    let [without, with] = assignments;
    assert_eq!(
        (&without["ExecutionID"], &without["DesiredState"]),
        (&json!(running[0]), &json!(1))
    );
    assert_eq!(with["Work"]["JobName"], "whole");
    assert_eq!(state(&server, &damaged).await.0, "Running");
    let live = server.get("/api/v1/orchestrator/executions?state=live").await;
    assert_eq!(list(&live.ok()["Executions"]).len(), 2);
    for (job, execution) in [(&damaged, &running[0]), (&whole, &running[1])] {
        node.complete(&server, execution, json!({ "Type": "", "Params": {} })).await;
        assert_eq!(state(&server, job).await.0, "Completed");
    }
}

#[tokio::test]
async fn a_job_whose_secrets_can_no_longer_be_told_fails_and_stops() {
    let mut server = Server::start().await;
    server.put("/api/v1/orchestrator/secrets/db", &json!({ "Value": "secret" })).await.ok();
    let node = FakeNode::join(&server).await;
    let secrets = json!({ "Secrets": [{ "Name": "db", "Env": "DB" }] });
    let damaged = server.submit(task_with(secrets)).await;
    let [execution] = executions(&server, &damaged, 1).await.try_into().unwrap();
    let execution = text(&execution["ID"]);
    node.report(&server, json!({ "ExecutionID": execution, "Sequence": 1, "ComputeState": 3 }))
        .await;
    server.stop().await;
    damage(&server, &damaged, "json = substr(json, 1, 40)");
    server.restart().await;
    let (node, mut stream) = rejoined(&server, &node).await;
    assert_eq!(stream.assignment().await["DesiredState"], 1);
    let (path, body) = (node_path(&node.id, "/secrets"), json!({ "ExecutionID": execution }));
    let ask = async || answer(server.request(Method::POST, &path).json(&body)).await;
    ask().await.refused(500, "Internal");
    let (ended, message) = state(&server, &damaged).await;
    assert_eq!(ended, "Failed");
    assert!(message.starts_with("its stored specification cannot be read"), "{message}");
    assert_eq!(stream.assignment().await["DesiredState"], 2);
    ask().await.refused(404, "ExecutionNotFound");
}

#[tokio::test]
async fn jobs_of_which_nothing_can_be_read_fail_at_the_start_and_no_other() {
    let mut server = Server::start().await;
    let node = FakeNode::join(&server).await;
    let big = json!({ "Resources": { "CPU": "4" } });
    let running = server.submit(task_with(big.clone())).await;
    let waiting = server.submit(task_with(big)).await;
    let unplanned = named(&server, "unplanned").await;
    let [execution] = executions(&server, &running, 1).await.try_into().unwrap();
    let execution = text(&execution["ID"]);
    for (sequence, state) in [(1, 3), (2, 5)] {
        let report =
            json!({ "ExecutionID": execution, "Sequence": sequence, "ComputeState": state });
        node.report(&server, report).await;
    }
    server.stop().await;
    for job in [&running, &waiting] {
        damage(&server, job, "plan = substr(plan, 1, 9), json = 'gone'");
    }
    damage(&server, &unplanned, "plan = NULL");
    server.restart().await;
    let (node, mut stream) = rejoined(&server, &node).await;
    for job in [&running, &waiting] {
        let (ended, message) = state(&server, job).await;
        assert_eq!(ended, "Failed");
        assert!(message.contains("cannot be read") && message.contains("backup"), "{message}");
    }
    let stop = stream.assignment().await;
    assert_eq!((&stop["ExecutionID"], &stop["DesiredState"]), (&json!(execution), &json!(2)));
    let report = json!({ "ExecutionID": execution, "Sequence": 3, "ComputeState": 9 });
    node.report(&server, report).await;
    assert_eq!(work(&mut stream, 1).await, ["unplanned"], "it was planned anew");
}
