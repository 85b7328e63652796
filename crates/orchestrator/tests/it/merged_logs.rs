//! Job Logs in order of time, with fake nodes of which some hang.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use api_types::Timestamp;
use api_types::log::{LogFrame, LogOutput, LogPosition, LogStream};
use reqwest::Method;
use serde_json::{Value, json};

use crate::node::{Assignments, FakeNode, node_path};
use crate::server::{PATIENCE, Server, job_path, list, task_with, text};

/// How long silent sources hold up the others, in total.
const SILENCE: Duration = Duration::from_secs(2);

const LINES: u32 = 5;

/// Executions that are merged at a time.
const BLOCK: usize = 64;

async fn large_node(server: &Server) -> FakeNode {
    FakeNode::join_with(server, |request| {
        request["ComputeNodeInfo"]["MaxCapacity"]["CPU"] = json!(1000.0);
        request["ComputeNodeInfo"]["MaxCapacity"]["Memory"] = json!(1_000_000_000_000_u64);
    })
    .await
}

/// An ended job with this many executions on the nodes; the node and the index of each execution.
async fn ended(
    server: &Server,
    nodes: &[FakeNode],
    count: usize,
) -> (String, BTreeMap<String, (String, u64)>) {
    let mut job = task_with(json!({}));
    job["Count"] = json!(count);
    let job = server.submit(job).await;
    let path = format!("{}/executions?limit=1000", job_path(&job));
    let begin = Instant::now();
    let placed = loop {
        let answer = server.get(&path).await;
        let placed = list(&answer.ok()["Executions"]).clone();
        if placed.len() == count {
            break placed;
        }
        assert!(begin.elapsed() < PATIENCE, "{} executions of {count}", placed.len());
    };
    for node in nodes {
        let of_node = placed.iter().filter(|execution| execution["NodeID"] == node.id);
        let reports = of_node.flat_map(|execution| {
            [(1, 3), (2, 5), (3, 7)].map(|(sequence, state)| {
                json!({
                    "ExecutionID": execution["ID"], "Sequence": sequence, "ComputeState": state,
                })
            })
        });
        let body = json!({ "Session": node.session, "Reports": reports.collect::<Vec<_>>() });
        server.put(&node_path(&node.id, "/executions"), &body).await.ok();
    }
    let of = |execution: &Value| {
        // Like `main[3]`.
        let name = text(&execution["Name"]);
        let index = name.rsplit(['[', ']']).nth(1).and_then(|index| index.parse().ok());
        let index: u64 = index.expect("an index");
        (text(&execution["ID"]), (text(&execution["NodeID"]), index))
    };
    let found = placed.iter().map(of).collect();
    (job, found)
}

/// Lines whose times alternate with those of other executions.
fn frames(index: u64) -> Vec<LogFrame> {
    let line = |number: u32| {
        let time = Timestamp(i64::from(number) * 1000 + i64::try_from(index).expect("small"));
        let data = format!("line {number}\n").as_bytes().into();
        LogFrame::Output(LogOutput { stream: LogStream::Stdout, time, data })
    };
    let begin = [LogFrame::Begin(LogPosition::default())];
    begin.into_iter().chain((0..LINES).map(line)).chain([LogFrame::End]).collect()
}

/// Answers requests for output, except for executions that hang; returns whose output was requested.
fn serve(
    server: &Server,
    node: &FakeNode,
    mut stream: Assignments,
    indexes: BTreeMap<String, u64>,
    hangs: impl Fn(&str) -> bool + Send + 'static,
) -> Arc<Mutex<BTreeSet<String>>> {
    let requested = Arc::new(Mutex::new(BTreeSet::new()));
    let (seen, id) = (Arc::clone(&requested), node.id.clone());
    let (base, client) = (server.url(), reqwest::Client::new());
    tokio::spawn(async move {
        while let Some(line) = stream.next().await {
            if line["Type"] != "Stream" {
                continue;
            }
            let execution = text(&line["ExecutionID"]);
            if !hangs(&execution) {
                let frames = frames(indexes[&execution]);
                let body: Vec<u8> = frames.iter().flat_map(frame_line).collect();
                let path = node_path(&id, &format!("/streams/{}", text(&line["StreamID"])));
                tokio::spawn(client.post(format!("{base}{path}")).body(body).send());
            }
            seen.lock().expect("it is whole").insert(execution);
        }
    });
    requested
}

