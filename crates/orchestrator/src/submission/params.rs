//! What the `Params` of engines, publishers and sources may contain.
//!
//! Keys of `Params` are map keys and match exactly. Each type has a table of its fields; a field
//! outside the table is ignored with a warning, `null` means absent.

mod results;
mod tables;
#[cfg(test)]
mod tests;
mod urls;

use std::borrow::Cow;

use api_types::JobId;
use api_types::engine::{EngineType, Params, PublisherType, PullPolicy};
use api_types::image::ImageReference;
use api_types::source::SourceType;
use serde_json::{Map, Value};

use self::tables::{
    DOCKER, JOB, LOCAL_DIRECTORY, NOOP, REPOSITORY, S3_PUBLISHER, S3_SOURCE, URL_DOWNLOAD, WASM,
};
use super::findings::Findings;
use super::paths::Use;
use crate::names;
use results::{check_index, check_result_path};
use urls::{check_data_url, check_http_url, check_repository_url};

/// Elements of one list in `Params`.
const MAX_ELEMENTS: usize = 4096;

/// The fields of a type.
type Table = &'static [Field];

pub(super) struct Field {
    name: &'static str,
    required: Required,
    shape: Shape,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Required {
    Yes,
    No,
}

/// The type of a field.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    Text,
    Flag,
    /// A whole number from the first to the second.
    Number(u32, u32),
    TextList,
    TextMap,
    /// A list of `KEY=VALUE`.
    Variables,
    AbsolutePath,
    /// Of a container.
    WorkingDirectory,
    /// A reference to a container image.
    Image,
    DataUrl,
    HttpUrl,
    /// `https`, `http` or `file`.
    RepositoryUrl,
    /// As the agents read it.
    Regex,
    PullPolicy,
    /// Of credentials of the job's namespace.
    Name,
    JobId,
    /// Inside published results.
    ResultPath,
    /// Of results.
    Index,
    /// One element of `InputSources`.
    Source,
    SourceList,
}

const fn required(name: &'static str, shape: Shape) -> Field {
    Field { name, required: Required::Yes, shape }
}

const fn optional(name: &'static str, shape: Shape) -> Field {
    Field { name, required: Required::No, shape }
}

pub(super) fn of_engine(engine: EngineType) -> Table {
    match engine {
        EngineType::Docker => DOCKER,
        EngineType::Wasm => WASM,
        EngineType::Noop => NOOP,
    }
}

pub(super) fn of_publisher(publisher: PublisherType) -> Table {
    match publisher {
        PublisherType::S3 => S3_PUBLISHER,
        PublisherType::None | PublisherType::Noop | PublisherType::Local | PublisherType::Ipfs => {
            &[]
        }
    }
}

pub(super) fn of_source(source: SourceType) -> Table {
    match source {
        SourceType::Inline => const { &[required("URL", Shape::DataUrl)] },
        SourceType::UrlDownload => URL_DOWNLOAD,
        SourceType::LocalDirectory => LOCAL_DIRECTORY,
        SourceType::S3 => S3_SOURCE,
        SourceType::RepoClone | SourceType::RepoCloneLfs => REPOSITORY,
        SourceType::Ipfs => const { &[required("CID", Shape::Text)] },
        SourceType::Job => JOB,
    }
}

pub(super) fn known_sources() -> String {
    SourceType::ALL.iter().map(|source| source.as_str()).collect::<Vec<_>>().join(", ")
}

/// Checks `Params` and returns the known fields.
pub(super) fn check(
    mut params: Params,
    table: Table,
    path: &str,
    findings: &mut Findings,
) -> Params {
    let mut known = Params::new();
    for field in table {
        let value = params.remove(field.name).filter(|value| !value.is_null());
        let missing = match (&value, field.shape) {
            (None, _) => true,
            (Some(Value::String(text)), _) => text.trim().is_empty(),
            (Some(_), _) => false,
        };
        if missing && field.required == Required::Yes {
            let other = params.keys().find(|key| key.eq_ignore_ascii_case(field.name));
            let reason = other.map_or_else(
                || "is required".to_owned(),
                |key| format!("is required, and '{key}' is another key: Params match exactly"),
            );
            findings.refuse(format!("{path}.{}", field.name), reason);
            continue;
        }
        let Some(value) = value.filter(|_| !missing) else { continue };
        let place = format!("{path}.{}", field.name);
        if let Some(value) = field.shape.check(value, &place, findings) {
            known.insert(field.name.to_owned(), value);
        }
    }
    for key in params.keys() {
        findings.warn(format!("{path}.{key} is not a known field and was ignored"));
    }
    known
}

// === impl Shape ===

