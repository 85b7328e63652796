//! What the `Params` of engines, publishers and sources may contain.
//!
//! Keys of `Params` are map keys and match exactly. Each type has a table of its fields; a field
//! outside the table is ignored with a warning, `null` means absent.

mod urls;

use std::borrow::Cow;

use api_types::engine::{EngineType, Params, PublisherType, PullPolicy};
use api_types::image::ImageReference;
use api_types::source::SourceType;
use serde_json::{Map, Value};

use super::findings::Findings;
use super::paths::Use;
use crate::names;
use urls::{check_data_url, check_http_url, check_repository_url};

/// Elements of one list in `Params`.
const MAX_ELEMENTS: usize = 4096;

/// The fields of a type.
pub(super) enum Table {
    Fields(&'static [Field]),
    /// For the engine of tests and benchmarks, which accepts anything.
    Anything,
}

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

const DOCKER: &[Field] = &[
    required("Image", Shape::Image),
    optional("Entrypoint", Shape::TextList),
    optional("Parameters", Shape::TextList),
    optional("EnvironmentVariables", Shape::Variables),
    optional("WorkingDirectory", Shape::WorkingDirectory),
    optional("PullPolicy", Shape::PullPolicy),
    optional("Credentials", Shape::Name),
];

const WASM: &[Field] = &[
    required("EntryModule", Shape::Source),
    optional("EntryPoint", Shape::Text),
    optional("Parameters", Shape::TextList),
    optional("EnvironmentVariables", Shape::TextMap),
    optional("ImportModules", Shape::SourceList),
];

const S3_SOURCE: &[Field] = &[
    required("Bucket", Shape::Text),
    required("Key", Shape::Text),
    optional("Region", Shape::Text),
    optional("Endpoint", Shape::HttpUrl),
    optional("VersionID", Shape::Text),
    optional("ChecksumSHA256", Shape::Text),
    optional("Filter", Shape::Regex),
    optional("Credentials", Shape::Name),
];

const S3_PUBLISHER: &[Field] = &[
    required("Bucket", Shape::Text),
    required("Key", Shape::Text),
    optional("Region", Shape::Text),
    optional("Endpoint", Shape::HttpUrl),
    optional("Credentials", Shape::Name),
];

const URL_DOWNLOAD: &[Field] =
    &[required("URL", Shape::HttpUrl), optional("Credentials", Shape::Name)];

const REPOSITORY: &[Field] = &[
    required("Repo", Shape::RepositoryUrl),
    optional("Ref", Shape::Text),
    optional("Credentials", Shape::Name),
];

const LOCAL_DIRECTORY: &[Field] =
    &[required("SourcePath", Shape::AbsolutePath), optional("ReadWrite", Shape::Flag)];

pub(super) fn of_engine(engine: EngineType) -> Table {
    match engine {
        EngineType::Docker => Table::Fields(DOCKER),
        EngineType::Wasm => Table::Fields(WASM),
        EngineType::Noop => Table::Anything,
    }
}

pub(super) fn of_publisher(publisher: PublisherType) -> Table {
    match publisher {
        PublisherType::S3 => Table::Fields(S3_PUBLISHER),
        PublisherType::None | PublisherType::Noop | PublisherType::Local | PublisherType::Ipfs => {
            Table::Fields(&[])
        }
    }
}

pub(super) fn of_source(source: SourceType) -> Table {
    Table::Fields(match source {
        SourceType::Inline => const { &[required("URL", Shape::DataUrl)] },
        SourceType::UrlDownload => URL_DOWNLOAD,
        SourceType::LocalDirectory => LOCAL_DIRECTORY,
        SourceType::S3 => S3_SOURCE,
        SourceType::RepoClone | SourceType::RepoCloneLfs => REPOSITORY,
        SourceType::Ipfs => const { &[required("CID", Shape::Text)] },
    })
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
    let Table::Fields(fields) = table else { return params };
    let mut known = Params::new();
    for field in fields {
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
        match (self, &value) {
            (Self::Text, Value::String(_)) | (Self::Flag, Value::Bool(_)) => {}
            (Self::AbsolutePath, Value::String(text)) => findings.check_path(path, text),
            (Self::WorkingDirectory, Value::String(text)) => {
                let engine = Some(EngineType::Docker);
                findings.check_task_path(path, text, Use::WorkingDirectory, engine);
            }
            (Self::Image, Value::String(text)) => {
                findings.take(path, ImageReference::parse(text))?;
            }
            (Self::DataUrl, Value::String(text)) => check_data_url(text, path, findings),
            (Self::HttpUrl, Value::String(text)) => check_http_url(text, path, findings),
            (Self::RepositoryUrl, Value::String(text)) => {
                check_repository_url(text, path, findings);
            }
            (Self::Regex, Value::String(text)) => findings.note_regex(text, path),
            (Self::Name, Value::String(text)) => {
                if !names::is_name(text) {
                    findings.refuse(path, names::RULE);
                }
            }
            (Self::PullPolicy, Value::String(text)) => {
                let policy: PullPolicy = findings.take(path, text.parse())?;
                return Some(policy.as_str().into());
            }
            (Self::TextList | Self::Variables | Self::SourceList, Value::Array(elements))
                if elements.len() > MAX_ELEMENTS =>
            {
                findings.refuse(path, format!("must not have more than {MAX_ELEMENTS} elements"));
                return None;
            }
            (Self::TextList | Self::Variables, Value::Array(elements)) => {
                for (index, element) in elements.iter().enumerate() {
                    self.check_element(element, &format!("{path}[{index}]"), findings);
                }
            }
            (Self::TextMap, Value::Object(map)) => {
                for (key, value) in map.iter().filter(|(_, value)| !value.is_string()) {
                    refuse_type(findings, &format!("{path}.{key}"), "a string", value);
                }
            }
            (Self::Source, Value::Object(_)) => return check_source(value, path, findings),
            (Self::SourceList, Value::Array(_)) => return check_sources(value, path, findings),
            (
                Self::Text
                | Self::Flag
                | Self::TextList
                | Self::TextMap
                | Self::Variables
                | Self::AbsolutePath
                | Self::WorkingDirectory
                | Self::Image
                | Self::DataUrl
                | Self::HttpUrl
                | Self::RepositoryUrl
                | Self::Regex
                | Self::PullPolicy
                | Self::Name
                | Self::Source
                | Self::SourceList,
                value,
            ) => {
                refuse_type(findings, path, self.expected(), value);
                return None;
            }
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

    const fn expected(self) -> &'static str {
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
            | Self::Name => "a string",
            Self::Flag => "true or false",
            Self::TextList | Self::Variables => "an array of strings",
            Self::TextMap => "an object of strings",
            Self::Source => "an input source",
            Self::SourceList => "an array of input sources",
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use api_types::engine::{DockerParams, S3PublisherParams};
    use api_types::source::{
        InlineParams, IpfsParams, LocalDirectoryParams, RepositoryParams, S3SourceParams, UrlParams,
    };
    use serde::Serialize;

    use super::*;

    /// The agent can read everything that passes these checks, and vice versa.
    fn agree<T: Serialize + Default>(table: Table, _: T) {
        let Table::Fields(fields) = table else { panic!("a table without fields") };
        let checked: BTreeSet<_> = fields.iter().map(|field| field.name.to_owned()).collect();
        let read = serde_json::to_value(T::default()).unwrap();
        let read: BTreeSet<_> = read.as_object().unwrap().keys().cloned().collect();
        assert_eq!(checked, read);
    }

    #[test]
    fn the_tables_match_what_the_agents_read() {
        agree(of_engine(EngineType::Docker), DockerParams::default());
        agree(of_publisher(PublisherType::S3), S3PublisherParams::default());
        agree(of_source(SourceType::Inline), InlineParams::default());
        agree(of_source(SourceType::UrlDownload), UrlParams::default());
        agree(of_source(SourceType::LocalDirectory), LocalDirectoryParams::default());
        agree(of_source(SourceType::S3), S3SourceParams::default());
        agree(of_source(SourceType::RepoClone), RepositoryParams::default());
        agree(of_source(SourceType::RepoCloneLfs), RepositoryParams::default());
        agree(of_source(SourceType::Ipfs), IpfsParams::default());
    }
}
