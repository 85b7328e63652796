//! `GET /api/v1/orchestrator/usage`, and `Usage` in the records of executions.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::node::{Assignments, FakeNode, executions, node_path};
use crate::server::{Server, job_with, list, text};

crate::covers! {
    "listUsage" => a_node_says_what_its_own_executions_use_and_nothing_else;
    "describeExecutionUsage" => curves_come_from_nodes_and_then_from_the_record;
    "describeJobUsage" => curves_come_from_nodes_and_then_from_the_record;
    "describeNodeUsage" => a_node_draws_its_last_hour_and_day;
}

const USAGE: &str = "/api/v1/orchestrator/usage";

/// A job with one execution that runs on the node.
async fn running(server: &Server, node: &FakeNode, job: Value) -> (String, String) {
    let job = server.submit(job_with(job)).await;
    let execution = text(&executions(server, &job, 1).await[0]["ID"]);
    start(server, node, &execution).await;
    (job, execution)
}

async fn start(server: &Server, node: &FakeNode, execution: &str) {
    for (sequence, state) in [(1, 3), (2, 5)] {
        let report =
            json!({ "ExecutionID": execution, "Sequence": sequence, "ComputeState": state });
        node.report(server, report).await;
    }
}

/// Answers the next request for usage.
async fn answer(server: &Server, node: &FakeNode, stream: &mut Assignments, used: &[Value]) {
    let request = requested(stream).await;
    send(server, node, &request, &json!({ "Type": "Usage", "Executions": used })).await;
}

async fn requested(stream: &mut Assignments) -> Value {
    loop {
        let line = stream.next().await.expect("the stream continues");
        if line["Type"] == "Usage" {
            return line;
        }
    }
}

async fn send(server: &Server, node: &FakeNode, request: &Value, frame: &Value) {
    let frames = [frame.clone(), json!({ "Type": "End" })];
    let body: String = frames.iter().map(|frame| format!("{frame}\n")).collect();
    let path = node_path(&node.id, &format!("/streams/{}", text(&request["StreamID"])));
    let sent = server.request(reqwest::Method::POST, &path).body(body);
    crate::server::answer(sent).await.ok();
}

fn used(execution: &str, job: &str, namespace: &str, usage: Value) -> Value {
    json!({ "ExecutionID": execution, "JobID": job, "Namespace": namespace, "Usage": usage })
}

fn usage(cpu: f64, memory: u64) -> Value {
    json!({
        "CPUSeconds": 2.5, "CPU": cpu, "Memory": memory, "MemoryPeak": memory, "MeasureTime": 7,
    })
}

#[tokio::test]
async fn a_node_says_what_its_own_executions_use_and_nothing_else() {
    let server = Server::start().await;
    let nodes = [FakeNode::join(&server).await, FakeNode::join(&server).await];
    // Equal nodes are filled evenly, but which comes first is not said.
    let first = server.submit(job_with(json!({ "Name": "first" }))).await;
    let placed = executions(&server, &first, 1).await.remove(0);
    let (owner, other) = match placed["NodeID"] == nodes[0].id {
        true => (&nodes[0], &nodes[1]),
        false => (&nodes[1], &nodes[0]),
    };
    let mine = text(&placed["ID"]);
    start(&server, owner, &mine).await;
    let (second, theirs) = running(&server, other, json!({ "Name": "second" })).await;
    let (mut own, mut foreign) = (owner.open(&server).await, other.open(&server).await);

    let impossible = json!({ "CPUSeconds": -5.0, "CPU": 1e300, "Memory": 9, "MemoryPeak": 1 });
    let truth = [used(&mine, &first, "default", impossible)];
    let claims = [
        used(&theirs, &second, "default", usage(0.2, 1)),
        used(&mine, &first, "default", usage(0.3, 100)),
    ];
    let (read, (), ()) = tokio::join!(
        server.get(USAGE),
        answer(&server, owner, &mut own, &truth),
        answer(&server, other, &mut foreign, &claims),
    );
    let found = list(&read.ok()["Executions"]);
    let rows: Vec<_> = found
        .iter()
        .map(|one| (text(&one["Name"]), one["Usage"]["CPU"].as_f64().expect("a number")))
        .collect();
    assert_eq!(rows, [("first[0]".to_owned(), 1e6), ("second[0]".to_owned(), 0.2)]);
    assert_eq!(found[0]["Usage"]["CPUSeconds"], 0.0);
    assert_eq!(found[0]["Usage"]["MemoryPeak"], 9);
}

