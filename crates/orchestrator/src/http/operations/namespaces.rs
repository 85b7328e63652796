//! Namespaces, and what their jobs may ask for.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::sync::Arc;

use api_types::access::{DescribeNamespace, ListNamespaces, Permissions, PutNamespace};
use api_types::engine::{EngineType, NetworkType, PublisherType, UnknownWord};
use api_types::error::FieldError;
use api_types::image::ImageReference;
use api_types::job::{DEFAULT_NAMESPACE, DEFAULT_PRIORITY, MAX_PRIORITY};
use api_types::quota::MAX_WEIGHT;
use api_types::selector::Selector;
use api_types::source::SourceType;
use api_types::{Code, routes};
use axum::extract::State;
use control_plane::records::{Expected, Record, RecordKind, RecordWrite};
use daemon::collect;
use daemon::http::Operations;
use scheduler::Scheduler;

use super::{sealed, survey};
use crate::access::token::StoredToken;
use crate::http::api::{Api, Handled, Parameter};
use crate::http::edge::authenticate::Access;
use crate::http::edge::body::JsonBody;
use crate::http::error::{BadRequest, Conflict, Failure};
use crate::http::openapi::{BODY, CALL, QUERY, READ, examples, params, refusals};
use crate::http::query::Query;
use crate::http::respond::json;
use crate::namespaces::{self, Held, StoredNamespace};
use crate::{clock, names};

/// The longest description, in characters.
const MAX_DESCRIPTION_CHARS: usize = 1024;

/// The longest selector of nodes: it becomes part of every job.
const MAX_SELECTOR_BYTES: usize = 1024;

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
    extensions(("x-error-codes" = json!(refusals(&[QUERY, CALL])))),
)]
async fn list(State(api): State<Arc<Api>>, access: Access, _: Query) -> Handled {
    let records = api.view.records().of_kind(RecordKind::Namespace);
    let stored = |record: &Record| (record.key.key.clone(), StoredNamespace::from_record(record));
    let mut listed: BTreeMap<_, _> = records.iter().map(stored).collect();
    listed.entry(DEFAULT_NAMESPACE.to_owned()).or_default();
    listed.retain(|name, _| access.caller().sees(name));
    let uses = uses(&api, listed.keys().cloned().collect()).await?;
    let namespaces = listed.into_iter().zip(uses).map(|((name, it), used)| it.wire(name, used));
    json(&ListNamespaces { namespaces: namespaces.collect() })
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
    extensions(("x-error-codes" = json!(refusals(&[QUERY, CALL, &[Code::NamespaceNotFound, Code::PathNotFound]])))),
)]
async fn describe(
    State(api): State<Arc<Api>>,
    access: Access,
    _: Query,
    Parameter(name): Parameter,
) -> Handled {
    access.check(&name, || access.no_namespace(&name))?;
    let records = api.view.records();
    if !namespaces::exists(records, &name) {
        return Err(access.no_namespace(&name));
    }
    let namespace = namespaces::settings(records, &name);
    described(&api, name, namespace).await
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
    let body: PutNamespace = body.read()?;
    let permissions = checked(&name, &body)?;
    let PutNamespace { description, permissions: _, nodes, max_priority, quota, weight } = body;
    let now = clock::now();
    let record = api.view.records().get(&namespaces::key(&name));
    let before = record.as_ref().map(StoredNamespace::from_record);
    let is_bounded = match &before {
        Some(before) => before.max_priority.is_some(),
        None => api.asks_for_credentials && name != DEFAULT_NAMESPACE,
    };
    let max_priority = max_priority.or_else(|| is_bounded.then_some(DEFAULT_PRIORITY));
    let create_time = before.map_or(now, |before| before.create_time);
    let changed = StoredNamespace {
        description,
        permissions,
        nodes,
        max_priority,
        quota,
        weight,
        create_time,
        modify_time: now,
    };
    let write =
        RecordWrite::json(namespaces::key(&name), Expected::as_read(record.as_ref()), &changed);
    api.handle.on_behalf(access.audit()).change_records(vec![write]).await?;
    described(&api, name, changed).await
}

