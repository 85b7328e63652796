//! `jobctl get`.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread::JoinHandle;

use api_types::job::JobStateType;
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

/// Serves the archive, and breaks off in the middle of the first response. Ends after `requests`
/// requests and returns their heads.
fn serve(requests: usize) -> (String, JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("the loopback works");
    let url = format!(
        "http://{}/api/v1/agent/results/x.tar.gz",
        listener.local_addr().expect("the loopback works")
    );
    let whole = archive();
    let half = whole.len() / 2;
    let serving = std::thread::spawn(move || {
        let mut heads = Vec::new();
        for request in 0..requests {
            let (mut stream, _) = listener.accept().expect("the loopback works");
            let mut head = Vec::new();
            let mut byte = [0];
            while !head.ends_with(b"\r\n\r\n") {
                stream.read_exact(&mut byte).expect("the loopback works");
                head.push(byte[0]);
            }
            let (status, rest, sent) = match request {
                0 => ("200 OK", &whole[..], &whole[..half]),
                _ => ("206 Partial Content", &whole[half..], &whole[half..]),
            };
            let length = rest.len();
            write!(stream, "HTTP/1.1 {status}\r\ncontent-length: {length}\r\n\r\n")
                .expect("the loopback works");
            stream.write_all(sent).expect("the loopback works");
            heads.push(String::from_utf8(head).expect("the loopback works").to_lowercase());
        }
        heads
    });
    (url, serving)
}

async fn published(service: &Service, url: &str) -> String {
    published_by(service, "publish", url).await
}

async fn published_by(service: &Service, image: &str, url: &str) -> String {
    let engine = format!("{{Type: docker, Params: {{Image: {image}, Parameters: ['{url}']}}}}");
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
    let (url, serving) = serve(2);
    let id = published(&service, &url).await;
    assert_snapshot!("get", service.run(&["get", &id, "results"]).await.normal());
    let read = |path: &str| std::fs::read_to_string(service.folder().join(path)).unwrap();
    assert_eq!(read("results/stdout"), "hello\n");
    assert_eq!(read("results/out/data.txt").len(), 100_000);
    let heads = serving.join().unwrap();
    let range = format!("\r\nrange: bytes={}-\r\n", archive().len() / 2);
    assert!(!heads[0].contains("range") && heads[1].contains(&range), "{heads:?}");
    assert_snapshot!("get_again", service.run(&["get", &id, "results"]).await.normal());
}

/// Nobody listens at the node's own URL.
#[tokio::test]
async fn results_come_through_the_service_and_resume_there() {
    let service = Service::start().await;
    let _node = FakeNode::start(&service, 1).await;
    let id = published_by(&service, "relayed", "http://127.0.0.1:9/x.tar.gz").await;
    let got = service.run(&["get", "--archive", &id]).await;
    assert_eq!(got.code, Some(0), "{got}");
    let kept = std::fs::read(service.folder().join(got.stdout.trim())).unwrap();
    assert_eq!(kept, archive());
}

#[tokio::test]
async fn an_archive_can_be_saved_without_unpacking() {
    let service = Service::start().await;
    let _node = FakeNode::start(&service, 1).await;
    let (url, serving) = serve(2);
    let id = published(&service, &url).await;
    let got = service.run(&["get", "--archive", &id]).await;
    assert_eq!(got.code, Some(0), "{got}");
    assert!(got.stdout.starts_with(&format!("{}/e-", &id[..10])), "{got}");
    let kept = std::fs::read(service.folder().join(got.stdout.trim())).unwrap();
    assert_eq!(kept, archive());
    drop(serving);
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
