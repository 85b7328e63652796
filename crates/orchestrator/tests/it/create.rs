//! `PUT /api/v1/orchestrator/jobs`.

use reqwest::Method;
use serde_json::{Value, json};

use crate::node::FakeNode;
use crate::server::{
    JOBS, Server, answer, job_path, job_with, list, plain_job, redacted, task_with, text,
};

crate::covers! {
    "createJob" => a_submitted_job_is_described_as_stored;
    "createJobByPost" => post_is_the_same_as_put;
}

#[tokio::test]
async fn a_submitted_job_is_described_as_stored() {
    let server = Server::start().await;
    let answer = server.put(JOBS, &json!({ "Job": plain_job() })).await;
    assert_eq!(redacted(answer.ok()), json!({ "JobID": "j-…", "EvaluationID": "v-…" }));
    let id = text(&answer.body["JobID"]);
    let described = server.get(&job_path(&id)).await;
    let mut job = redacted(&described.ok()["Job"]);
    assert!(!text(&job["Meta"]["service.org/requester.publicKey"].take()).is_empty());
    let name = format!("image-{}", &id[2..6]);
    let expected = json!({
        "ID": "j-…", "Name": name, "Namespace": "default", "Type": "batch", "Priority": 50,
        "Count": 1, "Constraints": [], "Labels": {},
        "Meta": { "service.org/requester.id": "n-…", "service.org/requester.publicKey": null },
        "RetryPolicy": { "Attempts": 1, "Delay": 1, "MaxDelay": 60 },
        "Tasks": [{
            "Name": "main",
            "Engine": { "Type": "docker", "Params": { "Image": "image:1" } },
            "Publisher": { "Type": "", "Params": {} },
            "Env": {}, "Meta": {}, "InputSources": [], "ResultPaths": [],
            "Resources": { "CPU": "", "Memory": "", "Disk": "", "GPU": "" },
            "Network": { "Type": "None" },
            "Timeouts": {
                "ExecutionTimeout": 0, "QueueTimeout": 0, "TotalTimeout": 0, "LostAfter": 0,
            },
        }],
        "State": { "StateType": "Queued", "Message": "no node has joined" },
        "Version": 1, "Revision": 2, "CreateTime": "T", "ModifyTime": "T",
    });
    assert_eq!(job, expected);
}

#[tokio::test]
async fn post_is_the_same_as_put() {
    let server = Server::start().await;
    let request = server.request(Method::POST, JOBS).json(&json!({ "Job": plain_job() }));
    let id = text(&answer(request).await.ok()["JobID"]);
    server.get(&job_path(&id)).await.ok();
}

#[tokio::test]
async fn ignored_fields_are_reported() {
    let server = Server::start().await;
    let job = job_with(json!({ "CreateTime": 1, "Foo": {}, "Version": 3 }));
    let answer = server.put(JOBS, &json!({ "Job": job })).await;
    assert_eq!(
        answer.ok()["Warnings"],
        json!([
            "Foo is not a known field and was ignored",
            "Version is set by the service; the value was ignored",
            "CreateTime is set by the service; the value was ignored",
        ])
    );
}

#[tokio::test]
async fn a_refused_job_lists_every_problem_and_stores_nothing() {
    let server = Server::start().await;
    let wrong = job_with(json!({ "Count": -1, "Priority": "high", "Tasks": [{}] }));
    let answer = server.put(JOBS, &json!({ "Job": wrong })).await;
    answer.refused(400, "InvalidJob").says("4 problems in all");
    assert_eq!(
        answer.problems(),
        [
            "Priority: expected a 64-bit integer, got the string \"high\"",
            "Count: must not be negative, got -1",
            "Tasks[0].Name: is required",
            "Tasks[0].Engine.Type: is required; known: docker, wasm, noop",
        ]
    );
    assert_eq!(server.get(JOBS).await.ok(), &json!({ "Jobs": [], "NextToken": "" }));
}

#[tokio::test]
async fn the_same_key_and_body_get_the_first_answer_also_after_a_restart() {
    let mut server = Server::start().await;
    let first = keyed(&server, "key-1", &plain_job()).await;
    let again = keyed(&server, "key-1", &plain_job()).await;
    assert_eq!(again.ok(), first.ok());
    server.restart().await;
    let later = keyed(&server, "key-1", &plain_job()).await;
    assert_eq!(later.ok(), first.ok());
    assert_eq!(list(&server.get(JOBS).await.ok()["Jobs"]).len(), 1);
    let other = keyed(&server, "key-2", &plain_job()).await;
    assert_ne!(other.ok()["JobID"], first.body["JobID"]);
}

