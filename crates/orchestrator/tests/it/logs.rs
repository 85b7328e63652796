//! Job Logs with a fake node: the requests it gets, its answers, and its disconnects.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use api_types::log::{LogFrame, LogOutput, LogPosition, LogStream};
use futures_util::{StreamExt, stream};
use orchestrator::Settings;
use reqwest::{Method, Response, StatusCode};
use serde_json::{Value, json};

use crate::node::{Assignments, FakeNode, completed_job, executions, node_path};
use crate::server::{Answer, PATIENCE, Server, answer, job_path, plain_job, task_with, text};

crate::covers! {
    "readLogs" => a_node_receives_requests_on_its_stream_and_answers_on_a_new_connection;
    "deliverOutput" => a_node_receives_requests_on_its_stream_and_answers_on_a_new_connection;
}

/// More than the buffers between a node and a reader hold.
const FLOOD_BYTES: usize = 256 << 20;

fn begin(stdout: u64) -> LogFrame {
    LogFrame::Begin(LogPosition { stdout, stderr: 0 })
}

fn output(stream: LogStream, bytes: &[u8]) -> LogFrame {
    LogFrame::Output(LogOutput { stream, time: api_types::Timestamp(1), data: bytes.into() })
}

fn line(frame: &LogFrame) -> Vec<u8> {
    let mut line = serde_json::to_vec(frame).expect("a frame is plain data");
    line.push(b'\n');
    line
}

fn logs_path(job: &str, query: &str) -> String {
    format!("{}/logs?{query}", job_path(job))
}

/// A job that runs on the node, its execution, and the node's stream.
async fn running_job(server: &Server, node: &FakeNode) -> (String, String, Assignments) {
    run(server, node, plain_job()).await
}

async fn run(server: &Server, node: &FakeNode, job: Value) -> (String, String, Assignments) {
    let job = server.submit(job).await;
    let execution = text(&executions(server, &job, 1).await[0]["ID"]);
    for (sequence, state) in [(1, 3), (2, 5)] {
        let report =
            json!({ "ExecutionID": execution, "Sequence": sequence, "ComputeState": state });
        node.report(server, report).await;
    }
    let stream = node.open(server).await;
    (job, execution, stream)
}

/// The next request for output on the node's stream.
async fn asked(stream: &mut Assignments) -> Value {
    loop {
        let line = stream.next().await.expect("the stream continues");
        if line["Type"] == "Stream" {
            return line;
        }
    }
}

fn stream_path(node: &FakeNode, request: &Value) -> String {
    node_path(&node.id, &format!("/streams/{}", text(&request["StreamID"])))
}

async fn send(server: &Server, node: &FakeNode, request: &Value, frames: &[LogFrame]) -> Answer {
    let body: Vec<u8> = frames.iter().flat_map(line).collect();
    answer(server.request(Method::POST, &stream_path(node, request)).body(body)).await
}

/// Opens the logs and waits only for the head of the response.
async fn open(server: &Server, path: &str, accept: &str) -> Response {
    let request = server.request(Method::GET, path).header("Accept", accept);
    let response = request.timeout(PATIENCE * 10).send().await.expect("an answer");
    assert_eq!(response.status(), StatusCode::OK);
    response
}

