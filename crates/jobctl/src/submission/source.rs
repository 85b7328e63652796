//! Inputs as URLs on the command line.

use std::path::Path;

use anyhow::{Context, Result};
use api_types::submission::{InputSourceSubmission, TypedSubmission};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use crate::exit::UsageError;
use crate::habits::of_argument;

/// Target of an input that specifies none.
const DEFAULT_TARGET: &str = "/inputs";

/// The largest file that is sent inline: a job has at most 10 MB, and Base64 adds a third.
const MAX_INLINE_BYTES: u64 = 7_000_000;

/// Parses `SOURCE[:/TARGET]`.
pub(super) fn input(text: &str) -> Result<InputSourceSubmission> {
    let (source, target) = split_target(text);
    let target = Some(target.unwrap_or(DEFAULT_TARGET).to_owned());
    Ok(InputSourceSubmission { source: Some(source_of(source)?), target, alias: None })
}

/// Parses the module of a WebAssembly task; a bare path is a local file.
pub(super) fn module(text: &str) -> Result<Value> {
    let source = match source_of(text) {
        Ok(source) => source,
        Err(_) if !text.contains("://") => inline_file(text)?,
        Err(error) => return Err(error),
    };
    Ok(json!({ "Source": source }))
}

/// Splits at the last `:/` that does not begin `://`.
fn split_target(text: &str) -> (&str, Option<&str>) {
    match text.rfind(":/").filter(|at| !text[*at..].starts_with("://")) {
        Some(at) if at > 0 => (&text[..at], Some(&text[at + 1..])),
        _ => (text, None),
    }
}

fn source_of(text: &str) -> Result<TypedSubmission> {
    if let Some(path) = text.strip_prefix('@') {
        return inline_file(path);
    }
    if text.starts_with("data:") {
        return Ok(typed("inline", [("URL", text)]));
    }
    let (scheme, rest) = text.split_once("://").ok_or_else(|| unknown(text))?;
    match scheme {
        "http" | "https" => Ok(typed("urldownload", [("URL", text)])),
        "ipfs" => Ok(typed("ipfs", [("CID", rest)])),
        "file" => Ok(typed("localdirectory", [("SourcePath", rest)])),
        "s3" => {
            let (bucket, key) = bucket_and_key(text, rest)?;
            Ok(typed("s3", [("Bucket", bucket), ("Key", key)]))
        }
        "git+https" | "git+http" | "git+file" => Ok(repository("repoclone", &text[4..])),
        "git-lfs+https" | "git-lfs+http" | "git-lfs+file" => {
            Ok(repository("repoclonelfs", &text[8..]))
        }
        _ => Err(unknown(text)),
    }
}

/// Splits the bucket and the key after `s3://`.
pub(super) fn bucket_and_key<'a>(text: &str, rest: &'a str) -> Result<(&'a str, &'a str)> {
    rest.split_once('/')
        .filter(|(bucket, key)| !bucket.is_empty() && !key.is_empty())
        .ok_or_else(|| UsageError::new(format!("'{text}' is not s3://BUCKET/KEY")).into())
}

fn repository(kind: &str, url: &str) -> TypedSubmission {
    match url.split_once('#') {
        Some((repo, reference)) => typed(kind, [("Repo", repo), ("Ref", reference)]),
        None => typed(kind, [("Repo", url)]),
    }
}

/// Encodes a local file as a data URL.
fn inline_file(path: &str) -> Result<TypedSubmission> {
    let read = || -> Result<String> {
        let length = std::fs::metadata(path).map_err(usage)?;
        if length.is_dir() {
            return Err(UsageError::new("is a directory")
                .with_hint("pack it as .tar.gz, which the node unpacks")
                .into());
        }
        if length.len() > MAX_INLINE_BYTES {
            return Err(UsageError::new(format!("larger than {MAX_INLINE_BYTES} bytes"))
                .with_hint("store it where nodes can fetch it, such as s3:// or https://")
                .into());
        }
        let media_type = match Path::new(path).extension().and_then(|found| found.to_str()) {
            Some("wasm") => "application/wasm",
            Some("gz" | "tgz") => "application/gzip",
            _ => "application/octet-stream",
        };
        let bytes = std::fs::read(path).map_err(usage)?;
        Ok(format!("data:{media_type};base64,{}", STANDARD.encode(bytes)))
    };
    let url = read().with_context(|| format!("send the file {path}"))?;
    Ok(typed("inline", [("URL", url.as_str())]))
}

