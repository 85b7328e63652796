//! Where a task names credentials, and for which server.

use std::str::FromStr;

use super::kind::CredentialType;
use crate::engine::{EngineType, Params, PublisherType};
use crate::image::ImageReference;
use crate::job::Task;
use crate::source::{SourceSpec, SourceType};

/// The key of `Params` that names credentials.
pub const CREDENTIALS: &str = "Credentials";

/// Credentials that a task names, and for what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedCredential<'a> {
    /// Where in the task: `Engine.Params.Credentials`.
    pub path: String,
    pub name: &'a str,
    pub credential_type: CredentialType,
    pub server: Server<'a>,
}

/// Whom a task has its credentials shown to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Server<'a> {
    Url(&'a str),
    /// `host` or `host:port`; none where the image is only an ID, or its name is invalid.
    Registry(Option<String>),
    /// An empty endpoint is Amazon S3.
    Bucket {
        endpoint: &'a str,
        bucket: &'a str,
    },
}

// === impl Task ===

impl Task {
    /// The credentials that the task names, in its order.
    pub fn credentials(&self) -> Vec<NamedCredential<'_>> {
        let mut named = Vec::new();
        let params = &self.engine.params;
        match self.engine.engine_type {
            EngineType::Docker => {
                let image = ImageReference::parse(text(params, "Image")).ok();
                let server = || {
                    let registry = image.as_ref().and_then(ImageReference::registry);
                    Server::Registry(registry.map(str::to_owned))
                };
                let field = "Engine.Params".to_owned();
                add(&mut named, field, params, Some(CredentialType::Registry), server);
            }
            EngineType::Wasm => {
                let module =
                    params.get("EntryModule").map(|module| ("EntryModule".to_owned(), module));
                let imports = params.get("ImportModules").and_then(|list| list.as_array());
                let imports = imports.into_iter().flatten().enumerate();
                let imports =
                    imports.map(|(index, module)| (format!("ImportModules[{index}]"), module));
                for (field, module) in module.into_iter().chain(imports) {
                    add_module(&mut named, format!("Engine.Params.{field}.Source"), module);
                }
            }
            EngineType::Noop => {}
        }
        for (index, input) in self.input_sources.iter().enumerate() {
            let SourceSpec { source_type, params } = &input.source;
            add_source(&mut named, format!("InputSources[{index}].Source"), *source_type, params);
        }
        let params = &self.publisher.params;
        let kind = match self.publisher.publisher_type {
            PublisherType::S3 => Some(CredentialType::S3),
            PublisherType::None
            | PublisherType::Noop
            | PublisherType::Local
            | PublisherType::Ipfs => None,
        };
        add(&mut named, "Publisher.Params".to_owned(), params, kind, || bucket(params));
        named
    }
}

fn add_module<'a>(
    named: &mut Vec<NamedCredential<'a>>,
    field: String,
    module: &'a serde_json::Value,
) {
    let source = module.get("Source");
    let word = source.and_then(|source| source.get("Type")).and_then(|word| word.as_str());
    let params =
        source.and_then(|source| source.get("Params")).and_then(|params| params.as_object());
    if let (Some(Ok(kind)), Some(params)) = (word.map(SourceType::from_str), params) {
        add_source(named, field, kind, params);
    }
}

fn add_source<'a>(
    named: &mut Vec<NamedCredential<'a>>,
    field: String,
    source_type: SourceType,
    params: &'a Params,
) {
    let server = || match source_type {
        SourceType::S3 => bucket(params),
        SourceType::RepoClone | SourceType::RepoCloneLfs => Server::Url(text(params, "Repo")),
        SourceType::UrlDownload
        | SourceType::Inline
        | SourceType::LocalDirectory
        | SourceType::Ipfs
        | SourceType::Job => Server::Url(text(params, "URL")),
    };
    let kind = CredentialType::of_source(source_type);
    add(named, format!("{field}.Params"), params, kind, server);
}

fn add<'a>(
    named: &mut Vec<NamedCredential<'a>>,
    field: String,
    params: &'a Params,
    kind: Option<CredentialType>,
    server: impl FnOnce() -> Server<'a>,
) {
    let (Some(credential_type), name) = (kind, text(params, CREDENTIALS)) else { return };
    if !name.is_empty() {
        let path = format!("{field}.{CREDENTIALS}");
        named.push(NamedCredential { path, name, credential_type, server: server() });
    }
}

fn bucket(params: &Params) -> Server<'_> {
    Server::Bucket { endpoint: text(params, "Endpoint"), bucket: text(params, "Bucket") }
}

fn text<'a>(params: &'a Params, key: &str) -> &'a str {
    params.get(key).and_then(|value| value.as_str()).unwrap_or_default()
}
