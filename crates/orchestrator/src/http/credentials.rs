//! Credentials of namespaces: put, list and delete them. No answer to a user has a login.

use std::sync::Arc;

use api_types::credential::{
    CredentialType, DescribeCredential, ListCredentials, PutCredential, check_host_pattern,
};
use api_types::error::FieldError;
use api_types::job::JobSpec;
use api_types::{Code, routes};
use axum::extract::State;
use control_plane::records::{Record, RecordKey, RecordKind, RecordWrite};
use daemon::collect;
use daemon::http::Operations;
use daemon::http::Peer;

use super::authenticate::Access;
use super::body::JsonBody;
use super::edge::json;
use super::error::{Failure, Kind};
use super::namespaced::{self, ListQuery, OneQuery, check_way, listed, own_namespace};
use super::openapi::{BODY, CALL, QUERY, examples, params, refusals};
use super::{Api, Handled, Parameter, lookup};
use crate::credentials::{self, Findings, NewCredential, StoredCredential};
use crate::keys::KeyRing;
use crate::records::Published;
use crate::{clock, names};

/// Hosts, and buckets, of one record.
const MAX_PLACES: usize = 64;

/// The longest field of a login; tokens of identity providers have some kilobytes.
const MAX_FIELD_BYTES: usize = 16 << 10;

/// The longest name of a bucket, of any service.
const MAX_BUCKET_BYTES: usize = 255;

pub(super) fn router() -> Operations<Arc<Api>> {
    Operations::default().merge(collect!(list)).merge(collect!(describe, put, delete))
}

/// List Credentials
///
/// What jobs of a namespace may sign in with elsewhere, without the logins.
#[utoipa::path(
    get,
    path = routes::CREDENTIALS,
    operation_id = "listCredentials",
    tag = "Credentials",
    params(ListQuery),
    responses((status = 200, description = "The credentials, in order of namespace and name.", body = ListCredentials, example = json!(examples::list_credentials()))),
    extensions(("x-error-codes" = json!(refusals(&[QUERY, &[Code::NamespaceNotFound]])))),
)]
async fn list(State(api): State<Arc<Api>>, access: Access, query: ListQuery) -> Handled {
    let records = listed(&api, &access, RecordKind::Credential, query)?;
    let wire = |record: &Record| Some(StoredCredential::of(record)?.wire(&record.key));
    json(&ListCredentials { credentials: records.iter().filter_map(wire).collect() })
}

/// Describe Credential
///
/// One record of credentials, without the login.
#[utoipa::path(
    get,
    path = routes::CREDENTIAL,
    operation_id = "describeCredential",
    tag = "Credentials",
    params(params::CredentialPath, OneQuery),
    responses((status = 200, description = "The credentials.", body = DescribeCredential, example = json!(examples::describe_credential()))),
    extensions(("x-error-codes" = json!(refusals(&[QUERY, &[Code::CredentialNotFound, Code::NamespaceNotFound, Code::PathNotFound]])))),
)]
async fn describe(
    State(api): State<Arc<Api>>,
    access: Access,
    query: OneQuery,
    Parameter(name): Parameter,
) -> Handled {
    let (_, credential) = find(&api, &access, query, &name)?;
    json(&credential)
}

/// Put Credential
///
/// Creates the credentials, or replaces all of them. Whatever is fetched or published from now on
/// uses them.
#[utoipa::path(
    put,
    path = routes::CREDENTIAL,
    operation_id = "putCredential",
    tag = "Credentials",
    params(params::CredentialPath, OneQuery),
    request_body(content = PutCredential, example = json!(examples::put_credential())),
    responses((status = 200, description = "The credentials.", body = DescribeCredential, example = json!(examples::describe_credential()))),
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
    let asked = checked(&name, body.read()?).map_err(Failure::InvalidBody)?;
    let key = credentials::key(&namespace, &name);
    let of_key = key.clone();
    let seal = move |keys: &KeyRing, records: &Published| {
        credentials::changed(keys, records, of_key.clone(), asked.clone(), clock::now())
    };
    let audit = access.audit_of(&key.key);
    let credential = namespaced::put(&api, &key, audit, seal).await?;
    json(&DescribeCredential { credential })
}