fn usage(error: std::io::Error) -> anyhow::Error {
    UsageError::new(error.to_string()).into()
}

fn typed<const N: usize>(kind: &str, params: [(&str, &str); N]) -> TypedSubmission {
    let params: Map<String, Value> =
        params.iter().map(|(key, value)| ((*key).to_owned(), Value::from(*value))).collect();
    TypedSubmission { kind: Some(kind.to_owned()), params: Some(params) }
}

fn unknown(text: &str) -> anyhow::Error {
    // `-it` is read as `-i t`.
    if let Some(answer) = of_argument(&format!("-i{text}")) {
        return UsageError::new(format!("'{text}' is not an input source"))
            .with_hint(answer)
            .into();
    }
    UsageError::new(format!("'{text}' is not an input source"))
        .with_hint(
            "known: s3://, https://, git+https://, git-lfs+https://, ipfs://, file:// (a directory \
             on the node), data:, @FILE (a local file)",
        )
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (String, Value, String) {
        let input = input(text).unwrap();
        let source = input.source.unwrap();
        (source.kind.unwrap(), Value::Object(source.params.unwrap()), input.target.unwrap())
    }

    #[test]
    fn the_scheme_determines_the_source() {
        for (text, kind, params, target) in [
            ("s3://b/k/l:/in", "s3", json!({ "Bucket": "b", "Key": "k/l" }), "/in"),
            ("s3://b/k/", "s3", json!({ "Bucket": "b", "Key": "k/" }), "/inputs"),
            ("https://h:8/p", "urldownload", json!({ "URL": "https://h:8/p" }), "/inputs"),
            ("https://h:8/p:/a/b", "urldownload", json!({ "URL": "https://h:8/p" }), "/a/b"),
            ("ipfs://Qm", "ipfs", json!({ "CID": "Qm" }), "/inputs"),
            ("file:///data:/in", "localdirectory", json!({ "SourcePath": "/data" }), "/in"),
            (
                "git+https://h/r.git#v1:/src",
                "repoclone",
                json!({ "Repo": "https://h/r.git", "Ref": "v1" }),
                "/src",
            ),
            ("git-lfs+https://h/r", "repoclonelfs", json!({ "Repo": "https://h/r" }), "/inputs"),
            ("data:,hello:/in/x", "inline", json!({ "URL": "data:,hello" }), "/in/x"),
        ] {
            assert_eq!(read(text), (kind.to_owned(), params, target.to_owned()), "{text}");
        }
    }

    #[test]
    fn a_local_file_is_sent_inline() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.txt");
        std::fs::write(&path, "hello").unwrap();
        let (kind, params, target) = read(&format!("@{}:/inputs/x.txt", path.display()));
        assert_eq!((kind.as_str(), target.as_str()), ("inline", "/inputs/x.txt"));
        let url = json!({ "URL": "data:application/octet-stream;base64,aGVsbG8=" });
        assert_eq!(params, url);
        assert_eq!(module(&path.display().to_string()).unwrap()["Source"]["Params"], url);
        assert!(input(&format!("@{}", directory.path().display())).is_err());
    }

    #[test]
    fn an_unknown_source_is_refused() {
        for text in ["", "/data", "./data:/in", "ftp://h/x", "s3://bucket", ":/in"] {
            assert!(input(text).unwrap_err().is::<UsageError>(), "{text}");
        }
    }
}
