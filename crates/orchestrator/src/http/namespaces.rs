//! Namespaces, and what their jobs may ask for.

use std::str::FromStr;
use std::sync::Arc;

use api_types::access::{DescribeNamespace, ListNamespaces, Namespace, Permissions, PutNamespace};
use api_types::engine::{EngineType, NetworkType, PublisherType, UnknownWord};
use api_types::error::FieldError;
use api_types::job::{Constraint, DEFAULT_NAMESPACE, JobSpec};
use api_types::node::OPERATOR_LABEL;
use api_types::selector::{Requirement, Selector};
use api_types::source::SourceType;
use api_types::{Code, Timestamp, routes};
use axum::extract::State;
use control_plane::records::{Expected, Record, RecordKey, RecordKind, RecordWrite};
use daemon::collect;
use daemon::http::Operations;
use serde::{Deserialize, Serialize};

use super::authenticate::Access;
use super::body::JsonBody;
use super::edge::json;
use super::error::Failure;
use super::openapi::{BODY, CALL, QUERY, READ, examples, params, refusals};
use super::query::Query;
use super::{Api, Handled, Parameter, namespaced};
use crate::access::token::{StoredToken, shown};
use crate::{clock, names};

/// The longest description, in characters.
const MAX_DESCRIPTION_CHARS: usize = 1024;

/// The longest selector of nodes: it becomes part of every job.
const MAX_SELECTOR_BYTES: usize = 1024;

/// A namespace as it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Stored {
    description: String,
    permissions: Permissions,
    #[serde(default)]
    nodes: String,
    create_time: Timestamp,
    modify_time: Timestamp,
}

pub(super) fn router() -> Operations<Arc<Api>> {
    Operations::default().merge(collect!(list)).merge(collect!(describe, put, delete))
}

/// List Namespaces
///
/// The namespaces that the caller sees, in order of their names.
#[utoipa::path(
    get,
    path = routes::NAMESPACES,
    operation_id = "listNamespaces",
    tag = "Access",
    responses((status = 200, description = "The namespaces.", body = ListNamespaces, example = json!(examples::list_namespaces()))),
    extensions(("x-error-codes" = json!(refusals(&[QUERY])))),
)]
async fn list(State(api): State<Arc<Api>>, access: Access, _: Query) -> Handled {
    let records = api.view.records().of_kind(RecordKind::Namespace);
    let mut namespaces: Vec<_> = records.iter().map(wire).collect();
    if namespaces.iter().all(|namespace| namespace.name != DEFAULT_NAMESPACE) {
        namespaces.push(unchanged_default());
    }
    namespaces.retain(|namespace| access.caller().sees(&namespace.name));
    namespaces.sort_by(|a, b| a.name.cmp(&b.name));
    json(&ListNamespaces { namespaces })
}

/// Describe Namespace
///
/// One namespace.
#[utoipa::path(
    get,
    path = routes::NAMESPACE,
    operation_id = "describeNamespace",
    tag = "Access",
    params(params::NamespacePath),
    responses((status = 200, description = "The namespace.", body = DescribeNamespace, example = json!(examples::describe_namespace()))),
    extensions(("x-error-codes" = json!(refusals(&[QUERY, &[Code::NamespaceNotFound, Code::PathNotFound]])))),
)]
async fn describe(
    State(api): State<Arc<Api>>,
    access: Access,
    _: Query,
    Parameter(name): Parameter,
) -> Handled {
    access.check(&name, || access.no_namespace(&name))?;
    let namespace = find(&api, &name).ok_or_else(|| access.no_namespace(&name))?;
    json(&DescribeNamespace { namespace })
}

