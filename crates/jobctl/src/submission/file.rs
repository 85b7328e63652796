//! Job files: JSON or YAML, bare or wrapped in `{"Job": …}`.
//!
//! This module checks only the syntax: the service validates jobs and reports all mistakes with
//! their paths. JSON is sent unchanged, so that positions in error messages match the file; YAML is
//! converted to JSON.

use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result};
use api_types::MAX_BODY_BYTES;
use bytes::Bytes;
use serde_json::Value;

use crate::exit::UsageError;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Language {
    Json,
    Yaml,
}

/// Reads the file, or standard input for `-`, as the body of Create Job.
pub(crate) fn read(file: &str) -> Result<Bytes> {
    let text = text_in(file, "job")?;
    body(&text, language(file, &text)).with_context(|| format!("read the job {file}"))
}

/// The same for a graph, the body of Create Graph.
pub(crate) fn read_graph(file: &str) -> Result<Bytes> {
    let text = text_in(file, "graph")?;
    if language(file, &text) == Language::Json {
        return Ok(text.into());
    }
    let value = from_yaml(&text, "graph").with_context(|| format!("read the graph {file}"))?;
    Ok(serde_json::to_vec(&value).context("write JSON")?.into())
}

/// What is in the file, or on standard input for `-`.
fn text_in(file: &str, what: &str) -> Result<String> {
    if file == "-" {
        let text = text_of(std::io::stdin().lock());
        return text.with_context(|| format!("read the {what} from standard input"));
    }
    std::fs::File::open(file)
        .map_err(|error| UsageError::new(error.to_string()).into())
        .and_then(text_of)
        .with_context(|| format!("read the {what} {file}"))
}

fn from_yaml(text: &str, what: &str) -> Result<Value> {
    let invalid = |error| UsageError::new(format!("invalid YAML: {error}"));
    let mut value: yaml_serde::Value = yaml_serde::from_str(text).map_err(invalid)?;
    value.apply_merge().map_err(invalid)?;
    let value = serde_json::to_value(&value);
    Ok(value.map_err(|error| UsageError::new(format!("not a {what}: {error}")))?)
}

/// Reads the changes of a job from the file, or from standard input for `-`.
pub(crate) fn read_patch(file: &str) -> Result<Value> {
    let read = || -> Result<Value> {
        let text = match file {
            "-" => text_of(std::io::stdin().lock())?,
            file => {
                let opened = std::fs::File::open(file);
                text_of(opened.map_err(|error| UsageError::new(error.to_string()))?)?
            }
        };
        // JSON is YAML.
        let patch: Value = yaml_serde::from_str(&text)
            .map_err(|error| UsageError::new(format!("invalid JSON or YAML: {error}")))?;
        match patch.is_object() {
            true => Ok(patch),
            false => Err(UsageError::new("a patch is an object with fields of a job").into()),
        }
    };
    read().with_context(|| format!("read the patch {file}"))
}

/// Begins files of some editors for Windows; it is no part of the text.
const BYTE_ORDER_MARK: char = '\u{feff}';

fn text_of(reader: impl Read) -> Result<String> {
    let mut text = String::new();
    // A longer file is not read to its end.
    reader
        .take(MAX_BODY_BYTES as u64 + 1)
        .read_to_string(&mut text)
        .map_err(|error| UsageError::new(error.to_string()))?;
    if text.len() > MAX_BODY_BYTES {
        return Err(UsageError::new(format!("longer than {MAX_BODY_BYTES} bytes"))
            .with_hint("pass large inputs by reference instead of inline")
            .into());
    }
    if text.starts_with(BYTE_ORDER_MARK) {
        text.remove(0);
    }
    Ok(text)
}

/// Chooses by file extension, or else by the first character.
fn language(file: &str, text: &str) -> Language {
    match Path::new(file).extension().and_then(|extension| extension.to_str()) {
        Some("json") => Language::Json,
        Some("yaml" | "yml") => Language::Yaml,
        _ if text.trim_start().starts_with('{') => Language::Json,
        _ => Language::Yaml,
    }
}

