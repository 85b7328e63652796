//! Sealed records of namespaces: put, list and delete them. No response to a user has a value.
//!
//! Secrets and credentials are its kinds. Their files have the operations; what they do is here.

use std::net::IpAddr;
use std::sync::Arc;

use api_types::error::FieldError;
use api_types::job::DEFAULT_NAMESPACE;
use control_plane::records::{Record, RecordKey, RecordKind, RecordRefusal, RecordWrite};
use control_plane::store::Namespaces;
use daemon::http::Peer;
use serde::de::DeserializeOwned;
use zeroize::Zeroizing;

use crate::clock;
use crate::creating::Begun;
use crate::driver::CallError;
use crate::http::api::Api;
use crate::http::edge::authenticate::Access;
use crate::http::edge::body::JsonBody;
use crate::http::error::{BadRequest, Denied, Failure, Kind, chain};
use crate::http::lookup;
use crate::http::query::{Namespace, Text, query};
use crate::keys::KeyError;
use crate::sealed::{self, Scope, SealedRecord, place};

/// The most records of one kind in one namespace: all of them are in memory.
const MAX_RECORDS: usize = 1000;

/// How often a change is tried again when another one came in between.
const ATTEMPTS: u32 = 16;

query! {
    pub(super) struct ListQuery {
        namespace: Option<String> = (
            "namespace",
            Namespace { default: DEFAULT_NAMESPACE },
            "Those of one namespace, or `*` for all."
        );
    }

    pub(super) struct OneQuery {
        namespace: Option<String> =
            ("namespace", Text, "Its namespace; `default` when absent.");
    }
}

/// A kind of sealed record, as the operations see it.
pub(super) trait Resource: Scope {
    /// What a refusal calls it.
    const NAMED: Kind;

    /// The body of its Put operation.
    type Put: DeserializeOwned;

    /// What the body asks for: the scope, and the value.
    fn checked(name: &str, asked: Self::Put) -> Result<(Self, Value), Vec<FieldError>>;
}

/// A value before it is sealed.
pub(super) type Value = Zeroizing<Vec<u8>>;

