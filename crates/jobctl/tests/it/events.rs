//! `jobctl events`.

use api_types::job::JobStateType;
use insta::assert_snapshot;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader};

use crate::fake_node::FakeNode;
use crate::service::{Service, TIMEOUT};
use crate::transcript::Transcript;

fn job(name: &str) -> String {
    format!(
        "Type: batch\nName: {name}\nTasks: [{{Name: main, Engine: {{Type: docker, Params: {{Image: ok}}}}}}]"
    )
}

/// Replaces the time of day at the beginning of each line.
fn without_times(transcript: Transcript) -> String {
    let line = |line: &str| {
        let is_time = line.as_bytes().get(2) == Some(&b':');
        if is_time { format!("HH:MM:SS{}\n", &line[8..]) } else { format!("{line}\n") }
    };
    let stdout = transcript.stdout.lines().map(line).collect();
    Transcript { stdout, ..transcript }.normal()
}

#[tokio::test]
async fn past_events_are_shown_and_the_command_ends() {
    let service = Service::start().await;
    let _node = FakeNode::start(&service, 1).await;
    let one = service.submit(&job("one")).await;
    service.until(&one, JobStateType::Completed).await;
    assert_snapshot!("events", without_times(service.run(&["events"]).await));
    let other = service.submit(&job("other")).await;
    service.until(&other, JobStateType::Completed).await;
    let json = service.run(&["events", "--job", &one[..10], "--type", "job", "-o", "json"]).await;
    let events: Vec<Value> =
        json.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(events.len(), 3, "{json}");
    assert!(events.iter().all(|event| event["JobID"] == one.as_str()), "{json}");
    assert_eq!(events[0]["Sequence"], 2, "the node joined first");
    let sequence = events[2]["Sequence"].to_string();
    let after = service.run(&["events", "--after", &sequence, "-o", "wide"]).await;
    assert!(after.stdout.contains(&other) && !after.stdout.contains(&one), "{after}");
}

#[tokio::test]
async fn events_of_nodes_are_shown_whatever_the_namespace() {
    let service = Service::start().await;
    let node = FakeNode::idle(&service, 1).await;
    service.submit(&job("one")).await;
    service.run(&["node", "cordon", &node.id.to_string(), "--message", "new disk"]).await;
    let shown = service.run(&["events", "--type", "node", "--namespace", "other"]).await;
    assert_snapshot!("events_of_nodes", without_times(shown));
}

#[tokio::test]
async fn new_events_are_shown_live() {
    let service = Service::start().await;
    let early = service.submit(&job("early")).await;
    service.until(&early, JobStateType::Queued).await;
    let mut child =
        service.spawn(&["events", "--follow", "--since", "10m", "--type", "job", "-o", "json"]);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = async || -> Value {
        let line = tokio::time::timeout(TIMEOUT, lines.next_line()).await.expect("in time");
        serde_json::from_str(&line.unwrap().expect("a line")).unwrap()
    };
    assert_eq!(next().await["Comment"], "submitted");
    let late = service.submit(&job("late")).await;
    loop {
        let event = next().await;
        if event["JobID"] == late.as_str() {
            assert_eq!(event["Comment"], "submitted");
            break;
        }
    }
    child.kill().await.unwrap();
}
