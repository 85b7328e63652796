//! Secrets of namespaces: put, list and delete them. No answer to a user has a value.

use std::net::IpAddr;
use std::sync::Arc;

use api_types::error::FieldError;
use api_types::job::{DEFAULT_NAMESPACE, JobSpec};
use api_types::secret::{DescribeSecret, ListSecrets, MAX_SECRET_BYTES, PutSecret};
use api_types::{Code, routes};
use axum::Extension;
use axum::extract::State;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use control_plane::records::{Expected, Record, RecordKey, RecordKind, RecordRefusal, RecordWrite};
use control_plane::store::Namespaces;
use daemon::http::Peer;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes as collect;
use zeroize::Zeroizing;

use super::authenticate::Access;
use super::body::JsonBody;
use super::edge::json;
use super::error::{Failure, Kind};
use super::openapi::{BODY, CALL, QUERY, examples, params, refusals};
use super::query::{Namespace, Text, query};
use super::{Api, Handled, Parameter, lookup, namespaces};
use crate::driver::CallError;
use crate::secrets::{self, StoredSecret};
use crate::{clock, names};

/// The most secrets of one namespace: all of them are in memory.
const MAX_SECRETS: usize = 1000;

/// How often a change is tried again when another one came in between.
const ATTEMPTS: u32 = 16;

query! {
    struct SecretsQuery {
        namespace: Option<String> = (
            "namespace",
            Namespace { default: DEFAULT_NAMESPACE },
            "The secrets of one namespace, or `*` for all."
        );
    }

    struct SecretQuery {
        namespace: Option<String> =
            ("namespace", Text, "The namespace of the secret; `default` when absent.");
    }
}

pub(super) fn router() -> OpenApiRouter<Arc<Api>> {
    OpenApiRouter::default().routes(collect!(list)).routes(collect!(describe, put, delete))
}

/// List Secrets
///
/// The secrets that tasks of a namespace may name, without their values.
#[utoipa::path(
    get,
    path = routes::SECRETS,
    operation_id = "listSecrets",
    tag = "Secrets",
    params(SecretsQuery),
    responses((status = 200, description = "The secrets, in order of namespace and name.", body = ListSecrets, example = json!(examples::list_secrets()))),
    extensions(("x-error-codes" = json!(refusals(&[QUERY, &[Code::NamespaceNotFound]])))),
)]
async fn list(State(api): State<Arc<Api>>, access: Access, query: SecretsQuery) -> Handled {
    let wanted = access.within(query.namespace)?;
    let records = api.view.records().of_kind(RecordKind::Secret);
    let records = records.iter().filter(|record| match &wanted {
        Namespaces::All => true,
        Namespaces::Only(names) => names.contains(secrets::place(&record.key).0),
    });
    let secrets =
        records.filter_map(|record| Some(StoredSecret::of(record)?.wire(&record.key))).collect();
    json(&ListSecrets { secrets })
}

/// Describe Secret
///
/// One secret, without its value.
#[utoipa::path(
    get,
    path = routes::SECRET,
    operation_id = "describeSecret",
    tag = "Secrets",
    params(params::SecretPath, SecretQuery),
    responses((status = 200, description = "The secret.", body = DescribeSecret, example = json!(examples::describe_secret()))),
    extensions(("x-error-codes" = json!(refusals(&[QUERY, &[Code::SecretNotFound, Code::NamespaceNotFound, Code::PathNotFound]])))),
)]
async fn describe(
    State(api): State<Arc<Api>>,
    access: Access,
    query: SecretQuery,
    Parameter(name): Parameter,
) -> Handled {
    let (_, secret) = find(&api, &access, query, &name)?;
    json(&secret)
}

/// Put Secret
///
/// Creates the secret, or gives it another value. Tasks that start from now on receive it; those
/// that run keep what they have.
#[utoipa::path(
    put,
    path = routes::SECRET,
    operation_id = "putSecret",
    tag = "Secrets",
    params(params::SecretPath, SecretQuery),
    request_body(content = PutSecret, example = json!(examples::put_secret())),
    responses((status = 200, description = "The secret.", body = DescribeSecret, example = json!(examples::describe_secret()))),
    extensions(("x-error-codes" = json!(refusals(&[QUERY, BODY, CALL, &[Code::NamespaceNotFound, Code::PathNotFound, Code::Conflict]])))),
)]
async fn put(
    State(api): State<Arc<Api>>,
    access: Access,
    peer: Option<Extension<Peer>>,
    query: SecretQuery,
    Parameter(name): Parameter,
    body: JsonBody,
) -> Handled {
    check_way(&api, peer)?;
    let namespace = own_namespace(&api, &access, query)?;
    let value = Arc::new(value(&name, body.read()?)?);
    let (key, audit) =
        (secrets::key(&namespace, &name), access.audit_of(&object(&namespace, &name)));
    for _ in 0..ATTEMPTS {
        let before = of_namespace(&api, &namespace);
        if before.len() >= MAX_SECRETS && before.iter().all(|record| record.key != key) {
            return Err(Failure::InvalidBody(vec![FieldError {
                path: String::new(),
                reason: format!("namespace '{namespace}' has {MAX_SECRETS} secrets already"),
            }]));
        }
        let (keys, view) = (Arc::clone(&api.keys), Arc::clone(&api.view));
        let (of_value, of_key) = (Arc::clone(&value), key.clone());
        // The first secret makes keys, and with them a file.
        let sealing = tokio::task::spawn_blocking(move || {
            secrets::with_value(&keys, view.records(), of_key, &of_value, clock::now())
        });
        let sealed = sealing.await.map_err(|error| internal("seal a secret", &error))?;
        let (secret, writes) = sealed.map_err(|error| internal("seal a secret", &error))?;
        match api.handle.on_behalf(audit.clone()).change_records(writes).await {
            Ok(()) => return json(&DescribeSecret { secret }),
            Err(CallError::Record(RecordRefusal::Changed(_))) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(Failure::Call(CallError::QueueFull))
}

/// Delete Secret
///
/// Tasks that name it wait until there is one again; those that run keep what they have.
#[utoipa::path(
    delete,
    path = routes::SECRET,
    operation_id = "deleteSecret",
    tag = "Secrets",
    params(params::SecretPath, SecretQuery),
    responses((status = 200, description = "The secret as it was.", body = DescribeSecret, example = json!(examples::describe_secret()))),
    extensions(("x-error-codes" = json!(refusals(&[QUERY, CALL, &[Code::SecretNotFound, Code::NamespaceNotFound, Code::PathNotFound, Code::Conflict]])))),
)]
async fn delete(
    State(api): State<Arc<Api>>,
    access: Access,
    query: SecretQuery,
    Parameter(name): Parameter,
) -> Handled {
    let (key, secret) = find(&api, &access, query, &name)?;
    let audit = access.audit_of(&object(&secret.secret.namespace, &name));
    let write = RecordWrite { key, expected: Expected::Anything, value: None };
    api.handle.on_behalf(audit).change_records(vec![write]).await?;
    json(&secret)
}

