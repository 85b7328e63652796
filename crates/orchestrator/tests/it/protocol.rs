//! Sessions, heartbeats, assignments and reports.

use orchestrator::Settings;
use serde_json::{Value, json};

use crate::node::{FakeNode, executions, fresh_node_id, node_path, session_request};
use crate::server::{JOBS, Server, job_path, job_with, list, plain_job, redacted, task_with, text};

crate::covers! {
    "joinNode" => a_session_receives_its_lease;
    "renewLease" => a_newer_session_makes_the_older_one_stale;
    "streamAssignments" => the_stream_opens_with_a_snapshot_and_continues_with_changes;
    "reportExecutions" => a_report_may_be_repeated;
}

fn heartbeat(session: u64) -> Value {
    json!({
        "Session": session,
        "UsedCapacity": { "CPU": 0.0, "Memory": 0, "Disk": 0, "GPU": 0 },
        "RunningExecutions": 0, "EnqueuedExecutions": 0,
    })
}

#[tokio::test]
async fn a_session_receives_its_lease() {
    let node_ttl = Settings::default().node_ttl;
    let server = Server::start_with(|settings| Settings { node_ttl, ..settings }).await;
    let id = fresh_node_id();
    let answer = server.put(&node_path(&id, "/session"), &session_request()).await;
    let expected = json!({
        "Session": 1, "LeaseSeconds": 10, "HeartbeatSeconds": 3, "Membership": "APPROVED",
        "Causes": ["Refused"], "Term": answer.ok()["Term"],
    });
    assert_eq!(answer.ok(), &expected);
    let renewed = server.put(&node_path(&id, "/heartbeat"), &heartbeat(1)).await;
    let term = text(&answer.ok()["Term"]);
    assert!(!term.is_empty());
    let expected = json!({ "LeaseSeconds": 10, "HeartbeatSeconds": 3, "Term": term });
    assert_eq!(renewed.ok(), &expected, "the leader is the same");
}

#[tokio::test]
async fn a_newer_session_makes_the_older_one_stale() {
    let server = Server::start().await;
    let node = FakeNode::join(&server).await;
    let again = server.put(&node_path(&node.id, "/session"), &session_request()).await;
    let newer = again.ok()["Session"].as_u64().unwrap();
    assert!(newer > node.session);
    let stale = |answer: crate::server::Answer| {
        answer.refused(409, "StaleSession");
        assert!(text(&answer.body["Hint"]).contains("join again"));
    };
    let path = node_path(&node.id, "/heartbeat");
    stale(server.put(&path, &heartbeat(node.session)).await);
    let reports = json!({ "Session": node.session, "Reports": [] });
    stale(server.put(&node_path(&node.id, "/executions"), &reports).await);
    let path = node_path(&node.id, &format!("/assignments?session={}", node.session));
    stale(server.get(&path).await);
    server.put(&node_path(&node.id, "/heartbeat"), &heartbeat(newer)).await.ok();
}

#[tokio::test]
async fn messages_of_agents_are_parsed_strictly() {
    let server = Server::start().await;
    let node = FakeNode::join(&server).await;
    let path = node_path(&node.id, "/heartbeat");
    let mut lower_case = heartbeat(node.session);
    lower_case["session"] = lower_case["Session"].take();
    let mut null = heartbeat(node.session);
    null["RunningExecutions"].take();
    for (body, part) in [(lower_case, "Session"), (null, "RunningExecutions")] {
        let answer = server.put(&path, &body).await;
        answer.refused(400, "InvalidRequest");
        assert!(answer.body["Details"].to_string().contains(part), "{}", answer.body);
    }
    server.put(&path, &heartbeat(node.session)).await.ok();
}

#[tokio::test]
async fn a_node_that_never_joined_is_unknown() {
    let server = Server::start().await;
    let id = fresh_node_id();
    server.put(&node_path(&id, "/heartbeat"), &heartbeat(1)).await.refused(404, "NodeNotFound");
    let reports = json!({ "Session": 1, "Reports": [] });
    let answer = server.put(&node_path(&id, "/executions"), &reports).await;
    answer.refused(404, "NodeNotFound");
    server.get(&node_path(&id, "/assignments?session=1")).await.refused(404, "NodeNotFound");
    let short = server.put(&node_path(&id[..10], "/session"), &session_request()).await;
    short.refused(404, "NodeNotFound");
}

#[tokio::test]
async fn a_rejected_node_is_refused_with_the_reason() {
    let server = Server::start().await;
    let node = FakeNode::join(&server).await;
    server.put(&node_path(&node.id, ""), &json!({ "Action": "reject" })).await.ok();
    let answer = server.put(&node_path(&node.id, "/session"), &session_request()).await;
    if answer.status == 200 {
        assert_eq!(answer.body["Membership"], "REJECTED");
    } else {
        answer.refused(403, "Forbidden");
    }
    let id = server.submit(plain_job()).await;
    let state = server.get(&job_path(&id)).await.ok()["Job"]["State"]["StateType"].clone();
    assert_eq!(state, "Queued", "nothing is placed on it");
}