#[tokio::test]
async fn a_node_receives_requests_on_its_stream_and_answers_on_a_new_connection() {
    let server = Server::start().await;
    let node = FakeNode::join(&server).await;
    let (job, execution, mut stream) = running_job(&server, &node).await;
    let path = logs_path(&job, "follow&tail=5&stream=stdout");
    let response = open(&server, &path, "text/html, application/x-ndjson;q=0.9").await;
    assert_eq!(response.headers()["content-type"], "application/x-ndjson");
    let reading = tokio::spawn(response.text());
    let request = asked(&mut stream).await;
    let expected = json!({
        "Type": "Stream", "StreamID": request["StreamID"], "ExecutionID": execution,
        "Follow": true, "Tail": 5, "Stream": "stdout",
    });
    assert_eq!(request, expected);
    let frames = [
        begin(7),
        output(LogStream::Stdout, b"one\ntw"),
        LogFrame::KeepAlive,
        output(LogStream::Stdout, b"o\xff\nthree"),
        LogFrame::End,
    ];
    assert_eq!(send(&server, &node, &request, &frames).await.ok(), &json!({}));
    // No reader waits for it a second time, nor from another node.
    send(&server, &node, &request, &frames).await.refused(404, "StreamNotFound");

    // A follower of the job's output continues with the next execution, until the job is over.
    node.report(&server, json!({ "ExecutionID": execution, "Sequence": 3, "ComputeState": 7 }))
        .await;
    let lines = reading.await.unwrap().unwrap();
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let line = |text: &str, offset: u64| {
        let time = "1970-01-01T00:00:00.000000001Z";
        json!({
            "ExecutionID": execution, "Stream": "stdout", "Time": time, "Line": text, "Offset": offset, "Index": 0,
        })
    };
    assert_eq!(lines, [line("one", 11), line("two\u{FFFD}", 16), line("three", 21)]);
}

#[tokio::test]
async fn output_resumes_where_a_connection_broke() {
    let server = Server::start().await;
    let node = FakeNode::join(&server).await;
    let (job, execution, mut stream) = running_job(&server, &node).await;
    let path = logs_path(&job, &format!("follow&execution_id={}", &execution[..10]));
    let mut response = open(&server, &path, "*/*").await;
    assert_eq!(response.headers()["content-type"], "text/plain; charset=utf-8");
    let first = asked(&mut stream).await;
    assert!(first.get("From").is_none(), "{first}");
    let frames =
        [begin(100), output(LogStream::Stdout, b"abc\xfe"), output(LogStream::Stderr, b"x")];
    let sent: Vec<u8> = frames.iter().flat_map(line).collect();
    let (die, died) = tokio::sync::oneshot::channel::<()>();
    let death = stream::once(async {
        drop(died.await);
        Err(std::io::Error::other("the node dies"))
    });
    let body = reqwest::Body::wrap_stream(stream::iter([Ok(sent)]).chain(death));
    let path = stream_path(&node, &first);
    let sending = tokio::spawn(server.request(Method::POST, &path).body(body).send());
    let mut came = Vec::new();
    while came.len() < 5 {
        came.extend(response.chunk().await.unwrap().expect("the stream continues"));
    }
    assert_eq!(came, b"abc\xfex");
    die.send(()).unwrap();
    sending.await.unwrap().expect_err("it died");
    let reading = tokio::spawn(response.bytes());

    let second = asked(&mut stream).await;
    assert_ne!(second["StreamID"], first["StreamID"]);
    assert_eq!(second["From"], json!({ "Stdout": 104, "Stderr": 1 }));
    let from = LogFrame::Begin(LogPosition { stdout: 104, stderr: 1 });
    let frames = [from, output(LogStream::Stdout, b"def"), LogFrame::End];
    send(&server, &node, &second, &frames).await.ok();
    assert_eq!(&reading.await.unwrap().unwrap()[..], b"def");
}

#[tokio::test]
async fn a_node_may_stop_sending_once_its_reader_has_gone() {
    let server = Server::start().await;
    let node = FakeNode::join(&server).await;
    let (job, _, mut stream) = running_job(&server, &node).await;
    let response = open(&server, &logs_path(&job, "follow"), "*/*").await;
    let reading = tokio::spawn(response.bytes());
    let request = asked(&mut stream).await;
    // A body that never ends by itself.
    let frames = stream::iter([begin(0)]).chain(stream::pending());
    let body = frames.map(|frame| Ok::<_, std::io::Error>(line(&frame)));
    let path = stream_path(&node, &request);
    let request = server.request(Method::POST, &path).timeout(PATIENCE * 10);
    let sending = tokio::spawn(request.body(reqwest::Body::wrap_stream(body)).send());
    reading.abort();
    // Either the response arrived, or the connection closed during the body.
    tokio::time::timeout(PATIENCE, sending).await.expect("it ends").unwrap().ok();
}