impl Shape {
    fn check(self, value: Value, path: &str, findings: &mut Findings) -> Option<Value> {
        let (expected, accepts) = self.kind();
        if !accepts(&value) {
            refuse_type(findings, path, expected, &value);
            return None;
        }
        let text = value.as_str().unwrap_or_default();
        match self {
            Self::Text | Self::Flag => {}
            Self::Number(least, most) => {
                let range = u64::from(least)..=u64::from(most);
                if !value.as_u64().is_some_and(|number| range.contains(&number)) {
                    let range = format!("between {least} and {most}");
                    findings.refuse(path, format!("must be a whole number {range}, got {value}"));
                }
            }
            Self::AbsolutePath => findings.check_path(path, text),
            Self::WorkingDirectory => {
                let engine = Some(EngineType::Docker);
                findings.check_task_path(path, text, Use::WorkingDirectory, engine);
            }
            Self::Image => drop(findings.take(path, ImageReference::parse(text))?),
            Self::DataUrl => check_data_url(text, path, findings),
            Self::HttpUrl => check_http_url(text, path, findings),
            Self::RepositoryUrl => check_repository_url(text, path, findings),
            Self::Regex => findings.note_regex(text, path),
            Self::Name => {
                if !names::is_name(text) {
                    findings.refuse(path, names::RULE);
                }
            }
            Self::JobId => {
                return Some(findings.take::<JobId, _>(path, text.parse())?.to_string().into());
            }
            Self::ResultPath => return check_result_path(text, path, findings),
            Self::Index => return check_index(&value, path, findings),
            Self::PullPolicy => {
                let policy: PullPolicy = findings.take(path, text.parse())?;
                return Some(policy.as_str().into());
            }
            Self::TextList | Self::Variables | Self::SourceList => {
                return self.check_list(value, path, findings);
            }
            Self::TextMap => {
                let map = value.as_object().into_iter().flatten();
                for (key, value) in map.filter(|(_, value)| !value.is_string()) {
                    refuse_type(findings, &format!("{path}.{key}"), "a string", value);
                }
            }
            Self::Source => return check_source(value, path, findings),
        }
        Some(value)
    }

    fn check_list(self, value: Value, path: &str, findings: &mut Findings) -> Option<Value> {
        let elements = value.as_array()?;
        if elements.len() > MAX_ELEMENTS {
            findings.refuse(path, format!("must not have more than {MAX_ELEMENTS} elements"));
            return None;
        }
        if matches!(self, Self::SourceList) {
            return check_sources(value, path, findings);
        }
        for (index, element) in elements.iter().enumerate() {
            self.check_element(element, &format!("{path}[{index}]"), findings);
        }
        Some(value)
    }

    fn check_element(self, element: &Value, path: &str, findings: &mut Findings) {
        let Value::String(text) = element else {
            refuse_type(findings, path, "a string", element);
            return;
        };
        if self == Self::Variables && text.split_once('=').is_none_or(|(key, _)| key.is_empty()) {
            findings.refuse(path, format!("must be KEY=VALUE, got '{text}'"));
        }
    }

    /// The type of its values, in words and as a test.
    fn kind(self) -> (&'static str, fn(&Value) -> bool) {
        match self {
            Self::Text
            | Self::AbsolutePath
            | Self::WorkingDirectory
            | Self::Image
            | Self::DataUrl
            | Self::HttpUrl
            | Self::RepositoryUrl
            | Self::Regex
            | Self::PullPolicy
            | Self::Name
            | Self::JobId
            | Self::ResultPath => ("a string", Value::is_string),
            Self::Index => ("a number or 'Same'", |value| value.is_string() || value.is_number()),
            Self::Flag => ("true or false", Value::is_boolean),
            Self::Number(..) => ("a whole number", Value::is_number),
            Self::TextList | Self::Variables => ("an array of strings", Value::is_array),
            Self::TextMap => ("an object of strings", Value::is_object),
            Self::Source => ("an input source", Value::is_object),
            Self::SourceList => ("an array of input sources", Value::is_array),
        }
    }
}

fn refuse_type(findings: &mut Findings, path: &str, expected: &str, value: &Value) {
    let found: Cow<'static, str> = match value {
        Value::Null => "null".into(),
        Value::Bool(value) => value.to_string().into(),
        Value::Number(number) => format!("the number {number}").into(),
        Value::String(_) => "a string".into(),
        Value::Array(_) => "an array".into(),
        Value::Object(_) => "an object".into(),
    };
    findings.refuse(path, format!("expected {expected}, got {found}"));
}

/// A module of a WebAssembly program is an input source without a target.
fn check_source(value: Value, path: &str, findings: &mut Findings) -> Option<Value> {
    let Value::Object(mut element) = value else { return None };
    let Some(Value::Object(mut source)) = element.remove("Source") else {
        findings.refuse(format!("{path}.Source"), "is required: an object with Type and Params");
        return None;
    };
    let place = format!("{path}.Source.Type");
    let source_type: SourceType = match source.remove("Type") {
        Some(Value::String(word)) => findings.take(&place, word.parse())?,
        _ => {
            findings.refuse(place, format!("is required; known: {}", known_sources()));
            return None;
        }
    };
    if source_type == SourceType::Job {
        findings.refuse(place, "a module cannot be the results of a job");
        return None;
    }
    let place = format!("{path}.Source.Params");
    let params = match source.remove("Params") {
        Some(Value::Object(params)) => params,
        None | Some(Value::Null) => Params::new(),
        Some(other) => {
            refuse_type(findings, &place, "an object", &other);
            return None;
        }
    };
    let params = check(params, of_source(source_type), &place, findings);
    let mut checked = Map::new();
    checked.insert("Type".to_owned(), source_type.as_str().into());
    checked.insert("Params".to_owned(), params.into());
    let mut known = Map::new();
    known.insert("Source".to_owned(), checked.into());
    for name in ["Target", "Alias"] {
        match element.remove(name) {
            None | Some(Value::Null) => {}
            Some(text @ Value::String(_)) => drop(known.insert(name.to_owned(), text)),
            Some(other) => refuse_type(findings, &format!("{path}.{name}"), "a string", &other),
        }
    }
    for key in element.keys() {
        findings.warn(format!("{path}.{key} is not a known field and was ignored"));
    }
    Some(known.into())
}

fn check_sources(value: Value, path: &str, findings: &mut Findings) -> Option<Value> {
    let Value::Array(elements) = value else { return None };
    let mut checked = Vec::with_capacity(elements.len());
    for (index, element) in elements.into_iter().enumerate() {
        checked.extend(Shape::Source.check(element, &format!("{path}[{index}]"), findings));
    }
    Some(checked.into())
}
