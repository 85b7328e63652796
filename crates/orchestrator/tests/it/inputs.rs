//! Inputs that are results of other jobs: what is refused at the submission, and what a node gets.

use api_types::log::{ArchiveHead, LogFrame};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::node::{Assignments, FakeNode, executions, node_path};
use crate::server::{Answer, JOBS, Server, answer, job_path, list, merged, task_with, text};

crate::covers! {
    "readInputResults" => a_node_gets_the_results_that_its_execution_names_and_no_others;
    "readInputArchive" => a_node_gets_the_results_that_its_execution_names_and_no_others;
    "listNeededArchives" => archives_are_needed_until_the_last_job_that_depends_on_them_has_ended;
}

/// A job whose results its nodes keep.
fn publishing(count: u32) -> Value {
    let job = task_with(json!({ "Publisher": { "Type": "local" } }));
    merged(job, json!({ "Count": count, "Name": "build" }))
}

/// A job that reads them.
fn reading(other: &str, condition: &str, params: Value) -> Value {
    let params = merged(json!({ "JobID": other }), params);
    let source = json!({ "Type": "job", "Params": params });
    let job = task_with(json!({ "InputSources": [{ "Source": source, "Target": "/in" }] }));
    let depends_on = json!([{ "JobID": other, "Condition": condition }]);
    merged(job, json!({ "DependsOn": depends_on, "Name": "report" }))
}

async fn node_with_the_source(server: &Server) -> FakeNode {
    let sources = json!(["inline", "job"]);
    FakeNode::join_with(server, |request| {
        request["ComputeNodeInfo"]["StorageSources"] = sources;
    })
    .await
}

/// The IDs of the job's executions by index, all completed with such a result.
async fn completed(
    server: &Server,
    node: &FakeNode,
    job: &str,
    result: impl Fn(usize) -> Value,
) -> Vec<String> {
    let mut found = executions(server, job, 1).await;
    let count = server.get(&job_path(job)).await.ok()["Job"]["Count"].as_u64().expect("a number");
    if found.len() < usize::try_from(count).expect("small") {
        found = executions(server, job, usize::try_from(count).expect("small")).await;
    }
    found.sort_by_key(|execution| text(&execution["Name"]));
    let mut ids = Vec::new();
    for (index, execution) in found.iter().enumerate() {
        let id = text(&execution["ID"]);
        node.complete(server, &id, result(index)).await;
        ids.push(id);
    }
    ids
}

fn kept(_: usize) -> Value {
    json!({ "Type": "local", "Params": { "URL": "http://192.0.2.1/x" } })
}

/// The only execution of a job, which the node has accepted.
async fn accepted(server: &Server, node: &FakeNode, job: &str) -> String {
    let execution = text(&executions(server, job, 1).await[0]["ID"]);
    let report = json!({ "ExecutionID": execution, "Sequence": 1, "ComputeState": 3 });
    node.report(server, report).await;
    execution
}

async fn ask(server: &Server, node: &FakeNode, rest: &str, body: Value) -> Answer {
    answer(server.request(Method::POST, &node_path(&node.id, rest)).json(&body)).await
}

async fn results_of(server: &Server, node: &FakeNode, execution: &str) -> Answer {
    ask(server, node, "/inputs", json!({ "ExecutionID": execution, "Input": 0 })).await
}