#[tokio::test]
async fn a_stalled_reader_slows_only_its_own_node() {
    let server = Server::start().await;
    let node = FakeNode::join(&server).await;
    let (job, _, mut stream) = running_job(&server, &node).await;
    let mut response = open(&server, &logs_path(&job, "follow"), "*/*").await;
    let request = asked(&mut stream).await;
    let made = Arc::new(AtomicUsize::new(0));
    let piece = line(&output(LogStream::Stdout, &[b'x'; 32 << 10]));
    let count = Arc::clone(&made);
    let pieces = (0..FLOOD_BYTES / piece.len()).map(move |_| {
        count.fetch_add(piece.len(), Ordering::Relaxed);
        Ok::<_, std::io::Error>(piece.clone())
    });
    let pieces = stream::iter([Ok(line(&begin(0)))]).chain(stream::iter(pieces));
    let path = stream_path(&node, &request);
    let request = server.request(Method::POST, &path).timeout(PATIENCE * 10);
    let sending = tokio::spawn(request.body(reqwest::Body::wrap_stream(pieces)).send());
    response.chunk().await.unwrap().expect("the first output");
    // Until nothing moves any more.
    let (mut before, mut still) = (0, 0);
    while still < 5 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let now = made.load(Ordering::Relaxed);
        still = if now == before { still + 1 } else { 0 };
        before = now;
        assert!(now < FLOOD_BYTES / 4, "{now} bytes were taken for a stalled reader");
    }
    drop(response);
    sending.await.unwrap().ok();
}