/// Put Namespace
///
/// Creates the namespace, or changes it; jobs that were submitted before stay as they are.
#[utoipa::path(
    put,
    path = routes::NAMESPACE,
    operation_id = "putNamespace",
    tag = "Access",
    params(params::NamespacePath),
    request_body(content = PutNamespace, example = json!(examples::put_namespace())),
    responses((status = 200, description = "The namespace.", body = DescribeNamespace, example = json!(examples::describe_namespace()))),
    extensions(("x-error-codes" = json!(refusals(&[QUERY, BODY, CALL, &[Code::PathNotFound, Code::Conflict]])))),
)]
async fn put(
    State(api): State<Arc<Api>>,
    access: Access,
    _: Query,
    Parameter(name): Parameter,
    body: JsonBody,
) -> Handled {
    let PutNamespace { description, permissions, nodes } = body.read()?;
    let permissions = checked(&name, &description, permissions, &nodes)?;
    let now = clock::now();
    let record = api.view.records().get(&key(&name));
    let before = record.as_ref().map(stored);
    let create_time = before.map_or(now, |before| before.create_time);
    let changed = Stored { description, permissions, nodes, create_time, modify_time: now };
    let write = RecordWrite::json(key(&name), Expected::as_read(record.as_ref()), &changed);
    api.handle.on_behalf(access.audit()).change_records(vec![write]).await?;
    json(&DescribeNamespace { namespace: changed.wire(name) })
}

/// Delete Namespace
///
/// Only while it has no secrets, no credentials and no jobs, not even finished ones, and no token names it. `default` always
/// exists; deleting it removes its description and permissions.
#[utoipa::path(
    delete,
    path = routes::NAMESPACE,
    operation_id = "deleteNamespace",
    tag = "Access",
    params(params::NamespacePath),
    responses((status = 200, description = "The namespace as it was.", body = DescribeNamespace, example = json!(examples::describe_namespace()))),
    extensions(("x-error-codes" = json!(refusals(&[QUERY, READ, CALL, &[Code::NamespaceNotFound, Code::PathNotFound, Code::Conflict]])))),
)]
async fn delete(
    State(api): State<Arc<Api>>,
    access: Access,
    _: Query,
    Parameter(name): Parameter,
) -> Handled {
    let records = api.view.records();
    let record = records.get(&key(&name));
    let record = record.ok_or_else(|| access.no_namespace(&name))?;
    if name != DEFAULT_NAMESPACE {
        let tokens = records.of_kind(RecordKind::Token);
        let named = tokens
            .iter()
            .filter_map(StoredToken::of)
            .find(|token| !token.is_over(clock::now()) && token.namespaces.contains(&name));
        if let Some(token) = named {
            let reason = format!("the token '{}' names it", token.name);
            return Err(Failure::NamespaceInUse { namespace: name, reason });
        }
        let kept = [RecordKind::Secret, RecordKind::Credential]
            .into_iter()
            .find(|kind| !namespaced::of_namespace(&api, *kind, &name).is_empty());
        if let Some(kind) = kept {
            let reason = format!("it has {}s", kind.word());
            return Err(Failure::NamespaceInUse { namespace: name, reason });
        }
        let of_jobs = name.clone();
        if api.read(move |reads| Ok(reads.has_jobs(&of_jobs)?)).await? {
            let reason = "it has jobs, of which finished ones go with time".to_owned();
            return Err(Failure::NamespaceInUse { namespace: name, reason });
        }
    }
    let namespace = wire(&record);
    api.handle.on_behalf(access.audit()).change_records(vec![record.removal()]).await?;
    json(&DescribeNamespace { namespace })
}

/// Whether jobs may be submitted there.
pub(super) fn exists(api: &Api, name: &str) -> bool {
    name == DEFAULT_NAMESPACE || api.view.records().get(&key(name)).is_some()
}

/// Refuses a job that asks for what its namespace does not permit.
pub(super) fn permit(api: &Api, spec: &JobSpec) -> Result<(), Failure> {
    let Some(record) = api.view.records().get(&key(&spec.namespace)) else { return Ok(()) };
    let Permissions { engines, networks, sources, publishers } = stored(&record).permissions;
    let mut problems = Vec::new();
    for (at, task) in spec.tasks.iter().enumerate() {
        let task_path = format!("Tasks[{at}]");
        let mut check = |path: String, list: &Option<Vec<String>>, word: &str| {
            let Some(list) = list.as_ref().filter(|list| !list.iter().any(|it| it == word)) else {
                return;
            };
            let permitted = if list.is_empty() { "none".to_owned() } else { list.join(", ") };
            let reason = format!(
                "'{word}' is not permitted in namespace '{}'; permitted: {permitted}",
                spec.namespace
            );
            problems.push(FieldError { path: format!("{task_path}.{path}"), reason });
        };
        check("Engine.Type".to_owned(), &engines, task.engine.engine_type.as_str());
        check("Network.Type".to_owned(), &networks, task.network.network_type.as_str());
        // To publish nothing is always permitted.
        if task.publisher.publisher_type != PublisherType::None {
            let word = task.publisher.publisher_type.as_str();
            check("Publisher.Type".to_owned(), &publishers, word);
        }
        for (at, input) in task.input_sources.iter().enumerate() {
            let path = format!("InputSources[{at}].Source.Type");
            check(path, &sources, input.source.source_type.as_str());
        }
    }
    if problems.is_empty() { Ok(()) } else { Err(Failure::InvalidJob(problems)) }
}