/// Delete Namespace
///
/// Only while it has no secrets, credentials, groups, schedules and jobs, not even finished ones, and no token names it. `default` always
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
    let record = records.get(&namespaces::key(&name));
    let record = record.ok_or_else(|| access.no_namespace(&name))?;
    if name != DEFAULT_NAMESPACE {
        let tokens = records.of_kind(RecordKind::Token);
        let named = tokens
            .iter()
            .filter_map(StoredToken::from_record)
            .find(|token| !token.is_over(clock::now()) && token.namespaces.contains(&name));
        if let Some(token) = named {
            let reason = format!("the token '{}' names it", token.name);
            return Err(Conflict::NamespaceInUse { namespace: name, reason }.into());
        }
        let kept =
            [RecordKind::Secret, RecordKind::Credential, RecordKind::Group, RecordKind::Schedule]
                .into_iter()
                .find(|kind| !sealed::of_namespace(&api, *kind, &name).is_empty());
        if let Some(kind) = kept {
            let reason = format!("it has {}s", kind.word());
            return Err(Conflict::NamespaceInUse { namespace: name, reason }.into());
        }
        let of_jobs = name.clone();
        if api.read(move |reads| Ok(reads.has_jobs(&of_jobs)?)).await? {
            let reason = "it has jobs, of which finished ones go with time".to_owned();
            return Err(Conflict::NamespaceInUse { namespace: name, reason }.into());
        }
    }
    let namespace = StoredNamespace::from_record(&record).wire(name, Held::default());
    api.handle.on_behalf(access.audit()).change_records(vec![record.removal()]).await?;
    json(&DescribeNamespace { namespace })
}

/// The permissions in their usual spelling, of a body without a problem.
fn checked(name: &str, body: &PutNamespace) -> Result<Permissions, Failure> {
    let PutNamespace { description, permissions, nodes, max_priority, quota, weight } = body;
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
    if let Some(priority) = max_priority.filter(|priority| *priority > MAX_PRIORITY) {
        problem("MaxPriority", format!("must be between 0 and {MAX_PRIORITY}, got {priority}"));
    }
    if let Some(weight) = weight.filter(|weight| !(1..=MAX_WEIGHT).contains(weight)) {
        problem("Weight", format!("must be between 1 and {MAX_WEIGHT}, got {weight}"));
    }
    if let Err((field, error)) = quota.amounts() {
        problem(&format!("Quota.{field}"), error.to_string());
    }
    let selector = Selector::parse(nodes);
    if let Err(error) = &selector {
        problem("Nodes", error.to_string());
    } else if !nodes.is_empty() && selector.is_ok_and(|it| it.matches(&BTreeMap::new())) {
        problem(
            "Nodes",
            format!(
                "'{nodes}' matches every node without labels, and an operator can \
            add such a node; name a label that only the right nodes have, like pool=ci"
            ),
        );
    } else if nodes.len() > MAX_SELECTOR_BYTES {
        problem("Nodes", format!("must not be longer than {MAX_SELECTOR_BYTES} bytes"));
    }
    let Permissions { engines, networks, sources, publishers, registries, capabilities } =
        permissions.clone();
    let permissions = Permissions {
        engines: words::<EngineType>(engines, "Permissions.Engines", &mut problem),
        networks: words::<NetworkType>(networks, "Permissions.Networks", &mut problem),
        sources: words::<SourceType>(sources, "Permissions.Sources", &mut problem),
        publishers: words::<PublisherType>(publishers, "Permissions.Publishers", &mut problem),
        registries: hosts(registries, "Permissions.Registries", &mut problem),
        capabilities,
    };
    if problems.is_empty() { Ok(permissions) } else { Err(BadRequest::Body(problems).into()) }
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

/// Registries as images name them.
fn hosts(
    list: Option<Vec<String>>,
    path: &str,
    problem: &mut impl FnMut(&str, String),
) -> Option<Vec<String>> {
    let usual = |host: String| {
        let image = ImageReference::parse(&format!("{host}/team/image")).ok();
        let is_host =
            |image: &ImageReference| image.manifest().is_some_and(|(path, _)| path == "team/image");
        match image.as_ref().filter(|image| is_host(image)).and_then(|image| image.registry()) {
            Some(registry) => registry.to_owned(),
            None => {
                problem(
                    path,
                    format!("'{host}' is not a registry, like 'docker.io' or 'host:5000'"),
                );
                host
            }
        }
    };
    list.map(|list| list.into_iter().filter(|host| !host.is_empty()).map(usual).collect())
}

async fn described(api: &Api, name: String, namespace: StoredNamespace) -> Handled {
    let held = uses(api, vec![name.clone()]).await?;
    let held = held.first().copied().unwrap_or_default();
    json(&DescribeNamespace { namespace: namespace.wire(name, held) })
}

/// What each of these namespaces holds.
async fn uses(api: &Api, names: Vec<String>) -> Result<Vec<Held>, Failure> {
    let question = move |scheduler: &Scheduler| {
        let held =
            |name: &String| Held { used: scheduler.quota_use(name), share: scheduler.share(name) };
        names.iter().map(held).collect::<Vec<_>>()
    };
    let (uses, _turn) = survey::ask(api, question).await?;
    Ok(uses)
}