#[tokio::test]
async fn what_a_job_cannot_read_is_refused_with_its_path() {
    let server = Server::start().await;
    let build = server.submit(publishing(4)).await;
    let silent = server.submit(task_with(json!({}))).await;
    let large = server.submit(publishing(1_001)).await;
    let ops = server.submit(merged(publishing(1), json!({ "Type": "ops" }))).await;
    let params = "Tasks[0].InputSources[0].Source.Params";
    let with = |job: Value, fields: Value| merged(job, fields);
    let rows = [
        (with(reading(&build, "Ended", json!({})), json!({ "DependsOn": [] })), "JobID: j-"),
        (reading(&silent, "Completed", json!({})), "JobID: job 'image-"),
        (reading(&build, "Completed", json!({ "Index": 4 })), "Index: job 'build' has no index 4"),
        (reading(&build, "Completed", json!({ "Index": -1 })), "Index: must be an index or 'Same'"),
        (reading(&build, "Completed", json!({ "Path": "../x" })), "Path: must be a path inside"),
        (reading(&build, "Completed", json!({ "Path": "/x" })), "Path: must be a path inside"),
        (reading(&large, "Completed", json!({})), "Index: is required: job 'build' has 1001"),
        (
            with(reading(&build, "Completed", json!({ "Index": "Same" })), json!({ "Count": 5 })),
            "Index: job 'build' does not have all indexes of this job",
        ),
        (
            with(reading(&build, "Ended", json!({ "Index": "Same" })), json!({ "Type": "ops" })),
            "Index: must be a number or absent: the indexes of ops jobs are nodes",
        ),
        (
            reading(&ops, "Completed", json!({ "Index": "Same" })),
            "Index: must be a number or absent: the indexes of ops job 'build' are nodes",
        ),
    ];
    for (job, problem) in rows {
        let problems = server.put(JOBS, &json!({ "Job": job })).await.problems();
        let expected = format!("{params}.{problem}");
        assert!(problems[0].starts_with(&expected), "{expected}: {problems:?}");
    }
    let fields = json!({ "Path": "./outputs//x/", "Index": "same", "Job": "mine" });
    let stored = server.submit(reading(&build, "Completed", fields)).await;
    let stored = server.get(&job_path(&stored)).await;
    let source = &stored.ok()["Job"]["Tasks"][0]["InputSources"][0]["Source"];
    let expected = json!({ "JobID": build, "Job": "build", "Path": "outputs/x", "Index": "Same" });
    assert_eq!(source["Params"], expected);
}

#[tokio::test]
async fn a_job_of_a_graph_reads_the_results_of_another_by_its_name() {
    let server = Server::start().await;
    let reads = |name: &str| {
        let mut job = reading("", "Completed", json!({ "Job": name }));
        job["DependsOn"] = json!([{ "Job": "first" }]);
        job
    };
    let create = "/api/v1/orchestrator/jobs/graph";
    let graph = |first: Value, then: Value| json!({ "Jobs": { "first": first, "then": then } });
    let post = async |graph: Value| answer(server.request(Method::POST, create).json(&graph)).await;
    let created = post(graph(publishing(1), reads("first"))).await;
    let ids = &created.ok()["Jobs"];
    let stored = server.get(&job_path(&text(&ids["then"]))).await;
    let source = &stored.ok()["Job"]["Tasks"][0]["InputSources"][0]["Source"];
    assert_eq!(source["Params"], json!({ "JobID": ids["first"], "Job": "first" }));

    let place = "Jobs.then.Tasks[0].InputSources[0].Source.Params";
    let problems = post(graph(publishing(1), reads("other"))).await.problems();
    assert_eq!(problems, [format!("{place}.Job: 'other' is not in DependsOn; add the job there")]);
    let problems = post(graph(task_with(json!({})), reads("first"))).await.problems();
    let expected = format!("{place}.JobID: job 'first' publishes nothing: set the Publisher");
    assert!(problems[0].starts_with(&expected), "{problems:?}");
}

async fn send(server: &Server, node: &FakeNode, stream: &mut Assignments, frames: &[LogFrame]) {
    let request = loop {
        let line = stream.next().await.expect("the stream continues");
        if line["Type"] == "Stream" {
            break line;
        }
    };
    let mut body = Vec::new();
    for frame in frames {
        serde_json::to_writer(&mut body, frame).expect("a frame is plain data");
        body.push(b'\n');
    }
    let path = node_path(&node.id, &format!("/streams/{}", text(&request["StreamID"])));
    answer(server.request(Method::POST, &path).body(body)).await.ok();
}

