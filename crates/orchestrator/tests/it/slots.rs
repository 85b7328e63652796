//! `GET /api/v1/orchestrator/jobs/:jobID/slots`, and what other answers say of failed indexes.

use serde_json::{Value, json};

use crate::node::{FakeNode, executions};
use crate::server::{Server, job_path, job_with, list, text};

crate::covers! {
    "describeSlots" => what_became_of_each_index_is_counted_by_range;
}

/// A job of ten indexes, of which 1, 3 and 4 failed, 0 and 2 completed, and the others run.
async fn half_done(server: &Server, node: &FakeNode) -> String {
    let mut job = job_with(json!({ "Count": 10, "MaxFailed": 5 }));
    job["Tasks"][0]["Resources"] = json!({ "CPU": "0.1", "Memory": "1MB" });
    let id = server.submit(job).await;
    let mut placed = executions(server, &id, 10).await;
    placed.sort_by_key(|execution| text(&execution["Name"]));
    for execution in placed {
        let name = text(&execution["Name"]);
        let execution = text(&execution["ID"]);
        match name.rsplit('[').next() {
            Some("1]" | "3]" | "4]") => fail(server, node, &execution).await,
            Some("0]" | "2]") => node.complete(server, &execution, json!(null)).await,
            _ => {}
        }
    }
    id
}

async fn fail(server: &Server, node: &FakeNode, execution: &str) {
    for (sequence, state) in [(1, 3), (2, 5), (3, 8)] {
        let report = json!({
            "ExecutionID": execution, "Sequence": sequence, "ComputeState": state,
            "Message": if state == 8 { "exit code 7" } else { "" },
        });
        node.report(server, report).await;
    }
}

#[tokio::test]
async fn what_became_of_each_index_is_counted_by_range() {
    let server = Server::start().await;
    let node = FakeNode::join(&server).await;
    let id = half_done(&server, &node).await;
    let path = format!("{}/slots", job_path(&id));
    let found = server.get(&format!("{path}?buckets=2")).await;
    let bucket = |first: u32, counts: [u32; 3]| {
        json!({
            "First": first, "Last": first + 4, "Completed": counts[0], "Failed": counts[1],
            "Unfinished": counts[2],
        })
    };
    let expected = json!({
        "JobID": id, "Total": 10, "Completed": 2, "Failed": 3, "Unfinished": 5, "Running": 0,
        "FailedIndexes": "1,3-4", "Buckets": [bucket(0, [2, 3, 0]), bucket(5, [0, 0, 5])],
    });
    assert_eq!(*found.ok(), expected);
    let single = server.get(&format!("{path}?from=3&to=4")).await;
    assert_eq!(list(&single.ok()["Buckets"]).len(), 2);
    assert_eq!(single.body["Buckets"][1]["First"], 4);
    for (query, problem) in [
        ("buckets=0", "buckets: must be 1 to 1000"),
        ("buckets=1001", "buckets: must be 1 to 1000"),
        ("from=5&to=4", "from: 5 is above to (4)"),
    ] {
        server.get(&format!("{path}?{query}")).await.refused(400, "InvalidQuery").says(problem);
    }
}

#[tokio::test]
async fn failed_indexes_are_in_the_record_and_in_the_explanation() {
    let server = Server::start().await;
    let node = FakeNode::join(&server).await;
    let id = half_done(&server, &node).await;
    let state = |answer: &Value| answer["Job"]["State"].clone();
    let record = state(server.get(&job_path(&id)).await.ok());
    assert_eq!((&record["FailedCount"], &record["FailedIndexes"]), (&json!(3), &json!("1,3-4")));
    let message = text(&record["Message"]);
    assert!(message.starts_with("first failed index: [1] on "), "{message}");
    let explained = server.get(&format!("{}/explain", job_path(&id))).await;
    assert_eq!(explained.ok()["FailedCount"], 3);
    assert_eq!(explained.body["FailedIndexes"], "1,3-4");
    let summary = server.get("/api/v1/orchestrator/jobs?view=summary").await;
    let summary = &summary.ok()["Jobs"][0];
    assert_eq!(summary["State"]["FailedCount"], 3);
    assert_eq!(
        (&summary["Executions"]["Waiting"], summary["State"].get("FailedIndexes")),
        (&json!(5), None)
    );

    for execution in executions(&server, &id, 10).await {
        if execution["ComputeState"]["StateType"] != 7
            && execution["ComputeState"]["StateType"] != 8
        {
            node.complete(&server, &text(&execution["ID"]), json!(null)).await;
        }
    }
    let record = state(server.get(&job_path(&id)).await.ok());
    assert_eq!((&record["StateType"], &record["FailedCount"]), (&json!("Failed"), &json!(3)));
    let message = text(&record["Message"]);
    let expected = "3 of 10 indexes failed; the first, [1] on ";
    assert!(message.starts_with(expected) && message.ends_with(": exit code 7"), "{message}");
}

#[tokio::test]
async fn executions_are_found_by_index_and_state() {
    let server = Server::start().await;
    let node = FakeNode::join(&server).await;
    let id = half_done(&server, &node).await;
    let path = format!("{}/executions", job_path(&id));
    for (query, names) in [
        ("index=0-2,9", vec!["[0]", "[1]", "[2]", "[9]"]),
        ("index=0-3&state=Failed", vec!["[1]", "[3]"]),
        ("index=77", vec![]),
        ("index=", vec!["[0]", "[1]", "[2]", "[3]", "[4]", "[5]", "[6]", "[7]", "[8]", "[9]"]),
    ] {
        let found = server.get(&format!("{path}?order_by=index&{query}")).await;
        let found: Vec<_> = list(&found.ok()["Executions"])
            .iter()
            .map(|execution| {
                let name = text(&execution["Name"]);
                name[name.find('[').unwrap_or(0)..].to_owned()
            })
            .collect();
        assert_eq!(found, names, "{query}");
    }
    let problem = "index: 'x' is not a list of indexes such as 3,7-9";
    server.get(&format!("{path}?index=x")).await.refused(400, "InvalidQuery").says(problem);
    let many: Vec<_> = (0..101).map(|index| (2 * index).to_string()).collect();
    let many = server.get(&format!("{path}?index={}", many.join(","))).await;
    many.refused(400, "InvalidQuery").says("index: 101 ranges of indexes, more than 100");
}
