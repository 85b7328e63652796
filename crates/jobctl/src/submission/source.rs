//! Inputs as URLs on the command line.

use std::path::Path;

use anyhow::{Context, Result};
use api_types::MAX_BODY_BYTES;
use api_types::quantity::Bytes;
use api_types::source::ResultIndex;
use api_types::submission::{InputSourceSubmission, JobSubmission, TypedSubmission};
use api_types::text::is_control;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::pack::{self, Packed};
use crate::exit::UsageError;
use crate::habits::of_argument;
use crate::output::note;

/// Target of an input that specifies none: a file is in this directory, a directory is this one.
const DEFAULT_TARGET: &str = "/inputs/";

/// The most bytes that are sent inline: a job has at most 10 MB, and Base64 adds a third.
const MAX_INLINE_BYTES: u32 = 7_000_000;

/// Entries of a directory that are named as left out.
const NAMED: usize = 10;

/// Parses `SOURCE[:/TARGET]`.
pub(super) fn input(text: &str) -> Result<InputSourceSubmission> {
    let (source, target) = split_target(text);
    let target = Some(target.unwrap_or(DEFAULT_TARGET).to_owned());
    let alias = source.strip_prefix('@').and_then(file_name);
    Ok(InputSourceSubmission { source: Some(source_of(source)?), target, alias })
}

/// The name that a local file keeps in a directory, unless the service would refuse it.
fn file_name(path: &str) -> Option<String> {
    let path = Path::new(path);
    let name = path.file_name().filter(|_| !path.is_dir())?.to_str()?;
    (!name.chars().any(is_control)).then(|| name.to_owned())
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
        return if Path::new(path).is_dir() { inline_directory(path) } else { inline_file(path) };
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
        "job" => results_of(text, rest),
        "git+https" | "git+http" | "git+file" => Ok(repository("repoclone", &text[4..])),
        "git-lfs+https" | "git-lfs+http" | "git-lfs+file" => {
            Ok(repository("repoclonelfs", &text[8..]))
        }
        _ => Err(unknown(text)),
    }
}

/// Parses `JOB[/PATH][#INDEX]`; the name of the job is replaced by its ID later.
fn results_of(text: &str, rest: &str) -> Result<TypedSubmission> {
    let refused = |reason: &str| UsageError::new(format!("'{text}' {reason}"));
    let (rest, index) = rest.split_once('#').unwrap_or((rest, ""));
    let (job, path) = rest.split_once('/').unwrap_or((rest, ""));
    if job.is_empty() {
        return Err(refused("is not job://JOB[/PATH][#INDEX]").into());
    }
    let mut source = typed("job", [("Job", job)]);
    let params = source.params.get_or_insert_default();
    if !path.is_empty() {
        params.insert("Path".to_owned(), path.into());
    }
    if !index.is_empty() {
        let number = index.parse::<u32>().map(Value::from);
        let index = number.unwrap_or_else(|_| index.into());
        let read = ResultIndex::read(&index);
        read.ok_or_else(|| refused("names no index: a number, or 'Same', follows the '#'"))?;
        params.insert("Index".to_owned(), index);
    }
    Ok(source)
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
        let found = std::fs::metadata(path).map_err(usage)?;
        if found.is_dir() {
            return Err(UsageError::new("is a directory").into());
        }
        if found.len() > MAX_INLINE_BYTES.into() {
            let reason = format!("has {} bytes, more than {MAX_INLINE_BYTES}", found.len());
            return Err(UsageError::new(reason)
                .with_hint("store it where nodes can fetch it, such as s3:// or https://")
                .into());
        }
        let media_type = match Path::new(path).extension().and_then(|found| found.to_str()) {
            Some("wasm") => "application/wasm",
            Some("gz" | "tgz") => ARCHIVE,
            _ => "application/octet-stream",
        };
        let bytes = std::fs::read(path).map_err(usage)?;
        Ok(data_url(media_type, &bytes))
    };
    let url = read().with_context(|| format!("send the file {path}"))?;
    Ok(typed("inline", [("URL", url.as_str())]))
}

/// Packs a local directory into a data URL, and says what is left out.
fn inline_directory(path: &str) -> Result<TypedSubmission> {
    let Packed { archive, left_out } = pack::directory(Path::new(path), MAX_INLINE_BYTES as usize)
        .with_context(|| format!("send the directory {path}"))?;
    for entry in left_out.iter().take(NAMED) {
        note(&format!("left out of {path}: {entry}"));
    }
    if left_out.len() > NAMED {
        note(&format!("left out of {path}: {} more", left_out.len() - NAMED));
    }
    Ok(typed("inline", [("URL", data_url(ARCHIVE, &archive).as_str())]))
}

/// The content type of what nodes unpack if it is a tar.
const ARCHIVE: &str = "application/gzip";

fn data_url(media_type: &str, bytes: &[u8]) -> String {
    format!("data:{media_type};base64,{}", STANDARD.encode(bytes))
}