#[tokio::test]
async fn executions_are_sorted_by_what_they_use() {
    let server = Server::start().await;
    let node = FakeNode::join(&server).await;
    let (first, a) = running(&server, &node, json!({ "Name": "a" })).await;
    let (second, b) = running(&server, &node, json!({ "Name": "b", "Namespace": "other" })).await;
    let mut stream = node.open(&server).await;
    let claims = [
        used(&a, &first, "default", usage(0.1, 500)),
        used(&b, &second, "other", usage(0.4, 100)),
        // Over, or never there.
        used("e-00000000-0000-4000-8000-000000000000", &first, "default", usage(9.0, 900)),
    ];
    let path = format!("{USAGE}?order_by=memory");
    let (read, ()) = tokio::join!(server.get(&path), answer(&server, &node, &mut stream, &claims));
    let names = |body: &Value| -> Vec<String> {
        list(&body["Executions"]).iter().map(|one| text(&one["Name"])).collect()
    };
    assert_eq!(names(read.ok()), ["a[0]", "b[0]"]);
    assert_eq!(read.body["Measured"], 3);
    assert_eq!(read.body["UnansweredNodeIDs"], json!([]));
    assert_eq!(read.body["Executions"][0]["Usage"], usage(0.1, 500));
    // Answers are kept for a second: these come from the same one, or from the next.
    for (query, expected) in [
        ("order_by=cpu", vec!["b[0]", "a[0]"]),
        ("limit=1", vec!["b[0]"]),
        ("namespace=default", vec!["a[0]"]),
        (&format!("job_id={}", &second[..10]), vec!["b[0]"]),
    ] {
        let path = format!("{USAGE}?{query}");
        let read = tokio::select! {
            read = server.get(&path) => read,
            () = async {
                loop {
                    answer(&server, &node, &mut stream, &claims).await;
                }
            } => unreachable!("it answers for ever"),
        };
        assert_eq!(names(read.ok()), expected, "{query}");
    }
    server.get(&format!("{USAGE}?order_by=size")).await.refused(400, "InvalidQuery");
    let unknown = "job_id=j-00000000-0000-4000-8000-000000000000";
    assert_eq!(server.get(&format!("{USAGE}?{unknown}")).await.status, 200);
}

#[tokio::test]
async fn a_node_that_does_not_answer_is_not_waited_for_again() {
    let server = Server::start().await;
    let node = FakeNode::join(&server).await;
    let (_, execution) = running(&server, &node, json!({})).await;
    let _stream = node.open(&server).await;
    let path = format!("/api/v1/orchestrator/executions/{execution}");
    let found = server.get(&path).await;
    assert_eq!(found.ok()["Execution"].get("Usage"), None);
    let begin = Instant::now();
    for _ in 0..20 {
        assert_eq!(server.get(&path).await.ok()["Execution"].get("Usage"), None);
    }
    // Each of them would have waited for a second.
    assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
    let listed = server.get(USAGE).await;
    assert_eq!(listed.ok()["UnansweredNodeIDs"], json!([node.id]));
}

fn curve(cpu: &[f64], memory: &[u64]) -> Value {
    let end = 1_700_000_000_000_000_000 + 1_000_000_000 * cpu.len() as u64;
    json!({
        "BeginTime": 1_700_000_000_000_000_000_u64, "EndTime": end, "Step": 1, "CPU": cpu,
        "Memory": memory,
    })
}

fn with_curve(execution: &str, job: &str, curve: &Value) -> Value {
    let mut used = used(execution, job, "default", usage(0.1, 5));
    used["Curve"] = curve.clone();
    used
}