fn frame_line(frame: &LogFrame) -> Vec<u8> {
    let mut line = serde_json::to_vec(frame).expect("a frame is plain data");
    line.push(b'\n');
    line
}

async fn read(server: &Server, job: &str) -> Vec<Value> {
    let path = format!("{}/logs?order=time", job_path(job));
    let request = server.request(Method::GET, &path).header("Accept", "application/x-ndjson");
    let response = request.timeout(5 * PATIENCE).send().await.expect("an answer");
    let text = response.text().await.expect("the output is complete");
    text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}

fn left_out(lines: &[Value]) -> BTreeSet<u64> {
    let remarks = lines.iter().filter(|line| line["Stream"] == "service");
    let remarks = remarks.filter(|line| text(&line["Line"]).contains("left out"));
    remarks.map(|line| line["Index"].as_u64().expect("a number")).collect()
}

fn indexes(found: &BTreeMap<String, (String, u64)>) -> BTreeMap<String, u64> {
    found.iter().map(|(id, (_, index))| (id.clone(), *index)).collect()
}

#[tokio::test]
async fn the_output_of_64_executions_on_three_nodes_is_in_order_of_time_whatever_hangs() {
    let server = Server::start().await;
    let nodes = [large_node(&server).await, large_node(&server).await, large_node(&server).await];
    let (job, found) = ended(&server, &nodes, BLOCK).await;
    let on: BTreeSet<_> = found.values().map(|(node, _)| node).collect();
    assert_eq!(on.len(), nodes.len());
    // One on each of two nodes.
    let of = |node: &FakeNode| found.iter().find(|(_, (on, _))| *on == node.id);
    let hanging = [&nodes[0], &nodes[1]].map(|node| of(node).expect("it has some"));
    let ids: BTreeSet<_> = hanging.map(|(id, _)| id.clone()).into();
    for node in &nodes {
        let (stream, ids) = (node.open(&server).await, ids.clone());
        serve(&server, node, stream, indexes(&found), move |id| ids.contains(id));
    }
    let begin = Instant::now();
    let lines = read(&server, &job).await;
    let took = begin.elapsed();
    assert!(took >= SILENCE && took < 5 * SILENCE, "{took:?}");
    assert_eq!(left_out(&lines), hanging.map(|(_, (_, index))| *index).into());
    let printed: Vec<_> = lines.iter().filter(|line| line["Stream"] == "stdout").collect();
    assert_eq!(printed.len(), (BLOCK - hanging.len()) * LINES as usize);
    let times: Vec<_> = printed.iter().map(|line| text(&line["Time"])).collect();
    assert!(times.is_sorted(), "{times:?}");
}

#[tokio::test]
async fn a_node_that_hangs_is_not_asked_again_in_later_blocks() {
    const COUNT: usize = 4 * BLOCK;
    let server = Server::start().await;
    let nodes = [large_node(&server).await, large_node(&server).await];
    let (job, found) = ended(&server, &nodes, COUNT).await;
    let mut requested = Vec::new();
    for node in &nodes {
        let (stream, hangs) = (node.open(&server).await, node.id == nodes[1].id);
        requested.push(serve(&server, node, stream, indexes(&found), move |_| hangs));
    }
    let begin = Instant::now();
    let lines = read(&server, &job).await;
    // One wait in all, not one for each block or each execution.
    assert!(begin.elapsed() < 3 * SILENCE, "{:?}", begin.elapsed());
    let of_second = found.values().filter(|(node, _)| *node == nodes[1].id);
    let of_second: BTreeSet<u64> = of_second.map(|(_, index)| *index).collect();
    assert!(of_second.iter().any(|index| *index >= BLOCK as u64), "it has some in later blocks");
    let left_out = left_out(&lines);
    assert!(of_second.is_subset(&left_out), "{of_second:?} is not in {left_out:?}");
    let asked = requested[1].lock().expect("it is whole").clone();
    let later: Vec<_> = asked.iter().filter(|id| found[*id].1 >= BLOCK as u64).collect();
    assert!(!asked.is_empty() && later.is_empty(), "{later:?}");
}
