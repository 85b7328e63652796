//! `POST /api/v1/orchestrator/jobs/:jobID/rerun`.

use serde_json::{Value, json};

use crate::node::{FakeNode, executions};
use crate::server::{Server, job_path, job_with, list, text};

crate::covers! {
    "rerunJob" => failed_indexes_run_again_under_their_indexes;
}

const OF: &str = "service.org/rerun-of";
const COUNT: &str = "service.org/execution-count";

pub(crate) fn index_of(execution: &Value) -> String {
    let name = text(&execution["Name"]);
    name.rsplit('[').next().unwrap_or_default().trim_end_matches(']').to_owned()
}

/// A job of four indexes, of which 1 and 3 failed.
pub(crate) async fn half_failed(server: &Server, node: &FakeNode) -> String {
    let mut job = job_with(json!({ "Count": 4, "MaxFailed": 5, "Priority": 3 }));
    job["Meta"] = json!({ "own": "x", OF: "j-forged" });
    job["Tasks"][0]["Resources"] = json!({ "CPU": "0.1", "Memory": "1MB" });
    let id = server.submit(job).await;
    for execution in executions(server, &id, 4).await {
        let failed = ["1", "3"].contains(&index_of(&execution).as_str());
        end(server, node, &execution, failed).await;
    }
    id
}

pub(crate) async fn end(server: &Server, node: &FakeNode, execution: &Value, failed: bool) {
    let id = text(&execution["ID"]);
    if !failed {
        return node.complete(server, &id, json!(null)).await;
    }
    for (sequence, state) in [(1, 3), (2, 5), (3, 8)] {
        let message = if state == 8 { "exit code 7" } else { "" };
        let report = json!({
            "ExecutionID": id, "Sequence": sequence, "ComputeState": state, "Message": message,
        });
        node.report(server, report).await;
    }
}

pub(crate) fn rerun_path(id: &str) -> String {
    format!("{}/rerun", job_path(id))
}

async fn job(server: &Server, id: &str) -> Value {
    server.get(&job_path(id)).await.ok()["Job"].clone()
}

#[tokio::test]
async fn failed_indexes_run_again_under_their_indexes() {
    let server = Server::start().await;
    let node = FakeNode::join(&server).await;
    let first = half_failed(&server, &node).await;
    let request =
        json!({ "Only": "failed", "Patch": { "priority": 7, "Tasks": [{ "Name": "b" }] } });
    let dry = server.post(&format!("{}?dry_run=true", rerun_path(&first)), &request).await;
    assert_eq!((&dry.ok()["Indexes"], &dry.ok()["Job"]["Count"]), (&json!("1,3"), &json!(2)));
    let made = server.post(&rerun_path(&first), &request).await;
    let second = text(&made.ok()["JobID"]);
    let placed = executions(&server, &second, 2).await;
    let mut indexes: Vec<_> = placed.iter().map(index_of).collect();
    indexes.sort();
    assert_eq!(indexes, ["1", "3"]);
    let record = job(&server, &second).await;
    assert_eq!((&record["Priority"], &record["Count"]), (&json!(7), &json!(2)));
    assert_eq!(record["Tasks"][0]["Name"], "b");
    let meta = &record["Meta"];
    assert_eq!((&meta[OF], &meta[COUNT], &meta["own"]), (&json!(first), &json!("4"), &json!("x")));
    assert_eq!(job(&server, &first).await["Meta"].get(OF), None, "a user cannot set it");

    // A rerun of the rerun.
    for execution in &placed {
        end(&server, &node, execution, index_of(execution) == "3").await;
    }
    assert_eq!(job(&server, &second).await["State"]["FailedIndexes"], "3");
    let made = server.post(&rerun_path(&second), &json!({ "Only": "NotCompleted" })).await;
    let third = text(&made.ok()["JobID"]);
    assert_eq!(index_of(&executions(&server, &third, 1).await[0]), "3");
    let meta = &job(&server, &third).await["Meta"];
    assert_eq!((&meta[OF], &meta[COUNT]), (&json!(second), &json!("4")));
    let slots = server.get(&format!("{}/slots", job_path(&third))).await;
    assert_eq!(slots.ok()["Buckets"][0]["First"], 3);
}