#[tokio::test]
async fn a_node_gets_the_results_that_its_execution_names_and_no_others() {
    let server = Server::start().await;
    let keeper = node_with_the_source(&server).await;
    let build = server.submit(publishing(2)).await;
    let ids = completed(&server, &keeper, &build, kept).await;
    let mut stream = keeper.open(&server).await;
    let one = server.submit(reading(&build, "Completed", json!({ "Index": 1 }))).await;
    let execution = text(&executions(&server, &one, 1).await[0]["ID"]);
    // It is an offer still.
    results_of(&server, &keeper, &execution).await.refused(404, "ExecutionNotFound");
    accepted(&server, &keeper, &one).await;
    let expected = json!({
        "Job": "build", "Required": true,
        "Results": [{ "Index": 1, "ExecutionID": ids[1] }], "Credentials": [],
    });
    assert_eq!(results_of(&server, &keeper, &execution).await.ok(), &expected);

    let archive = |execution: &str, published_by: &str| json!({ "ExecutionID": execution, "Input": 0, "PublishedBy": published_by });
    let path = node_path(&keeper.id, "/inputs/archive");
    let asking = server.request(Method::POST, &path).json(&archive(&execution, &ids[1])).send();
    let head = ArchiveHead { size: 3, start: 0, length: 3, tag: "a".to_owned() };
    let content = |bytes: &[u8]| LogFrame::Content { base64: STANDARD.encode(bytes) };
    let frames = [LogFrame::Archive(head), content(b"ab"), content(b"c"), LogFrame::End];
    let (response, ()) = tokio::join!(asking, send(&server, &keeper, &mut stream, &frames));
    let response = response.expect("an answer");
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(response.bytes().await.expect("a body")[..], *b"abc");

    // Another node, another index, another job, another input.
    let hostile = node_with_the_source(&server).await;
    for (node, body, code) in [
        (&hostile, archive(&execution, &ids[1]), "ExecutionNotFound"),
        (&keeper, archive(&execution, &ids[0]), "ResultNotFound"),
        (&keeper, archive(&execution, &execution), "ResultNotFound"),
        (&keeper, archive(&ids[0], &ids[1]), "ExecutionNotFound"),
        (&keeper, merged(archive(&execution, &ids[1]), json!({ "Input": 1 })), "ResultNotFound"),
    ] {
        ask(&server, node, "/inputs/archive", body).await.refused(404, code);
    }
    results_of(&server, &hostile, &execution).await.refused(404, "ExecutionNotFound");
    let plain = server.submit(task_with(json!({}))).await;
    let node = match text(&executions(&server, &plain, 1).await[0]["NodeID"]) == keeper.id {
        true => &keeper,
        false => &hostile,
    };
    let plain = accepted(&server, node, &plain).await;
    let refused = ask(&server, node, "/inputs/archive", archive(&plain, &ids[1])).await;
    refused.refused(404, "ResultNotFound").says("its input 0 has none of another job");
    // Its node is away, and nothing is left of the execution that names them.
    drop(stream);
    let begin = std::time::Instant::now();
    loop {
        let body = archive(&execution, &ids[1]);
        let answer = ask(&server, &keeper, "/inputs/archive", body).await;
        if answer.status == StatusCode::SERVICE_UNAVAILABLE {
            answer.refused(503, "NodeUnavailable").says(&keeper.id[..10]);
            break;
        }
        assert!(begin.elapsed() < crate::server::PATIENCE, "{}", answer.text);
    }
    let over = json!({
        "ExecutionID": execution, "Sequence": 2, "ComputeState": 8, "Message": "over",
    });
    keeper.report(&server, over).await;
    results_of(&server, &keeper, &execution).await.refused(404, "ExecutionNotFound");
}

#[tokio::test]
async fn missing_results_are_said_or_left_out_as_the_condition_is() {
    let server = Server::start().await;
    let node = node_with_the_source(&server).await;
    let build = server.submit(publishing(3)).await;
    // One of them published nothing.
    let none_of_1 = |index| if index == 1 { json!({ "Type": "", "Params": {} }) } else { kept(0) };
    let ids = completed(&server, &node, &build, none_of_1).await;
    let strict = server.submit(reading(&build, "Completed", json!({}))).await;
    let strict = accepted(&server, &node, &strict).await;
    let refused = results_of(&server, &node, &strict).await;
    let words = "job 'build' has published none for index 1";
    refused.refused(404, "ResultNotFound").says(words);
    let lenient = server.submit(reading(&build, "Ended", json!({}))).await;
    let lenient = accepted(&server, &node, &lenient).await;
    let answered = results_of(&server, &node, &lenient).await;
    let found: Vec<_> =
        list(&answered.ok()["Results"]).iter().map(|result| text(&result["ExecutionID"])).collect();
    assert_eq!(found, [ids[0].clone(), ids[2].clone()]);
    assert_eq!(answered.ok()["Required"], false);
}

