//! Results from the task to their reader, through the agent.

use std::io::Read;

use api_types::engine::{EngineType, PublisherType};
use api_types::execution::ComputeState;
use api_types::protocol::{Report, Work};
use api_types::source::ResultPath;
use serde_json::json;

use crate::http::{ask, get};
use crate::node::{DockerNode, Node, work};

crate::covers! {
    "downloadResult" => an_archive_is_served_whole_or_from_an_offset;
}

/// Path and contents of every entry.
pub(crate) fn files(archive: &[u8]) -> Vec<(String, String)> {
    let mut tar = tar::Archive::new(flate2::read::GzDecoder::new(archive));
    let entries = tar.entries().expect("a tar").map(|entry| {
        let mut entry = entry.expect("an entry");
        let mut text = String::new();
        entry.read_to_string(&mut text).expect("text");
        (entry.path().expect("a path").display().to_string(), text)
    });
    entries.collect()
}

pub(crate) fn url(report: &Report) -> String {
    let published = report.published_result.as_ref().expect("a result");
    assert_eq!(published.publisher_type, PublisherType::Local);
    published.params["URL"].as_str().expect("a URL").to_owned()
}

fn locally(mut work: Work) -> Work {
    work.task.publisher.publisher_type = PublisherType::Local;
    work
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_task_publishes_its_results() {
    let Some(node) = DockerNode::start().await else { return };
    let steps = ["out", "said", "err", "cried", "write", "/outputs/answer", "42", "exit", "3"];
    let mut work = locally(node.work(&steps));
    work.task.result_paths =
        vec![ResultPath { name: "outputs".to_owned(), path: "/outputs".to_owned() }];
    let id = node.orchestrator().run(work).await;
    let report = node.orchestrator().reported(id, ComputeState::Failed).await;
    assert_eq!(report.message, "exit code 3");
    let answer = get(&url(&report)).await;
    assert_eq!(answer.status, 200, "{}", answer.head);
    assert!(answer.head.contains("content-type: application/octet-stream"), "{}", answer.head);
    let found: Vec<_> = files(&answer.body);
    let expected = [
        ("stdout", "said\nwrote /outputs/answer\n"),
        ("stderr", "cried\n"),
        ("exitCode", "3"),
        ("outputs", ""),
        ("outputs/answer", "42"),
    ]
    .map(|(path, text)| (path.to_owned(), text.to_owned()));
    assert_eq!(found, expected);
    node.nothing_is_left().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_archive_is_served_whole_or_from_an_offset() {
    let mut node = Node::start(|_| ()).await;
    let id = node.orchestrator.run(locally(work(EngineType::Noop, json!({})))).await;
    let report = node.orchestrator.reported(id, ComputeState::Completed).await;
    let path = format!("/api/v1/agent/results/{id}.tar.gz");
    assert!(url(&report).ends_with(&path));
    let whole = get(&url(&report)).await;
    assert_eq!(files(&whole.body).len(), 3);
    let tag = whole.head.lines().find_map(|line| line.strip_prefix("etag: ")).unwrap().to_owned();
    for (headers, status, from) in [
        ("Range: bytes=10-\r\n".to_owned(), 206, 10),
        (format!("Range: bytes=10-\r\nIf-Range: {tag}\r\n"), 206, 10),
        ("Range: bytes=10-\r\nIf-Range: \"other\"\r\n".to_owned(), 200, 0),
        ("Range: bytes=99999-\r\n".to_owned(), 200, 0),
        ("Range: bytes=1-2,4-5\r\n".to_owned(), 200, 0),
    ] {
        let part = ask("GET", &node.url(&path), &headers).await;
        assert_eq!((part.status, &part.body[..]), (status, &whole.body[from..]), "{headers}");
    }
    for absent in ["e-0.tar.gz", "ledger.sqlite", "..%2Fledger.sqlite"] {
        let answer = get(&node.url(&format!("/api/v1/agent/results/{absent}"))).await;
        assert_eq!(answer.status, 404, "{absent}");
    }
    // The archive outlives the agent, and its retention time ends it.
    node.shut_down_agent().await;
    node.settings.results.retain_seconds = 0;
    node.start_agent().await;
    crate::node::eventually("the archive to be removed", async || {
        get(&node.url(&path)).await.status == 404
    })
    .await;
}