/// Delete Credential
///
/// Jobs that name the credentials wait until there are some again.
#[utoipa::path(
    delete,
    path = routes::CREDENTIAL,
    operation_id = "deleteCredential",
    tag = "Credentials",
    params(params::CredentialPath, OneQuery),
    responses((status = 200, description = "The credentials as they were.", body = DescribeCredential, example = json!(examples::describe_credential()))),
    extensions(("x-error-codes" = json!(refusals(&[QUERY, CALL, &[Code::CredentialNotFound, Code::NamespaceNotFound, Code::PathNotFound, Code::Conflict]])))),
)]
async fn delete(
    State(api): State<Arc<Api>>,
    access: Access,
    query: OneQuery,
    Parameter(name): Parameter,
) -> Handled {
    let (key, credential) = find(&api, &access, query, &name)?;
    let audit = access.audit_of(&key.key);
    let write = RecordWrite::removal(key);
    api.handle.on_behalf(audit).change_records(vec![write]).await?;
    json(&credential)
}

/// Refuses a job whose credentials are for other servers than those it names; warns of credentials
/// that do not exist.
pub(super) fn check(api: &Api, spec: &JobSpec) -> Result<Vec<String>, Failure> {
    let Findings { refused, missing } = credentials::check(api.view.records(), spec);
    if !refused.is_empty() {
        let problem = |(path, reason)| FieldError { path, reason };
        return Err(Failure::InvalidJob(refused.into_iter().map(problem).collect()));
    }
    let warning = |name: String| {
        format!(
            "credentials '{name}' do not exist in namespace '{}'; the job waits until they do",
            spec.namespace
        )
    };
    Ok(missing.into_iter().map(warning).collect())
}

fn find(
    api: &Api,
    access: &Access,
    query: OneQuery,
    name: &str,
) -> Result<(RecordKey, DescribeCredential), Failure> {
    let namespace = own_namespace(api, access, query)?;
    let key = credentials::key(&namespace, name);
    let found = api.view.records().get(&key).as_ref().and_then(StoredCredential::of);
    let credential = found.ok_or_else(|| lookup::absent(Kind::Credential, name))?.wire(&key);
    Ok((key, DescribeCredential { credential }))
}

fn checked(name: &str, asked: PutCredential) -> Result<NewCredential, Vec<FieldError>> {
    let mut problems = Vec::new();
    let mut problem = |path: &str, reason: &str| {
        problems.push(FieldError { path: path.to_owned(), reason: reason.to_owned() });
    };
    if !names::is_name(name) {
        problem("", &format!("the name of credentials {}", names::RULE));
    }
    let PutCredential { credential_type, hosts, buckets, login } = asked;
    let kind = credential_type.parse::<CredentialType>();
    if let Err(error) = &kind {
        problem("Type", &error.to_string());
    }
    if hosts.is_empty() {
        problem("Hosts", "is required: the only hosts that get the login");
    }
    for (path, places) in [("Hosts", &hosts), ("Buckets", &buckets)] {
        if places.len() > MAX_PLACES {
            problem(path, &format!("must not be more than {MAX_PLACES}"));
        }
    }
    for (index, host) in hosts.iter().take(MAX_PLACES).enumerate() {
        if let Err(reason) = check_host_pattern(host) {
            problem(&format!("Hosts[{index}]"), reason);
        }
    }
    if !buckets.is_empty() && kind.as_ref().is_ok_and(|kind| *kind != CredentialType::S3) {
        problem("Buckets", "does not belong to this Type");
    }
    for (index, bucket) in buckets.iter().take(MAX_PLACES).enumerate() {
        if bucket.is_empty() || bucket.len() > MAX_BUCKET_BYTES {
            problem(&format!("Buckets[{index}]"), "is not the name of a bucket");
        }
    }
    for (field, reason) in kind.as_ref().map(|kind| login.problems(*kind)).unwrap_or_default() {
        problem(&format!("Login.{field}"), reason);
    }
    if login.longest_bytes() > MAX_FIELD_BYTES {
        problem("Login", &format!("no field may be longer than {MAX_FIELD_BYTES} bytes"));
    }
    match kind {
        Ok(credential_type) if problems.is_empty() => {
            Ok(NewCredential { credential_type, hosts, buckets, login })
        }
        _ => Err(problems),
    }
}