#[tokio::test]
async fn indexes_that_never_ran_have_not_completed() {
    let server = Server::start().await;
    let node = FakeNode::join(&server).await;
    let mut job = job_with(json!({ "Count": 3, "MaxRunning": 1 }));
    job["Tasks"][0]["Resources"] = json!({ "CPU": "0.1", "Memory": "1MB" });
    let id = server.submit(job).await;
    let running = executions(&server, &id, 1).await.remove(0);
    let refused = server.post(&rerun_path(&id), &json!({})).await;
    refused.refused(409, "JobNotFinished").says("it can run again once it has ended");
    end(&server, &node, &running, true).await;
    let dry = format!("{}?dry_run=true", rerun_path(&id));
    for (request, indexes) in [
        (json!({ "Only": "NotCompleted" }), "0-2"),
        (json!({ "Only": "Failed" }), "0"),
        (json!({ "Indexes": "2,0" }), "0,2"),
        (json!({ "Only": "NotCompleted", "Indexes": "1-2" }), "1-2"),
    ] {
        assert_eq!(server.post(&dry, &request).await.ok()["Indexes"], indexes, "{request}");
    }
}

#[tokio::test]
async fn what_cannot_run_again_is_refused_with_the_reason() {
    let server = Server::start().await;
    let node = FakeNode::join(&server).await;
    let id = half_failed(&server, &node).await;
    for (request, code, problem) in [
        (
            json!({ "Only": "failed", "Indexes": "0,2" }),
            "InvalidRequest",
            "Only: no index would run: none of the Indexes failed",
        ),
        (json!({ "Indexes": "" }), "InvalidRequest", "Only: no index would run"),
        (json!({ "Only": "some" }), "InvalidRequest", "Only: 'some' is not a choice of indexes"),
        (
            json!({ "Indexes": "3-4" }),
            "InvalidRequest",
            "Indexes: names an index that the job does not have; it has 4, from 0 to 3",
        ),
        (json!({ "Indexes": "x" }), "InvalidRequest", "Indexes: 'x' is not a list of indexes"),
        (json!({ "Upstream": true }), "InvalidRequest", "Upstream: is not a known field"),
        (json!({ "Patch": [] }), "InvalidJob", "Patch: must be an object"),
        (json!({ "Patch": { "Type": "ops" } }), "InvalidJob", "Patch.Type: cannot be changed"),
        (
            json!({ "Patch": { "namespace": "x" } }),
            "InvalidJob",
            "Patch.Namespace: cannot be changed",
        ),
        (json!({ "Patch": { "Count": 9 } }), "InvalidJob", "Patch.Count: cannot be changed"),
        (
            json!({ "Patch": { "Tasks": [{}, {}] } }),
            "InvalidJob",
            "Patch.Tasks: must be a list with one",
        ),
        (
            json!({ "Patch": { "Priority": 101 } }),
            "InvalidJob",
            "Priority: must be between 0 and 100",
        ),
        (
            json!({ "Patch": { "Tasks": [{ "Engine": { "Type": "x" } }] } }),
            "InvalidJob",
            "Tasks[0].Engine.Type: ",
        ),
    ] {
        server.post(&rerun_path(&id), &request).await.refused(400, code).says(problem);
    }
    let service = server.submit(job_with(json!({ "Type": "service" }))).await;
    let refused = server.post(&rerun_path(&service), &json!({})).await;
    refused.refused(400, "InvalidRequest").says("only batch and ops jobs run again");
    let absent = rerun_path("j-00000000-0000-4000-8000-000000000000");
    server.post(&absent, &json!({})).await.refused(404, "JobNotFound");
    let jobs = server.get("/api/v1/orchestrator/jobs").await;
    assert_eq!(list(&jobs.ok()["Jobs"]).len(), 2, "nothing was stored");
}