#[tokio::test]
async fn the_stream_opens_with_a_snapshot_and_continues_with_changes() {
    let server = Server::start().await;
    let node = FakeNode::join(&server).await;
    let mut stream = node.open(&server).await;
    assert_eq!(stream.next().await, Some(json!({ "Type": "Snapshot", "Executions": 0 })));

    let job = server.submit(job_with(json!({ "Name": "work" }))).await;
    let offer = stream.assignment().await;
    let task = &server.get(&job_path(&job)).await.ok()["Job"]["Tasks"][0].clone();
    let expected = json!({
        "Type": "Assignment", "ExecutionID": "e-…", "DesiredState": 0, "ComputeState": 2,
        "Work": {
            "JobID": "j-…", "JobName": "work", "Namespace": "default", "JobType": "batch",
            "Index": 0, "Count": 1,
            "Resources": { "CPU": 0.5, "Memory": 512_000_000, "Disk": 0, "GPU": 0 },
            "Task": task,
        },
    });
    assert_eq!(redacted(&offer), expected);

    let execution = offer["ExecutionID"].clone();
    let accept = json!({ "ExecutionID": execution, "Sequence": 1, "ComputeState": 3 });
    node.report(&server, accept).await;
    let run = stream.assignment().await;
    assert_eq!((&run["ExecutionID"], &run["DesiredState"]), (&execution, &json!(1)));
    assert!(run.get("Work").is_none(), "{run}");

    // Another stream begins with the same, and ends this one.
    let mut second = node.open(&server).await;
    assert_eq!(second.next().await, Some(json!({ "Type": "Snapshot", "Executions": 1 })));
    let whole = second.assignment().await;
    assert_eq!((&whole["ExecutionID"], &whole["DesiredState"]), (&execution, &json!(1)));
    assert_eq!(whole["Work"], offer["Work"]);
    assert_eq!(stream.next().await, None);

    server.delete(&job_path(&job)).await.ok();
    let stop = second.assignment().await;
    assert_eq!((&stop["ExecutionID"], &stop["DesiredState"]), (&execution, &json!(2)));
    assert!(!text(&stop["Message"]).is_empty());
}

#[tokio::test]
async fn assignments_with_large_inputs_keep_their_place_among_small_ones() {
    let server = Server::start().await;
    let node = FakeNode::join(&server).await;
    let url = format!("data:text/plain,{}", "x".repeat(3_000_000));
    let source = json!({ "Type": "inline", "Params": { "URL": url } });
    let inputs = json!({ "InputSources": [{ "Source": source, "Target": "/in" }] });
    let jobs = [
        server.submit(plain_job()).await,
        server.submit(task_with(inputs.clone())).await,
        server.submit(task_with(inputs)).await,
        server.submit(plain_job()).await,
    ];
    let mut stream = node.open(&server).await;
    assert_eq!(stream.next().await, Some(json!({ "Type": "Snapshot", "Executions": 4 })));
    let mut large = Vec::new();
    for _ in &jobs {
        let line = stream.next().await.expect("the stream continues");
        let source = &line["Work"]["Task"]["InputSources"][0]["Source"]["Params"]["URL"];
        assert!(source.is_null() || source == &url);
        large.push((text(&line["Work"]["JobID"]), !source.is_null()));
    }
    large.sort();
    let mut expected: Vec<_> = jobs.into_iter().zip([false, true, true, false]).collect();
    expected.sort();
    assert_eq!(large, expected);
}

#[tokio::test]
async fn many_offers_of_many_jobs_all_arrive() {
    let server = Server::start().await;
    let node = FakeNode::join_with(&server, |request| {
        for capacity in ["MaxCapacity", "MaxJobRequirements"] {
            request["ComputeNodeInfo"][capacity]["CPU"] = json!(1000.0);
            request["ComputeNodeInfo"][capacity]["Memory"] = json!(1_000_000_000_000_u64);
        }
    })
    .await;
    let mut stream = node.open(&server).await;
    for number in 0..20 {
        let mut job = task_with(json!({ "Env": { "NUMBER": number.to_string() } }));
        job["Count"] = json!(10);
        server.submit(job).await;
    }
    let mut offers = std::collections::HashMap::new();
    for _ in 0..200 {
        let offer = stream.assignment().await;
        let number = text(&offer["Work"]["Task"]["Env"]["NUMBER"]);
        *offers.entry(number).or_insert(0) += 1;
    }
    assert_eq!(offers.len(), 20);
    assert!(offers.values().all(|count| *count == 10), "{offers:?}");
}

#[tokio::test]
async fn a_report_may_be_repeated() {
    let server = Server::start().await;
    let node = FakeNode::join(&server).await;
    let job = server.submit(plain_job()).await;
    let execution = text(&executions(&server, &job, 1).await[0]["ID"]);
    let report = json!({ "ExecutionID": execution, "Sequence": 1, "ComputeState": 3 });
    let path = format!("{}/history", job_path(&job));
    node.report(&server, report.clone()).await;
    let before = server.get(&path).await.text;
    node.report(&server, report).await;
    assert_eq!(server.get(&path).await.text, before);
    let unknown = json!({
        "ExecutionID": "e-00000000-0000-4000-8000-000000000000", "Sequence": 9, "ComputeState": 7,
    });
    node.report(&server, unknown).await;
}