#[tokio::test]
async fn output_on_a_silent_node_is_refused_before_the_response_begins() {
    let server = Server::start_with(|settings| Settings { node_ttl: 2, ..settings }).await;
    let node = FakeNode::join(&server).await;
    // It is not replaced when the lease ends.
    let mut patient = plain_job();
    patient["Tasks"][0]["Timeouts"] = json!({ "LostAfter": 600 });
    let (job, execution, _stream) = run(&server, &node, patient).await;
    let begin = std::time::Instant::now();
    loop {
        let answer = server.get(&node_path(&node.id, "")).await;
        if answer.ok()["Node"]["Connection"] == "DISCONNECTED" {
            break;
        }
        assert!(begin.elapsed() < PATIENCE, "{}", answer.text);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    for query in [String::new(), format!("execution_id={execution}")] {
        server.get(&logs_path(&job, &query)).await.refused(503, "NodeUnavailable");
    }
}

#[tokio::test]
async fn the_record_replaces_a_node_that_does_not_answer() {
    let server = Server::start().await;
    let node = FakeNode::join(&server).await;
    // It has no open stream, so it cannot be reached.
    let (job, _) = completed_job(&server, &node, plain_job()).await;
    assert_eq!(server.get(&logs_path(&job, "")).await.text, "hello\n");
    assert_eq!(server.get(&logs_path(&job, "stream=stderr")).await.text, "");
    assert_eq!(server.get(&logs_path(&job, "tail=0")).await.text, "");

    // A node that was reached but has no output any more.
    let mut stream = node.open(&server).await;
    let reading = open(&server, &logs_path(&job, ""), "*/*").await;
    let reading = tokio::spawn(reading.text());
    let request = asked(&mut stream).await;
    send(&server, &node, &request, &[LogFrame::Absent]).await.ok();
    assert_eq!(reading.await.unwrap().unwrap(), "hello\n");
}

#[tokio::test]
async fn the_text_of_a_job_with_several_slots_names_the_execution_of_each_line() {
    let server = Server::start().await;
    let node = FakeNode::join(&server).await;
    let mut job = task_with(json!({}));
    job["Count"] = json!(2);
    let job = server.submit(job).await;
    let both = executions(&server, &job, 2).await;
    for execution in &both {
        node.complete(&server, &text(&execution["ID"]), json!({ "Type": "", "Params": {} })).await;
    }
    let came = server.get(&logs_path(&job, "")).await.text;
    let mut lines: Vec<_> = came.lines().collect();
    lines.sort_unstable();
    let mut expected: Vec<_> =
        both.iter().map(|one| format!("{} | hello", &text(&one["ID"])[..10])).collect();
    expected.sort_unstable();
    assert_eq!(lines, expected);
}

#[tokio::test]
async fn invalid_log_requests_are_refused() {
    let server = Server::start().await;
    let node = FakeNode::join(&server).await;
    let (job, execution) = completed_job(&server, &node, plain_job()).await;
    for query in ["tail=-1", "tail=ten", "stream=both", "follow=maybe", "tail=1&tail=2"] {
        server.get(&logs_path(&job, query)).await.refused(400, "InvalidQuery");
    }
    let absent = "j-00000000-0000-4000-8000-000000000000";
    server.get(&logs_path(absent, "")).await.refused(404, "JobNotFound");
    let other = server.submit(plain_job()).await;
    let path = logs_path(&other, &format!("execution_id={execution}"));
    server.get(&path).await.refused(404, "ExecutionNotFound");
    let path = node_path(&node.id, "/streams/what");
    answer(server.request(Method::POST, &path)).await.refused(404, "StreamNotFound");
    server.get(&path).await.refused(405, "MethodNotAllowed");
}

#[tokio::test]
async fn followed_output_breaks_off_when_the_service_stops() {
    let mut server = Server::start().await;
    let job = server.submit(plain_job()).await;
    let response = open(&server, &logs_path(&job, "follow"), "*/*").await;
    let reading = tokio::spawn(response.text());
    server.stop().await;
    reading.await.unwrap().expect_err("an end would look as if that were all");
}

#[tokio::test]
async fn a_reader_resumes_after_the_offset_of_its_last_line() {
    let server = Server::start().await;
    let node = FakeNode::join(&server).await;
    let (job, execution, mut stream) = running_job(&server, &node).await;
    let read = async |query: &str, stream: &mut Assignments, frames: &[LogFrame]| {
        let response = open(&server, &logs_path(&job, query), "application/x-ndjson").await;
        let reading = tokio::spawn(response.text());
        let request = asked(stream).await;
        send(&server, &node, &request, frames).await.ok();
        let text = reading.await.expect("it ends").expect("a whole body");
        let lines: Vec<Value> =
            text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        (request, lines)
    };
    let frames = [begin(0), output(LogStream::Stdout, b"one\ntwo\nthr"), LogFrame::End];
    let (_, lines) = read("", &mut stream, &frames).await;
    let offsets: Vec<_> = lines.iter().map(|line| line["Offset"].as_u64()).collect();
    assert_eq!(offsets, [Some(4), Some(8), Some(11)]);

    let query = format!("tail=1&from={execution}.stdout.{},{execution}.stderr.3", 8);
    let frames = [
        LogFrame::Begin(LogPosition { stdout: 8, stderr: 3 }),
        output(LogStream::Stdout, b"three\n"),
        LogFrame::End,
    ];
    let (request, lines) = read(&query, &mut stream, &frames).await;
    assert_eq!(request["From"], json!({ "Stdout": 8, "Stderr": 3 }));
    assert_eq!(request["Tail"], Value::Null);
    assert_eq!((&lines[0]["Line"], &lines[0]["Offset"]), (&json!("three"), &json!(14)));

    for from in [
        "8",
        "e-12ab34cd.stdout.8",
        &format!("{execution}.both.8"),
        &format!("{execution}.stdout.-8"),
    ] {
        let path = logs_path(&job, &format!("from={from}"));
        server.get(&path).await.refused(400, "InvalidQuery").says("from: ");
    }
}