/// Refuses a body that the service would refuse, with what each local input takes of it.
pub(crate) fn check_size(body: &[u8], job: &JobSubmission, arguments: &[String]) -> Result<()> {
    if body.len() <= MAX_BODY_BYTES {
        return Ok(());
    }
    let task = job.tasks.iter().flatten().next();
    let inputs = task.and_then(|task| task.input_sources.as_ref()).into_iter().flatten();
    let local = inputs.zip(arguments).filter(|(_, argument)| argument.starts_with('@'));
    let sizes: Vec<_> = local
        .map(|(input, argument)| {
            let params = input.source.as_ref().and_then(|source| source.params.as_ref());
            let url = params.and_then(|params| params.get("URL")).and_then(Value::as_str);
            format!("{argument} {}", Bytes(url.map_or(0, str::len) as u64))
        })
        .collect();
    let (size, limit) = (Bytes(body.len() as u64), Bytes(MAX_BODY_BYTES as u64));
    let with =
        if sizes.is_empty() { String::new() } else { format!(", with {}", sizes.join(", ")) };
    Err(UsageError::new(format!("the job has {size} as it is sent{with}; it may have {limit}"))
        .with_hint("store the largest where nodes can fetch it, such as s3:// or https://")
        .into())
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
            "known: s3://, https://, git+https://, git-lfs+https://, ipfs://, job://, file:// (a \
             directory on the node), data:, @PATH (a local file or directory)",
        )
        .into()
}

#[cfg(test)]
mod tests {
    use api_types::submission::TaskSubmission;

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
            ("s3://b/k/", "s3", json!({ "Bucket": "b", "Key": "k/" }), "/inputs/"),
            ("https://h:8/p", "urldownload", json!({ "URL": "https://h:8/p" }), "/inputs/"),
            ("https://h:8/p:/a/b", "urldownload", json!({ "URL": "https://h:8/p" }), "/a/b"),
            ("ipfs://Qm", "ipfs", json!({ "CID": "Qm" }), "/inputs/"),
            ("file:///data:/in", "localdirectory", json!({ "SourcePath": "/data" }), "/in"),
            (
                "git+https://h/r.git#v1:/src",
                "repoclone",
                json!({ "Repo": "https://h/r.git", "Ref": "v1" }),
                "/src",
            ),
            ("git-lfs+https://h/r", "repoclonelfs", json!({ "Repo": "https://h/r" }), "/inputs/"),
            ("job://build", "job", json!({ "Job": "build" }), "/inputs/"),
            (
                "job://build/outputs/a#3:/in",
                "job",
                json!({ "Job": "build", "Path": "outputs/a", "Index": 3 }),
                "/in",
            ),
            ("job://build#Same:/in", "job", json!({ "Job": "build", "Index": "Same" }), "/in"),
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
    }

    #[test]
    fn a_local_file_keeps_its_name_in_a_directory() {
        let directory = tempfile::tempdir().unwrap();
        for (name, alias) in [("x.txt", Some("x.txt")), ("line\nbreak", None)] {
            let path = directory.path().join(name);
            std::fs::write(&path, "hello").unwrap();
            let sent = input(&format!("@{}", path.display())).unwrap();
            assert_eq!((sent.target.as_deref(), sent.alias.as_deref()), (Some("/inputs/"), alias));
        }
        assert_eq!(input("https://h/x").unwrap().alias, None);
    }

    #[test]
    fn a_local_directory_is_sent_as_an_archive() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("x"), "hello").unwrap();
        let sent = input(&format!("@{}:/data", directory.path().display())).unwrap();
        assert_eq!((sent.target.as_deref(), sent.alias), (Some("/data"), None));
        let source = sent.source.unwrap();
        let url = source.params.unwrap()["URL"].as_str().unwrap().to_owned();
        assert!(url.starts_with("data:application/gzip;base64,"), "{url}");
        assert_eq!(source.kind.as_deref(), Some("inline"));
    }

    #[test]
    fn a_job_that_is_too_large_is_refused_with_the_size_of_each_local_input() {
        let directory = tempfile::tempdir().unwrap();
        let arguments: Vec<_> = ["a", "b"]
            .map(|name| {
                let path = directory.path().join(name);
                std::fs::write(&path, vec![0; 5_000_000]).unwrap();
                format!("@{}", path.display())
            })
            .into();
        let inputs = arguments.iter().map(|argument| input(argument).unwrap()).collect();
        let task = TaskSubmission { input_sources: Some(inputs), ..TaskSubmission::default() };
        let job = JobSubmission { tasks: Some(vec![task]), ..JobSubmission::default() };
        let body = serde_json::to_vec(&job).unwrap();
        let refused = check_size(&body, &job, &arguments).unwrap_err().to_string();
        let [a, b] = [&arguments[0], &arguments[1]];
        let sizes = format!("with {a} 6.6 MB, {b} 6.6 MB; it may have 10 MB");
        assert!(
            refused.starts_with("the job has 13.3 MB") && refused.ends_with(&sizes),
            "{refused}"
        );
        check_size(&body[..MAX_BODY_BYTES], &job, &arguments).unwrap();
        std::fs::write(directory.path().join("a"), vec![0; 7_000_001]).unwrap();
        let refused = format!("{:#}", input(&arguments[0]).unwrap_err());
        assert!(refused.ends_with(": has 7000001 bytes, more than 7000000"), "{refused}");
    }

    #[test]
    fn an_unknown_source_is_refused() {
        for text in
            ["", "/data", "./data:/in", "ftp://h/x", "s3://bucket", ":/in", "job:///x", "job://a#x"]
        {
            assert!(input(text).unwrap_err().is::<UsageError>(), "{text}");
        }
    }
}
