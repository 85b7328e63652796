//! Secrets of namespaces: put, list and delete them. No answer to a user has a value.

use std::sync::Arc;

use api_types::error::FieldError;
use api_types::job::JobSpec;
use api_types::secret::{DescribeSecret, ListSecrets, MAX_SECRET_BYTES, PutSecret};
use api_types::{Code, routes};
use axum::extract::State;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use control_plane::records::{Record, RecordKey, RecordKind, RecordWrite};
use daemon::collect;
use daemon::http::Operations;
use daemon::http::Peer;
use zeroize::Zeroizing;

use super::authenticate::Access;
use super::body::JsonBody;
use super::edge::json;
use super::error::{Failure, Kind};
use super::namespaced::{self, ListQuery, OneQuery, check_way, listed, own_namespace};
use super::openapi::{BODY, CALL, QUERY, examples, params, refusals};
use super::{Api, Handled, Parameter, lookup};
use crate::keys::KeyRing;
use crate::records::Published;
use crate::secrets::{self, StoredSecret};
use crate::{clock, names};

pub(super) fn router() -> Operations<Arc<Api>> {
    Operations::default().merge(collect!(list)).merge(collect!(describe, put, delete))
}

/// List Secrets
///
/// The secrets that tasks of a namespace may name, without their values.
#[utoipa::path(
    get,
    path = routes::SECRETS,
    operation_id = "listSecrets",
    tag = "Secrets",
    params(ListQuery),
    responses((status = 200, description = "The secrets, in order of namespace and name.", body = ListSecrets, example = json!(examples::list_secrets()))),
    extensions(("x-error-codes" = json!(refusals(&[QUERY, &[Code::NamespaceNotFound]])))),
)]
async fn list(State(api): State<Arc<Api>>, access: Access, query: ListQuery) -> Handled {
    let records = listed(&api, &access, RecordKind::Secret, query)?;
    let wire = |record: &Record| Some(StoredSecret::of(record)?.wire(&record.key));
    json(&ListSecrets { secrets: records.iter().filter_map(wire).collect() })
}

/// Describe Secret
///
/// One secret, without its value.
#[utoipa::path(
    get,
    path = routes::SECRET,
    operation_id = "describeSecret",
    tag = "Secrets",
    params(params::SecretPath, OneQuery),
    responses((status = 200, description = "The secret.", body = DescribeSecret, example = json!(examples::describe_secret()))),
    extensions(("x-error-codes" = json!(refusals(&[QUERY, &[Code::SecretNotFound, Code::NamespaceNotFound, Code::PathNotFound]])))),
)]
async fn describe(
    State(api): State<Arc<Api>>,
    access: Access,
    query: OneQuery,
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
    params(params::SecretPath, OneQuery),
    request_body(content = PutSecret, example = json!(examples::put_secret())),
    responses((status = 200, description = "The secret.", body = DescribeSecret, example = json!(examples::describe_secret()))),
    extensions(("x-error-codes" = json!(refusals(&[QUERY, BODY, CALL, &[Code::NamespaceNotFound, Code::PathNotFound, Code::Conflict]])))),
)]
async fn put(
    State(api): State<Arc<Api>>,
    access: Access,
    peer: Peer,
    query: OneQuery,
    Parameter(name): Parameter,
    body: JsonBody,
) -> Handled {
    check_way(&api, peer)?;
    let namespace = own_namespace(&api, &access, query)?;
    let value = Arc::new(value(&name, body.read()?)?);
    let key = secrets::key(&namespace, &name);
    let audit = access.audit_of(&key.key);
    let of_key = key.clone();
    let seal = move |keys: &KeyRing, records: &Published| {
        secrets::with_value(keys, records, of_key.clone(), &value, clock::now())
    };
    let secret = namespaced::put(&api, &key, audit, seal).await?;
    json(&DescribeSecret { secret })
}

/// Delete Secret
///
/// Tasks that name it wait until there is one again; those that run keep what they have.
#[utoipa::path(
    delete,
    path = routes::SECRET,
    operation_id = "deleteSecret",
    tag = "Secrets",
    params(params::SecretPath, OneQuery),
    responses((status = 200, description = "The secret as it was.", body = DescribeSecret, example = json!(examples::describe_secret()))),
    extensions(("x-error-codes" = json!(refusals(&[QUERY, CALL, &[Code::SecretNotFound, Code::NamespaceNotFound, Code::PathNotFound, Code::Conflict]])))),
)]
async fn delete(
    State(api): State<Arc<Api>>,
    access: Access,
    query: OneQuery,
    Parameter(name): Parameter,
) -> Handled {
    let (key, secret) = find(&api, &access, query, &name)?;
    let audit = access.audit_of(&key.key);
    let write = RecordWrite::removal(key);
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

fn find(
    api: &Api,
    access: &Access,
    query: OneQuery,
    name: &str,
) -> Result<(RecordKey, DescribeSecret), Failure> {
    let namespace = own_namespace(api, access, query)?;
    let key = secrets::key(&namespace, name);
    let found = api.view.records().get(&key).as_ref().and_then(StoredSecret::of);
    let secret = found.ok_or_else(|| lookup::absent(Kind::Secret, name))?.wire(&key);
    Ok((key, DescribeSecret { secret }))
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