#[tokio::test]
async fn a_batch_is_bounded() {
    let server = Server::start().await;
    let node = FakeNode::join(&server).await;
    let report = json!({
        "ExecutionID": "e-00000000-0000-4000-8000-000000000000", "Sequence": 1, "ComputeState": 7,
    });
    let batch = |count: usize| json!({ "Session": node.session, "Reports": vec![&report; count] });
    let path = node_path(&node.id, "/executions");
    let answer = server.put(&path, &batch(1000)).await;
    assert_eq!(list(&answer.ok()["Acknowledged"]).len(), 1000);
    assert_eq!(
        server.put(&path, &batch(1001)).await.problems(),
        ["Reports: must not be more than 1000"]
    );
}

#[tokio::test]
async fn a_session_with_invalid_labels_is_refused() {
    let server = Server::start().await;
    let path = node_path(&fresh_node_id(), "/session");
    let mut request = session_request();
    request["Labels"] = json!({ "": "x", "long": "y".repeat(5000) });
    request["Addrs"] = json!(vec!["/ip4/10.0.0.1/tcp/1"; 65]);
    assert_eq!(
        server.put(&path, &request).await.problems(),
        [
            "Addrs: must not be more than 64",
            "Labels.: must have a key, and not be longer than 4096 bytes together",
            "Labels.long: must have a key, and not be longer than 4096 bytes together",
        ]
    );
}

#[tokio::test]
async fn no_node_joins_as_the_orchestrator() {
    let server = Server::start().await;
    let path = node_path(&server.node_id(), "/session");
    let refused = server.put(&path, &session_request()).await;
    refused.refused(409, "NodeConflict").says("is the orchestrator itself");
}

#[tokio::test]
async fn what_a_node_says_is_bounded() {
    let server = Server::start().await;
    let mut request = session_request();
    request["ComputeNodeInfo"]["ExecutionEngines"] = json!(vec!["docker"; 20_000]);
    let refused = server.put(&node_path(&fresh_node_id(), "/session"), &request).await;
    refused.refused(400, "MalformedBody").says("the body has more than 131072 bytes");

    let node = FakeNode::join(&server).await;
    let job = server.submit(plain_job()).await;
    let execution = text(&executions(&server, &job, 1).await[0]["ID"]);
    for (sequence, state) in [(1, 3), (2, 5)] {
        let report =
            json!({ "ExecutionID": execution, "Sequence": sequence, "ComputeState": state });
        node.report(&server, report).await;
    }
    let long = "x".repeat(1 << 20);
    let report = json!({
        "ExecutionID": execution, "Sequence": 3, "ComputeState": 7, "Message": long,
        "RunOutput": {
            "stdout": long, "stdouttruncated": false, "stderr": "", "stderrtruncated": false,
            "exitCode": 0, "runnerError": long,
        },
        "PublishedResult": { "Type": "s3", "Params": { "Bucket": "b", "Key": long } },
    });
    // Nothing is refused for its size: the node would repeat it, and say nothing else.
    node.report(&server, report).await;
    let stored = &executions(&server, &job, 1).await[0];
    assert!(stored.to_string().len() < 64 << 10, "{}", stored.to_string().len());
    let message = text(&stored["ComputeState"]["Message"]);
    assert!(message.starts_with("the location of its results was longer than 16 KiB"), "{message}");
    assert!(message.ends_with(" […]"), "{message}");
    assert_eq!(stored["PublishedResult"], json!({ "Type": "s3", "Params": {} }));
    assert_eq!(stored["RunOutput"]["stdouttruncated"], true);
}

#[tokio::test]
async fn a_long_heartbeat_or_session_is_refused_unread() {
    let server = Server::start().await;
    let node = FakeNode::join(&server).await;
    for operation in ["/session", "/heartbeat"] {
        let request = server.request(reqwest::Method::PUT, &node_path(&node.id, operation));
        let request = request.header("Content-Type", "application/json");
        // The size is checked before the body is parsed, which would fail: it is not JSON.
        let answer = crate::server::answer(request.body("{".repeat(200_000))).await;
        answer.refused(400, "MalformedBody").says("the body has more than 131072 bytes");
    }
}

#[tokio::test]
async fn the_stream_requires_a_session_and_a_get() {
    let server = Server::start().await;
    let node = FakeNode::join(&server).await;
    let path = node_path(&node.id, "/assignments");
    server.get(&path).await.refused(400, "InvalidQuery").says("session is required");
    server.get(&format!("{path}?session=x")).await.refused(400, "InvalidQuery");
    let mut stream = node.open(&server).await;
    stream.next().await.unwrap();
    let head = server.request(reqwest::Method::HEAD, &format!("{path}?session={}", node.session));
    let head = crate::server::answer(head).await;
    assert_eq!((head.status.as_u16(), head.header("allow")), (405, "GET"));
    server.put(JOBS, &json!({ "Job": plain_job() })).await.ok();
    stream.assignment().await;
}
