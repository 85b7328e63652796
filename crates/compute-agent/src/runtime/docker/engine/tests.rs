//! Answers that no Engine gives, and requests that no agent makes.

use std::time::Instant;

use api_types::image::ImageReference;
use bollard::models::ContainerSummary;
use bollard::query_parameters::{ListContainersOptions, LogsOptions};
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use peers::docker::{DockerEngine, Reply};
use tokio_util::codec::Decoder;

use super::answer::MAX_ANSWER_BYTES;
use super::frames::{Elements, JsonLines, OutputPieces};
use super::*;

const NAME: &str = "execution-e-00000000-0000-4000-8000-000000000001";

async fn connected(peer: &DockerEngine) -> Engine {
    Engine::new(&peer.host(), Duration::from_secs(2)).negotiate().await.unwrap()
}

fn image(text: &str) -> ImageReference {
    ImageReference::parse(text).unwrap()
}

#[tokio::test]
async fn answers_without_an_end_are_cut_off() {
    let peer = DockerEngine::start();
    let engine = connected(&peer).await;
    let chunk = Bytes::from(vec![b' '; 64 << 10]);
    for status in [200, 400, 500] {
        let endless = Reply::Endless(status, chunk.clone());
        for operation in ["ContainerInspect", "ContainerList", "ImageInspect", "ContainerLogs"] {
            peer.reply(operation, endless.clone());
        }
        let begin = Instant::now();
        engine.inspect_container(NAME, None).await.expect_err("an endless description");
        engine.inspect_image(&image("a")).await.expect_err("an endless image");
        let options = None::<ListContainersOptions>;
        engine.list_containers(options).await.expect_err("an endless list");
        let mut logs = engine.logs(NAME, None::<LogsOptions>);
        assert!(logs.next().await.unwrap().is_err(), "output of blanks");
        assert!(begin.elapsed() < Duration::from_secs(30), "{:?}", begin.elapsed());
    }
    let refused = engine.inspect_container(NAME, None).await.expect_err("a refusal");
    assert!(refused.to_string().len() < 100_000, "an error message is bounded");
}

#[tokio::test]
async fn answers_that_do_not_come_are_given_up() {
    let peer = DockerEngine::start();
    let engine = connected(&peer).await;
    for status in [200, 500] {
        peer.reply("ContainerInspect", Reply::Silence(status));
        peer.reply("ContainerList", Reply::Silence(status));
        engine.inspect_container(NAME, None).await.expect_err("a silent description");
        engine.list_containers(None).await.expect_err("a silent list");
    }
    for bytes in [&b"HTTP/1.1 200 OK\r\nX: "[..], b"HTTP/1.1 100 Continue\r\n\r\n", b"x"] {
        peer.reply("Raw", Reply::Raw(Bytes::copy_from_slice(bytes)));
        engine.inspect_container(NAME, None).await.expect_err("a head without an end");
    }
}

#[tokio::test]
async fn a_name_that_no_container_has_is_not_asked_for() {
    let peer = DockerEngine::start();
    let engine = connected(&peer).await;
    for name in ["", ".", "..", "a/b", "../images/json", "a?b=c", "a%2fb", "a b", "-a", "ä", "a\n"]
    {
        match engine.inspect_container(name, None).await {
            Err(Error::DockerResponseServerError { status_code: 404, .. }) => {}
            other => panic!("{name:?}: {other:?}"),
        }
        engine.start_container(name).await.expect_err(name);
        engine.remove_container(name, None).await.expect_err(name);
    }
    assert_eq!(peer.served(), ["SystemVersion"]);
}

#[test]
fn a_long_list_is_read_object_by_object() {
    let text = r#" [ {"Id":"a","Names":["]}"],"Labels":{"x":"\"{["}} ,{"Id":"b"},
        {"Id":"c","HostConfig":{"NetworkMode":"none"}} ] "#;
    // However the bytes are cut.
    for size in [1, 2, 7, text.len()] {
        let (mut decoder, mut source) = (Elements::<ContainerSummary>::new(), BytesMut::new());
        let mut ids = Vec::new();
        for piece in text.as_bytes().chunks(size) {
            source.extend_from_slice(piece);
            while let Some(element) = decoder.decode(&mut source).unwrap() {
                ids.push(element.id.unwrap());
            }
        }
        assert!(decoder.decode_eof(&mut source).unwrap().is_none());
        assert_eq!(ids, ["a", "b", "c"]);
    }
    for text in ["", "[", r#"[{"Id":"a"}"#, r#"{"Id":"a"}"#, "[1]", "null", "]"] {
        let (mut decoder, mut source) = (Elements::<ContainerSummary>::new(), text.into());
        let mut decode = || -> Result<(), Error> {
            while decoder.decode(&mut source)?.is_some() {}
            decoder.decode_eof(&mut source).map(drop)
        };
        assert!(decode().is_err(), "{text}");
    }
}

#[test]
fn pieces_of_a_stream_are_bounded() {
    let mut decoder = Elements::<ContainerSummary>::new();
    let mut source = BytesMut::from(&br#"[{"Id":""#[..]);
    source.resize(MAX_ANSWER_BYTES + 100, b'a');
    assert!(decoder.decode(&mut source).is_err(), "an element");

    let mut decoder = JsonLines::<serde_json::Value>::new();
    let mut source = BytesMut::from(&b"{}\n\r\n{\"a\":1}\n"[..]);
    assert_eq!(decoder.decode(&mut source).unwrap(), Some(serde_json::json!({})));
    assert_eq!(decoder.decode(&mut source).unwrap(), Some(serde_json::json!({"a": 1})));
    assert_eq!(decoder.decode(&mut source).unwrap(), None);
    source.resize(2 << 20, b' ');
    assert!(decoder.decode(&mut source).is_err(), "a line");

    let mut source = BytesMut::from(&b"\x01\0\0\0\xff\0\0\0aaaa"[..]);
    assert!(OutputPieces.decode(&mut source).is_err(), "a piece of output");
}