#[tokio::test]
async fn curves_come_from_nodes_and_then_from_the_record() {
    let server = Server::start().await;
    let node = FakeNode::join(&server).await;
    let (job, one) = running(&server, &node, json!({ "Count": 2 })).await;
    let both = executions(&server, &job, 2).await;
    let other = both.iter().map(|found| text(&found["ID"])).find(|id| *id != one).unwrap();
    start(&server, &node, &other).await;
    let mut stream = node.open(&server).await;
    let of_execution = format!("/api/v1/orchestrator/executions/{one}/usage");
    let of_job = format!("/api/v1/orchestrator/jobs/{job}/usage?executions=true");
    let first = curve(&[0.5, 0.25], &[10, 20]);
    let claims = [with_curve(&one, &job, &first), with_curve(&other, &job, &curve(&[1.0], &[7]))];
    let reading = async {
        let request = requested(&mut stream).await;
        assert_eq!(request["JobID"], json!(job));
        send(&server, &node, &request, &json!({ "Type": "Usage", "Executions": claims })).await;
    };
    let (read, ()) = tokio::join!(server.get(&of_execution), reading);
    let shown = read.ok();
    assert_eq!(shown["Curve"], first);
    assert_eq!((&shown["Running"], &shown["Answered"]), (&json!(true), &json!(true)));
    let (read, ()) =
        tokio::join!(server.get(&of_job), answer(&server, &node, &mut stream, &claims));
    let shown = read.ok();
    assert_eq!(shown["Curve"]["CPU"], json!([1.5, 0.25]));
    assert_eq!(shown["Curve"]["Memory"], json!([17, 20]));
    assert_eq!(
        (&shown["Measured"], &shown["Nodes"], &shown["Answered"]),
        (&json!(2), &json!(1), &json!(1))
    );
    assert_eq!(list(&shown["Executions"]).len(), 2);

    // A lie is not believed, and a silent node is named.
    let lie = with_curve(&one, &job, &curve(&[-1.0], &[1]));
    let (read, ()) = tokio::join!(
        server.get(&of_execution),
        answer(&server, &node, &mut stream, std::slice::from_ref(&lie)),
    );
    assert_eq!(read.ok()["Curve"], Value::Null);
    let silent = server.get(&of_execution).await;
    assert_eq!((&silent.ok()["Curve"], &silent.body["Answered"]), (&Value::Null, &json!(false)));

    for execution in [&one, &other] {
        let output = json!({
            "stdout": "", "stdouttruncated": false, "stderr": "", "stderrtruncated": false,
            "exitCode": 0, "runnerError": "",
        });
        let report = json!({
            "ExecutionID": execution, "Sequence": 3, "ComputeState": 7, "RunOutput": output,
            "Usage": usage(0.0, 0), "Curve": first,
        });
        node.report(&server, report).await;
    }
    drop(stream);
    let ended = server.get(&of_execution).await;
    assert_eq!((&ended.ok()["Curve"], &ended.body["Running"]), (&first, &json!(false)));
    let ended = server.get(&of_job).await;
    assert_eq!(ended.ok()["Curve"]["CPU"], json!([1.0, 0.5]));
    assert_eq!((&ended.body["Measured"], &ended.body["Nodes"]), (&json!(2), &json!(0)));
}

#[tokio::test]
async fn a_node_supplies_no_curve_of_another_nodes_execution() {
    let server = Server::start().await;
    let [honest, liar] = [FakeNode::join(&server).await, FakeNode::join(&server).await];
    let job = server.submit(job_with(json!({ "Count": 2 }))).await;
    let both = executions(&server, &job, 2).await;
    let on = |node: &FakeNode| {
        let found = both.iter().find(|one| one["NodeID"] == json!(node.id));
        text(&found.unwrap_or_else(|| panic!("one on each node: {both:?}"))["ID"])
    };
    let [honest_one, liars_one] = [on(&honest), on(&liar)];
    start(&server, &honest, &honest_one).await;
    start(&server, &liar, &liars_one).await;
    let [mut honest_stream, mut liars_stream] =
        [honest.open(&server).await, liar.open(&server).await];
    let claim = |id: &str, cores: f64| with_curve(id, &job, &curve(&[cores], &[1]));
    let said = [claim(&honest_one, 0.5)];
    let lies = [claim(&liars_one, 0.25), claim(&honest_one, 64.0)];
    let path = format!("/api/v1/orchestrator/jobs/{job}/usage");
    let (read, (), ()) = tokio::join!(
        server.get(&path),
        answer(&server, &honest, &mut honest_stream, &said),
        answer(&server, &liar, &mut liars_stream, &lies),
    );
    assert_eq!(read.ok()["Curve"]["CPU"], json!([0.75]));
    assert_eq!((&read.body["Measured"], &read.body["Answered"]), (&json!(2), &json!(2)));
}

#[tokio::test]
async fn a_node_draws_its_last_hour_and_day() {
    let server = Server::start().await;
    let node = FakeNode::join(&server).await;
    let path = node_path(&node.id, "/usage");
    let absent = server.get(&path).await;
    assert_eq!((&absent.ok()["Answered"], &absent.body["Hour"]), (&json!(false), &Value::Null));
    let mut stream = node.open(&server).await;
    let hour = json!({
        "Used": curve(&[0.5], &[10]), "AllocatedCPU": [1.0], "AllocatedMemory": [20],
    });
    let frame = json!({ "Type": "NodeUsage", "Hour": hour, "Day": hour });
    let reading = async {
        let request = requested(&mut stream).await;
        assert_eq!(request["Node"], true);
        send(&server, &node, &request, &frame).await;
    };
    let (read, ()) = tokio::join!(server.get(&path), reading);
    assert_eq!((&read.ok()["Hour"], &read.body["Answered"]), (&hour, &json!(true)));
    assert_eq!(read.body["Capacity"]["CPU"], 4.0);
}