/// Makes the operations of a kind. What is said of them for people is where the macro is used.
macro_rules! operations {
    (
        $scope:ident, $tag:literal, $ALL:ident, $ONE:ident, $Path:ident, $Absent:ident;
        $(#[$list_doc:meta])*
        list $list:literal -> $List:ident { $records:ident }, $list_example:ident, $listed:literal;
        $(#[$describe_doc:meta])*
        describe $describe:literal -> $One:ident { $record:ident }, $one_example:ident, $is:literal;
        $(#[$put_doc:meta])*
        put $put:literal <- $Put:ident, $put_example:ident;
        $(#[$delete_doc:meta])*
        delete $delete:literal, $was:literal;
    ) => {
        pub(super) fn router() -> Operations<Arc<Api>> {
            Operations::default().merge(collect!(list)).merge(collect!(describe, put, delete))
        }

        $(#[$list_doc])*
        #[utoipa::path(
            get,
            path = routes::$ALL,
            operation_id = $list,
            tag = $tag,
            params(ListQuery),
            responses((status = 200, description = $listed, body = $List, example = json!(examples::$list_example()))),
            extensions(("x-error-codes" = json!(refusals(&[QUERY, &[Code::NamespaceNotFound]])))),
        )]
        async fn list(State(api): State<Arc<Api>>, access: Access, query: ListQuery) -> Handled {
            json(&$List { $records: sealed::list::<$scope>(&api, &access, query)? })
        }

        $(#[$describe_doc])*
        #[utoipa::path(
            get,
            path = routes::$ONE,
            operation_id = $describe,
            tag = $tag,
            params(params::$Path, OneQuery),
            responses((status = 200, description = $is, body = $One, example = json!(examples::$one_example()))),
            extensions(("x-error-codes" = json!(refusals(&[QUERY, &[Code::$Absent, Code::NamespaceNotFound, Code::PathNotFound]])))),
        )]
        async fn describe(
            State(api): State<Arc<Api>>,
            access: Access,
            query: OneQuery,
            Parameter(name): Parameter,
        ) -> Handled {
            let (_, $record) = sealed::find::<$scope>(&api, &access, query, &name)?;
            json(&$One { $record })
        }

        $(#[$put_doc])*
        #[utoipa::path(
            put,
            path = routes::$ONE,
            operation_id = $put,
            tag = $tag,
            params(params::$Path, OneQuery),
            request_body(content = $Put, example = json!(examples::$put_example())),
            responses((status = 200, description = $is, body = $One, example = json!(examples::$one_example()))),
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
            let asked = (query, name);
            let $record = sealed::put::<$scope>(&api, &access, peer, asked, &body).await?;
            json(&$One { $record })
        }

        $(#[$delete_doc])*
        #[utoipa::path(
            delete,
            path = routes::$ONE,
            operation_id = $delete,
            tag = $tag,
            params(params::$Path, OneQuery),
            responses((status = 200, description = $was, body = $One, example = json!(examples::$one_example()))),
            extensions(("x-error-codes" = json!(refusals(&[QUERY, CALL, &[Code::$Absent, Code::NamespaceNotFound, Code::PathNotFound, Code::Conflict]])))),
        )]
        async fn delete(
            State(api): State<Arc<Api>>,
            access: Access,
            query: OneQuery,
            Parameter(name): Parameter,
        ) -> Handled {
            let $record = sealed::delete::<$scope>(&api, &access, query, &name).await?;
            json(&$One { $record })
        }
    };
}

pub(super) use operations;

/// The records that the query selects, in order of namespace and name.
pub(super) fn list<R: Resource>(
    api: &Api,
    access: &Access,
    query: ListQuery,
) -> Result<Vec<R::Shown>, Failure> {
    let wanted = wanted(access, query)?;
    let mut records = api.view.records().of_kind(R::KIND);
    records.retain(|record| match &wanted {
        Namespaces::All => true,
        Namespaces::Only(names) => names.contains(place(&record.key).0),
    });
    Ok(records.iter().filter_map(shown::<R>).collect())
}

/// The record that the request names.
pub(super) fn find<R: Resource>(
    api: &Api,
    access: &Access,
    query: OneQuery,
    name: &str,
) -> Result<(RecordKey, R::Shown), Failure> {
    let key = sealed::key::<R>(&own_namespace(api, access, query)?, name);
    let shown = api.view.records().get(&key).as_ref().and_then(shown::<R>);
    let shown = shown.ok_or_else(|| lookup::absent(R::NAMED, name))?;
    Ok((key, shown))
}

/// Encrypts and stores a record; tries again when another change came in between.
pub(super) async fn put<R: Resource>(
    api: &Api,
    access: &Access,
    peer: Peer,
    (query, name): (OneQuery, String),
    body: &JsonBody,
) -> Result<R::Shown, Failure> {
    check_way(api, peer)?;
    let namespace = own_namespace(api, access, query)?;
    let asked = Arc::new(R::checked(&name, body.read()?).map_err(BadRequest::Body)?);
    let key = sealed::key::<R>(&namespace, &name);
    for _ in 0..ATTEMPTS {
        let begun = check_count(api, &key)?;
        let (keys, view, handle) =
            (Arc::clone(&api.keys), Arc::clone(&api.view), api.handle.clone());
        let (asked, of_key, audit) = (Arc::clone(&asked), key.clone(), access.audit_of(&key.key));
        // A separate task: it ends with its commit, also when the caller goes away.
        let storing = tokio::spawn(async move {
            let _in_use = keys.in_use().await;
            let ring = Arc::clone(&keys);
            // The first one makes keys, and with them a file.
            let sealing = tokio::task::spawn_blocking(move || {
                let (scope, value) = &*asked;
                let asked = (scope.clone(), value.as_slice());
                sealed::put::<R>(&ring, view.records(), &of_key, asked, clock::now())
            });
            let (shown, writes) = sealing.await.map_err(PutError::Task)??;
            handle.on_behalf(audit).change_records(writes).await?;
            drop(begun);
            Ok(shown)
        });
        match storing.await.map_err(PutError::Task).flatten() {
            Ok(shown) => return Ok(shown),
            Err(PutError::Call(CallError::Record(RecordRefusal::Changed(_)))) => {}
            Err(PutError::Call(error)) => return Err(error.into()),
            Err(error) => {
                let cause = format!("seal the {}: {}", R::NOUN, chain(&error));
                return Err(Failure::Internal { cause });
            }
        }
    }
    Err(Failure::Call(CallError::QueueFull))
}

/// Removes the record that the request names; returns it as it was.
pub(super) async fn delete<R: Resource>(
    api: &Api,
    access: &Access,
    query: OneQuery,
    name: &str,
) -> Result<R::Shown, Failure> {
    let (key, shown) = find::<R>(api, access, query, name)?;
    let audit = access.audit_of(&key.key);
    api.handle.on_behalf(audit).change_records(vec![RecordWrite::removal(key)]).await?;
    Ok(shown)
}

fn shown<R: Resource>(record: &Record) -> Option<R::Shown> {
    SealedRecord::<R>::from_record(record).map(|it| R::shown(it, &record.key))
}

/// The records of a kind in one namespace.
pub(super) fn of_namespace(api: &Api, kind: RecordKind, namespace: &str) -> Vec<Record> {
    let mut records = api.view.records().of_kind(kind);
    records.retain(|record| place(&record.key).0 == namespace);
    records
}

/// The namespaces that a list covers.
pub(super) fn wanted(access: &Access, query: ListQuery) -> Result<Namespaces, Failure> {
    access.within(query.namespace)
}

/// The namespace that the request names, if the caller may do there what it asks for.
pub(super) fn own_namespace(
    api: &Api,
    access: &Access,
    query: OneQuery,
) -> Result<String, Failure> {
    let namespace = query.namespace.unwrap_or_else(|| DEFAULT_NAMESPACE.to_owned());
    lookup::namespace(api, access, &namespace)?;
    Ok(namespace)
}

/// Why a record was not encrypted or stored.
#[derive(Debug, thiserror::Error)]
enum PutError {
    #[error("use the key ring")]
    Keys(#[from] KeyError),
    #[error(transparent)]
    Call(#[from] CallError),
    #[error("a task ended early")]
    Task(#[source] tokio::task::JoinError),
}

/// Refuses a new record of a namespace that has enough of its kind. Until the value is dropped, the
/// record counts for other requests.
fn check_count(api: &Api, key: &RecordKey) -> Result<Option<Begun>, Failure> {
    let namespace = place(key).0;
    let begun = api.pools.creating.begin(key.kind, [namespace.to_owned()]);
    let before = of_namespace(api, key.kind, namespace);
    if before.iter().any(|record| record.key == *key) {
        return Ok(None);
    }
    if before.len() + begun.others().iter().sum::<usize>() >= MAX_RECORDS {
        let word = key.kind.word();
        return Err(BadRequest::Body(vec![FieldError {
            path: String::new(),
            reason: format!("namespace '{namespace}' has {MAX_RECORDS} {word}s already"),
        }])
        .into());
    }
    Ok(Some(begun))
}

/// Values go over TLS, or stay on this machine.
pub(super) fn check_way(api: &Api, Peer(address): Peer) -> Result<(), Failure> {
    let is_local = address.is_some_and(is_loopback);
    if api.protection.is_some() || is_local {
        return Ok(());
    }
    Err(Denied::UnprotectedSecret.into())
}

fn is_loopback(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}
