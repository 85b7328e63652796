//! Data URLs on disk, and their paths in the task.

use std::io::Write;

use api_types::engine::Params;
use api_types::source::{SourceSpec, SourceType};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::json;

use super::*;

fn input(url: &str, target: &str, alias: &str) -> InputSource {
    let mut params = Params::new();
    params.insert("URL".to_owned(), json!(url));
    InputSource {
        source: SourceSpec { source_type: SourceType::Inline, params },
        target: target.to_owned(),
        alias: alias.to_owned(),
    }
}

fn write(input: &InputSource, root: &std::path::Path) -> Result<MountedInput, Failure> {
    let quota =
        Quota::new(u64::MAX, crate::host::disk::LimitedBy::Node, crate::testing::any_disk());
    super::write(&url(input).unwrap(), &InputDestination::new(root.to_owned(), input), &quota)
}

fn tar() -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_ustar();
    header.set_size(5);
    header.set_mode(0o600);
    builder.append_data(&mut header, "sub/a.txt", &b"hello"[..]).unwrap();
    builder.into_inner().unwrap()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn data_url(content_type: &str, bytes: &[u8]) -> String {
    format!("data:{content_type};base64,{}", BASE64_STANDARD.encode(bytes))
}

#[test]
fn a_plain_text_is_a_file_at_the_target() {
    let dir = tempfile::tempdir().unwrap();
    let mount = write(&input("data:text/plain,two%20words", "/in/text", ""), dir.path()).unwrap();
    assert_eq!(mount.target, "/in/text");
    assert_eq!(fs::read_to_string(mount.source).unwrap(), "two words");
}

#[test]
fn a_target_that_ends_with_a_slash_is_the_directory_of_the_file() {
    for (alias, name) in [("", "inline"), ("words.txt", "words.txt")] {
        let dir = tempfile::tempdir().unwrap();
        let mount = write(&input("data:,x", "/inputs/", alias), dir.path()).unwrap();
        assert_eq!(mount.target, format!("/inputs/{name}"));
        assert_eq!(fs::read_to_string(mount.source).unwrap(), "x");
    }
}

#[test]
fn a_tar_unpacks_compressed_or_not() {
    for url in [
        data_url("application/gzip", &gzip(&tar())),
        data_url("application/x-gzip", &gzip(&tar())),
        data_url("application/x-tar", &tar()),
        data_url("Application/GZIP", &tar()),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let mount = write(&input(&url, "/inputs", ""), dir.path()).unwrap();
        assert_eq!(mount.target, "/inputs");
        assert_eq!(fs::read_to_string(mount.source.join("sub/a.txt")).unwrap(), "hello");
    }
}

#[test]
fn content_that_is_not_declared_as_a_tar_or_is_none_stays_a_file() {
    let packed = gzip(b"just text");
    for (url, bytes) in [
        (data_url("application/gzip", &packed), packed.clone()),
        (data_url("application/octet-stream", &tar()), tar()),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let mount = write(&input(&url, "/f", ""), dir.path()).unwrap();
        assert_eq!(fs::read(mount.source).unwrap(), bytes);
    }
}

#[test]
fn an_invalid_data_url_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    for (url, reason) in [
        ("http://example.com/x", "not a data URL"),
        ("data:;base64,!!!", "does not hold valid base64"),
        ("data:application/gzip,nogzip", "not what its content type says"),
    ] {
        let failure = write(&input(url, "/f", ""), dir.path()).unwrap_err();
        assert!(failure.message.contains(reason), "{url}: {}", failure.message);
    }
    let refusal = Inline.admit(&input("nothing", "/f", "")).unwrap_err();
    assert!(refusal.contains("not a data URL"), "{refusal}");
}