/// Warns of secrets that a job names and that do not exist.
pub(super) fn missing(api: &Api, spec: &JobSpec) -> Vec<String> {
    let named = spec.tasks.iter().flat_map(|task| &task.secrets).map(|secret| &secret.name);
    let is_missing =
        |name: &&String| api.view.records().get(&secrets::key(&spec.namespace, name)).is_none();
    named
        .filter(is_missing)
        .map(|name| {
            format!(
                "secret '{name}' does not exist in namespace '{}'; the job waits until it does",
                spec.namespace
            )
        })
        .collect()
}

/// The secrets of one namespace.
pub(super) fn of_namespace(api: &Api, namespace: &str) -> Vec<Record> {
    let mut records = api.view.records().of_kind(RecordKind::Secret);
    records.retain(|record| secrets::place(&record.key).0 == namespace);
    records
}

/// Values go over TLS, or stay on this machine.
pub(super) fn check_way(api: &Api, peer: Option<Extension<Peer>>) -> Result<(), Failure> {
    let is_local = peer.is_some_and(|Extension(Peer(address))| is_loopback(address));
    if api.protection.is_some() || is_local {
        return Ok(());
    }
    Err(Failure::UnprotectedSecret)
}

fn is_loopback(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}

fn find(
    api: &Api,
    access: &Access,
    query: SecretQuery,
    name: &str,
) -> Result<(RecordKey, DescribeSecret), Failure> {
    let namespace = own_namespace(api, access, query)?;
    let key = secrets::key(&namespace, name);
    let found = api.view.records().get(&key).as_ref().and_then(StoredSecret::of);
    let secret = found.ok_or_else(|| lookup::absent(Kind::Secret, name))?.wire(&key);
    Ok((key, DescribeSecret { secret }))
}

/// The namespace that the request names, if the caller may do there what it asks for.
fn own_namespace(api: &Api, access: &Access, query: SecretQuery) -> Result<String, Failure> {
    let namespace = query.namespace.unwrap_or_else(|| DEFAULT_NAMESPACE.to_owned());
    access.check(&namespace, || access.no_namespace(&namespace))?;
    if api.asks_for_credentials && !namespaces::exists(api, &namespace) {
        return Err(access.no_namespace(&namespace));
    }
    Ok(namespace)
}

fn value(name: &str, asked: PutSecret) -> Result<Zeroizing<Vec<u8>>, Failure> {
    let mut problems = Vec::new();
    let mut problem = |path: &str, reason: String| {
        problems.push(FieldError { path: path.to_owned(), reason });
    };
    if !names::is_name(name) {
        problem("", format!("the name of a secret {}", names::RULE));
    }
    let PutSecret { value, data } = asked;
    let value = match (value, data.map(Zeroizing::new)) {
        (Some(text), None) => Zeroizing::new(text.into_bytes()),
        (None, Some(data)) => match STANDARD.decode(data.trim()) {
            Ok(bytes) => Zeroizing::new(bytes),
            Err(_) => {
                problem("Data", "must be base64".to_owned());
                Zeroizing::default()
            }
        },
        (None, None) => {
            problem("Value", "is required, or Data".to_owned());
            Zeroizing::default()
        }
        (Some(_), Some(_)) => {
            problem("Data", "stands for Value; give one of the two".to_owned());
            Zeroizing::default()
        }
    };
    if value.len() > MAX_SECRET_BYTES {
        problem("Value", format!("must not be longer than {MAX_SECRET_BYTES} bytes"));
    }
    if problems.is_empty() { Ok(value) } else { Err(Failure::InvalidBody(problems)) }
}

fn object(namespace: &str, name: &str) -> String {
    format!("{namespace}/{name}")
}

fn internal(what: &str, error: &dyn std::error::Error) -> Failure {
    let source = error.source().map(|source| format!(": {source}")).unwrap_or_default();
    Failure::Internal { cause: format!("{what}: {error}{source}") }
}