#[tokio::test]
async fn a_key_with_another_body_is_refused() {
    let server = Server::start().await;
    keyed(&server, "key-1", &plain_job()).await.ok();
    let other = job_with(json!({ "Name": "other" }));
    keyed(&server, "key-1", &other).await.refused(409, "IdempotencyConflict");
    assert_eq!(list(&server.get(JOBS).await.ok()["Jobs"]).len(), 1);
}

#[tokio::test]
async fn an_invalid_key_is_refused() {
    let server = Server::start().await;
    for key in ["", "a b", "schlüssel", &"k".repeat(256)] {
        keyed(&server, key, &plain_job())
            .await
            .refused(400, "InvalidRequest")
            .says("header Idempotency-Key must be 1 to 255 visible ASCII characters");
    }
    let twice = server
        .request(Method::PUT, JOBS)
        .header("Idempotency-Key", "a")
        .header("Idempotency-Key", "b")
        .json(&json!({ "Job": plain_job() }));
    answer(twice).await.refused(400, "InvalidRequest").says("more than once");
}

async fn keyed(server: &Server, key: &str, job: &Value) -> crate::server::Answer {
    let request = server.request(Method::PUT, JOBS).header("Idempotency-Key", key.as_bytes());
    answer(request.json(&json!({ "Job": job }))).await
}

#[tokio::test]
async fn a_chosen_id_can_be_used_once() {
    let server = Server::start().await;
    let id = "j-12ab34cd-0000-4000-8000-0123456789ab";
    let job = job_with(json!({ "Type": "service", "ID": id }));
    assert_eq!(server.submit(job.clone()).await, id);
    let body = json!({ "Job": job });
    server.put(JOBS, &body).await.refused(409, "JobExists").says(id);
    server.put(&format!("{JOBS}?dry_run=1"), &body).await.refused(409, "JobExists");
    server.delete(&job_path(id)).await.ok();
    server.put(JOBS, &body).await.refused(409, "JobExists");
}

#[tokio::test]
async fn a_dry_run_reports_the_outcome_and_stores_nothing() {
    let server = Server::start().await;
    let good = FakeNode::join(&server).await;
    let poor = FakeNode::join_with(&server, |request| {
        request["ComputeNodeInfo"]["ExecutionEngines"] = json!([]);
    })
    .await;
    let job = job_with(json!({ "Count": 2, "Foo": 1 }));
    let answer = server.put(&format!("{JOBS}?dry_run=true"), &json!({ "Job": job })).await;
    let mut run = redacted(answer.ok());
    assert_eq!(run["Job"]["Count"], 2);
    assert_eq!(
        run["Job"]["State"],
        json!({ "StateType": "Pending", "Message": "dry run: nothing was stored" })
    );
    assert_eq!(run["Warnings"].take(), json!(["Foo is not a known field and was ignored"]));
    let nodes = list(&answer.body["Nodes"]);
    assert_eq!(nodes.len(), 2);
    for node in nodes {
        let id = text(&node["NodeID"]);
        assert_eq!(node["Chosen"], id == good.id, "{node}");
        assert!(!text(&node["Reason"]).is_empty());
        assert!(id == good.id || id == poor.id);
    }
    assert_eq!(server.get(JOBS).await.ok()["Jobs"], json!([]));
    let wrong = json!({ "Job": {} });
    server.put(&format!("{JOBS}?dry_run=true"), &wrong).await.refused(400, "InvalidJob");
}

#[tokio::test]
async fn a_job_with_large_inputs_is_accepted() {
    let server = Server::start().await;
    let url = format!("data:text/plain,{}", "x".repeat(9_000_000));
    let source = json!({ "Type": "inline", "Params": { "URL": url } });
    let job = task_with(json!({ "InputSources": [{ "Source": source, "Target": "/in" }] }));
    let id = server.submit(job).await;
    let described = server.get(&job_path(&id)).await;
    let kept = &described.ok()["Job"]["Tasks"][0]["InputSources"][0]["Source"]["Params"]["URL"];
    assert_eq!(kept, &url);
}

#[tokio::test]
async fn text_echoed_from_a_job_is_truncated() {
    let server = Server::start().await;
    let long = "x".repeat(1_000_000);
    let answer =
        server.put(JOBS, &json!({ "Job": { "Type": long, "Labels": { &long: 5 } } })).await;
    answer.refused(400, "InvalidJob");
    assert!(answer.text.len() < 10_000, "{} bytes", answer.text.len());
    let answer = server.put(JOBS, &json!({ "Job": job_with(json!({ &long: 5 })) })).await;
    assert_eq!(list(&answer.ok()["Warnings"]).len(), 1);
    assert!(answer.text.len() < 10_000, "{} bytes", answer.text.len());
}