fn body(text: &str, language: Language) -> Result<Bytes> {
    if text.trim().is_empty() {
        return Err(UsageError::new("the job is empty").into());
    }
    match language {
        Language::Json => {
            let value: Value = serde_json::from_str(text)
                .map_err(|error| UsageError::new(format!("invalid JSON: {error}")))?;
            let wrapped = is_wrapped(&value)?;
            // On the same line, so that line numbers in error messages match the file.
            let text = if wrapped { text.to_owned() } else { format!("{{\"Job\":{text}}}") };
            Ok(text.into())
        }
        Language::Yaml => {
            let value = from_yaml(text, "job")?;
            let wrapped = is_wrapped(&value)?;
            let value = if wrapped { value } else { serde_json::json!({ "Job": value }) };
            Ok(serde_json::to_vec(&value).context("write JSON")?.into())
        }
    }
}

fn is_wrapped(value: &Value) -> Result<bool, UsageError> {
    match value {
        // Keys are case-insensitive, as for the service; a job itself has no field of this name.
        Value::Object(fields) => Ok(fields.keys().any(|key| key.eq_ignore_ascii_case("job"))),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            Err(UsageError::new("not a job: expected an object"))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parsed(text: &str, language: Language) -> Value {
        serde_json::from_slice(&body(text, language).unwrap()).unwrap()
    }

    #[test]
    fn a_byte_order_mark_is_no_part_of_the_job() {
        for text in ["{\"Type\": \"batch\"}", "Type: batch\n"] {
            let marked = format!("\u{feff}{text}");
            assert_eq!(text_of(marked.as_bytes()).unwrap(), text);
        }
    }

    #[test]
    fn a_job_may_be_bare_or_wrapped_in_either_language() {
        let expected = json!({ "Job": { "Type": "batch", "Count": 2 } });
        for (text, language) in [
            (r#"{"Type": "batch", "Count": 2}"#, Language::Json),
            (r#"{"Job": {"Type": "batch", "Count": 2}}"#, Language::Json),
            ("Type: batch\nCount: 2\n", Language::Yaml),
            ("Job:\n  Type: batch\n  Count: 2\n", Language::Yaml),
        ] {
            assert_eq!(parsed(text, language), expected, "{text}");
        }
        let lower = json!({ "job": { "Type": "batch" } });
        assert_eq!(parsed("job: {Type: batch}", Language::Yaml), lower);
    }

    #[test]
    fn json_is_sent_unchanged() {
        let text = "{\"Type\": \"batch\",\n \"Type\": \"ops\"}";
        assert_eq!(body(text, Language::Json).unwrap(), format!("{{\"Job\":{text}}}"));
    }

    #[test]
    fn yaml_may_use_anchors_and_merges() {
        let text = "Tasks:\n- &one {Name: a, Env: {X: '1'}}\n- <<: *one\n  Name: b\n";
        assert_eq!(
            parsed(text, Language::Yaml)["Job"]["Tasks"][1],
            json!({ "Name": "b", "Env": { "X": "1" } })
        );
    }

    #[test]
    fn an_invalid_file_is_refused_before_it_is_sent() {
        for (text, language, reason) in [
            ("", Language::Yaml, "the job is empty"),
            ("[1]", Language::Json, "not a job: expected an object"),
            ("just words", Language::Yaml, "not a job: expected an object"),
            ("{\"a\":", Language::Json, "invalid JSON: EOF while parsing"),
            ("a: b: c", Language::Yaml, "invalid YAML: "),
            ("a: 1\n---\na: 2\n", Language::Yaml, "invalid YAML: "),
        ] {
            let error = body(text, language).unwrap_err();
            assert!(error.is::<UsageError>());
            assert!(error.to_string().starts_with(reason), "{error}");
        }
    }

    #[test]
    fn the_extension_or_else_the_first_character_determines_the_language() {
        for (file, text, expected) in [
            ("a.json", "", Language::Json),
            ("a.yml", "{}", Language::Yaml),
            ("-", " {\"a\": 1}", Language::Json),
            ("-", "a: 1", Language::Yaml),
        ] {
            assert_eq!(language(file, text), expected, "{file}");
        }
    }
}