/// What the namespace demands of the nodes that run its jobs: labels that only the operator sets.
pub(super) fn constraints(api: &Api, namespace: &str) -> Vec<Constraint> {
    let record = api.view.records().get(&key(namespace));
    let nodes = record.map(|record| stored(&record).nodes).unwrap_or_default();
    let requirements = Selector::parse(&nodes).map(|it| it.requirements).unwrap_or_default();
    let of_operator = |Requirement { key, test }| {
        let key = match key.starts_with(OPERATOR_LABEL) {
            true => key,
            false => format!("{OPERATOR_LABEL}{key}"),
        };
        Requirement { key, test }.into()
    };
    requirements.into_iter().map(of_operator).collect()
}

fn checked(
    name: &str,
    description: &str,
    permissions: Permissions,
    nodes: &str,
) -> Result<Permissions, Failure> {
    let mut problems = Vec::new();
    let mut problem = |path: &str, reason: String| {
        problems.push(FieldError { path: path.to_owned(), reason });
    };
    if !names::is_name(name) {
        problem("", format!("the name of a namespace {}", names::RULE));
    }
    if description.chars().count() > MAX_DESCRIPTION_CHARS {
        problem("Description", format!("must have at most {MAX_DESCRIPTION_CHARS} characters"));
    }
    if let Err(error) = Selector::parse(nodes) {
        problem("Nodes", error.to_string());
    } else if nodes.len() > MAX_SELECTOR_BYTES {
        problem("Nodes", format!("must not be longer than {MAX_SELECTOR_BYTES} bytes"));
    }
    let Permissions { engines, networks, sources, publishers } = permissions;
    let permissions = Permissions {
        engines: words::<EngineType>(engines, "Permissions.Engines", &mut problem),
        networks: words::<NetworkType>(networks, "Permissions.Networks", &mut problem),
        sources: words::<SourceType>(sources, "Permissions.Sources", &mut problem),
        publishers: words::<PublisherType>(publishers, "Permissions.Publishers", &mut problem),
    };
    if problems.is_empty() { Ok(permissions) } else { Err(Failure::InvalidBody(problems)) }
}

/// The words in their usual spelling.
fn words<T: FromStr<Err = UnknownWord> + ToString>(
    list: Option<Vec<String>>,
    path: &str,
    problem: &mut impl FnMut(&str, String),
) -> Option<Vec<String>> {
    let usual = |word: String| match word.parse::<T>() {
        Ok(known) => known.to_string(),
        Err(unknown) => {
            problem(path, unknown.to_string());
            word
        }
    };
    list.map(|list| list.into_iter().filter(|word| !word.is_empty()).map(usual).collect())
}

fn key(name: &str) -> RecordKey {
    RecordKind::Namespace.key(name)
}

fn find(api: &Api, name: &str) -> Option<Namespace> {
    match api.view.records().get(&key(name)) {
        Some(record) => Some(wire(&record)),
        None if name == DEFAULT_NAMESPACE => Some(unchanged_default()),
        None => None,
    }
}

fn stored(record: &Record) -> Stored {
    serde_json::from_str(&record.value).unwrap_or_default()
}

fn wire(record: &Record) -> Namespace {
    stored(record).wire(record.key.key.clone())
}

fn unchanged_default() -> Namespace {
    Stored::default().wire(DEFAULT_NAMESPACE.to_owned())
}

// === impl Stored ===

impl Stored {
    fn wire(self, name: String) -> Namespace {
        let time = |time: Timestamp| shown(Some(time).filter(|time| *time != Timestamp::ZERO));
        Namespace {
            name,
            description: self.description,
            permissions: self.permissions,
            nodes: self.nodes,
            create_time: time(self.create_time),
            modify_time: time(self.modify_time),
        }
    }
}