#[tokio::test]
async fn results_in_a_bucket_come_with_the_credentials_of_their_publisher() {
    let server = Server::start().await;
    let login = json!({ "AccessKeyID": "AKIA", "SecretAccessKey": "x" });
    let value = json!({ "Type": "s3", "Hosts": ["h.example"], "Buckets": ["b"], "Login": login });
    let credential = "/api/v1/orchestrator/credentials/own?namespace=default";
    server.put(credential, &value).await.ok();
    let node = node_with_the_source(&server).await;
    let params =
        json!({ "Bucket": "b", "Key": "k", "Endpoint": "https://h.example", "Credentials": "own" });
    let build = task_with(json!({ "Publisher": { "Type": "s3", "Params": params } }));
    let build = server.submit(merged(build, json!({ "Name": "build" }))).await;
    let place = json!({
        "Bucket": "b", "Key": "k", "Region": "eu", "ChecksumSHA256": "c", "VersionID": "",
    });
    completed(&server, &node, &build, |_| json!({ "Type": "s3", "Params": place })).await;
    let reads = server.submit(reading(&build, "Completed", json!({ "Index": 0 }))).await;
    let execution = accepted(&server, &node, &reads).await;
    let answered = results_of(&server, &node, &execution).await;
    let expected = json!({ "Type": "s3", "Params": {
        "Bucket": "b", "Key": "k", "Region": "eu", "ChecksumSHA256": "c",
        "Endpoint": "https://h.example", "Credentials": "own",
    } });
    assert_eq!(answered.ok()["Results"][0]["Source"], expected);
    assert_eq!(answered.ok()["Credentials"][0]["Login"]["SecretAccessKey"], "x");
}

#[tokio::test]
async fn archives_are_needed_until_the_last_job_that_depends_on_them_has_ended() {
    let mut server = Server::start().await;
    let node = node_with_the_source(&server).await;
    let build = server.submit(publishing(1)).await;
    let ids = completed(&server, &node, &build, kept).await;
    let needed = async |server: &Server, node: &FakeNode| {
        let body = json!({ "Executions": ids });
        list(&ask(server, node, "/archives/needed", body).await.ok()["Executions"]).clone()
    };
    assert_eq!(needed(&server, &node).await, Vec::<Value>::new());
    let reads = server.submit(reading(&build, "Completed", json!({}))).await;
    assert_eq!(needed(&server, &node).await, [json!(ids[0])]);
    let other = node_with_the_source(&server).await;
    assert_eq!(needed(&server, &other).await, Vec::<Value>::new());
    server.restart().await;
    assert_eq!(needed(&server, &node).await, [json!(ids[0])]);
    server.delete(&job_path(&reads)).await.ok();
    let begin = std::time::Instant::now();
    while !needed(&server, &node).await.is_empty() {
        assert!(begin.elapsed() < crate::server::PATIENCE, "they are released");
        let session = node_path(&node.id, "/session");
        server.put(&session, &crate::node::session_request()).await.ok();
    }
    let many = json!({ "Executions": vec![&ids[0]; 1_001] });
    let problems = ask(&server, &node, "/archives/needed", many).await.problems();
    assert_eq!(problems, ["Executions: must not be more than 1000"]);
}

#[tokio::test]
async fn a_rerun_still_depends_on_the_jobs_whose_results_it_reads() {
    let server = Server::start().await;
    let node = node_with_the_source(&server).await;
    let build = server.submit(publishing(2)).await;
    completed(&server, &node, &build, kept).await;
    let other = server.submit(publishing(1)).await;
    completed(&server, &node, &other, kept).await;
    let mut reads = reading(&build, "Completed", json!({ "Index": "Same" }));
    reads["DependsOn"] = json!([{ "JobID": build }, { "JobID": other }]);
    reads["Count"] = json!(2);
    let reads = server.submit(reads).await;
    completed(&server, &node, &reads, |_| json!({ "Type": "", "Params": {} })).await;
    let rerun = format!("{}/rerun", job_path(&reads));
    let body = json!({ "Indexes": "1" });
    let again = answer(server.request(Method::POST, &rerun).json(&body)).await;
    let again = text(&again.ok()["JobID"]);
    let stored = server.get(&job_path(&again)).await;
    let named = list(&stored.ok()["Job"]["DependsOn"]);
    assert_eq!((named.len(), &named[0]["JobID"]), (1, &json!(build)));
    let execution = accepted(&server, &node, &again).await;
    let answered = results_of(&server, &node, &execution).await;
    assert_eq!(answered.ok()["Results"][0]["Index"], 1);
}
