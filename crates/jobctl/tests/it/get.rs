//! `jobctl get`.

use std::time::Instant;

use api_types::job::JobStateType;
use api_types::node::Connection;
use flate2::Compression;
use flate2::write::GzEncoder;
use insta::assert_snapshot;

use crate::fake_node::FakeNode;
use crate::service::Service;

/// An archive that is larger than one network read.
pub(crate) fn archive() -> Vec<u8> {
    let mut builder = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::none()));
    for (path, text) in [("stdout", "hello\n".to_owned()), ("out/data.txt", "x".repeat(100_000))] {
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o644);
        builder.append_data(&mut header, path, text.as_bytes()).expect("memory takes it");
    }
    builder.into_inner().expect("memory takes it").finish().expect("memory takes it")
}

/// A job whose node sends the archive through the service, and breaks off in the middle at first.
async fn published(service: &Service) -> String {
    let engine = "{Type: docker, Params: {Image: relayed}}";
    let id = service
        .submit(&format!(
            "Type: batch\nTasks: [{{Name: main, Engine: {engine}, Publisher: {{Type: local}}}}]"
        ))
        .await;
    service.until(&id, JobStateType::Completed).await;
    id
}

#[tokio::test]
async fn results_are_downloaded_and_unpacked_even_if_the_connection_breaks() {
    let service = Service::start().await;
    let _node = FakeNode::start(&service, 1).await;
    let id = published(&service).await;
    assert_snapshot!("get", service.run(&["get", &id, "results"]).await.normal());
    let read = |path: &str| std::fs::read_to_string(service.folder().join(path)).unwrap();
    assert_eq!(read("results/stdout"), "hello\n");
    assert_eq!(read("results/out/data.txt").len(), 100_000);
    assert_snapshot!("get_again", service.run(&["get", &id, "results"]).await.normal());
}

#[tokio::test]
async fn an_archive_can_be_saved_without_unpacking() {
    let service = Service::start().await;
    let _node = FakeNode::start(&service, 1).await;
    let id = published(&service).await;
    let got = service.run(&["get", "--archive", &id]).await;
    assert_eq!(got.code, Some(0), "{got}");
    assert!(got.stdout.starts_with(&format!("{}/e-", &id[..10])), "{got}");
    let kept = std::fs::read(service.folder().join(got.stdout.trim())).unwrap();
    assert_eq!(kept, archive());
}

#[tokio::test]
async fn a_job_without_results_is_reported() {
    let service = Service::start().await;
    let _node = FakeNode::start(&service, 1).await;
    let job = "Type: batch\nTasks: [{Name: main, Engine: {Type: docker, Params: {Image: ok}}}]";
    let id = service.submit(job).await;
    service.until(&id, JobStateType::Completed).await;
    assert_snapshot!(service.run(&["get", &id]).await.normal());
}

#[tokio::test]
async fn results_on_a_silent_node_are_said_to_be_there_and_not_waited_for() {
    // The shortest lease: the node never renews it.
    let service =
        Service::start_with(|settings| orchestrator::Settings { node_ttl: 2, ..settings }).await;
    let node = FakeNode::start(&service, 1).await;
    let job = "Name: report\nType: batch\nCount: 2\nTasks: [{Name: main, Engine: {Type: docker, \
               Params: {Image: relayed}}, Publisher: {Type: local}}]";
    let id = service.submit(job).await;
    service.until(&id, JobStateType::Completed).await;
    let begin = Instant::now();
    while service.client.describe_node(node.id).await.unwrap().connection == Connection::Connected {
        assert!(begin.elapsed() < crate::service::TIMEOUT, "the node is not silent");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    let begin = Instant::now();
    let got = service.run(&["get", "report"]).await;
    assert_eq!(got.code, Some(121), "{got}");
    for index in 0..2 {
        let line = format!("jobctl: the results of report[{index}] are on alpha, silent for ");
        assert!(got.stderr.contains(&line), "{got}");
    }
    assert!(begin.elapsed().as_millis() < 2000, "{:?}", begin.elapsed());
    let waited = service.run(&["wait", "report"]).await;
    assert_eq!(waited.code, Some(0), "{waited}");
    assert!(waited.stderr.contains("the results of report[1] are on alpha"), "{waited}");
}
