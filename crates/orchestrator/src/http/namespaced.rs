//! Encrypted records of a namespace: what secrets and credentials have in common.

use std::net::IpAddr;
use std::sync::Arc;

use api_types::error::FieldError;
use api_types::job::DEFAULT_NAMESPACE;
use control_plane::audit::AuditEntry;
use control_plane::records::{Record, RecordKey, RecordKind, RecordRefusal, RecordWrite};
use control_plane::store::Namespaces;
use daemon::http::Peer;

use super::authenticate::Access;
use super::error::{Failure, chain};
use super::query::{Namespace, Text, query};
use super::{Api, namespaces};
use crate::driver::CallError;
use crate::keys::{KeyError, KeyRing};
use crate::records::Published;
use crate::secrets::place;

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

/// The records of a kind that the query selects, in order of namespace and name.
pub(super) fn listed(
    api: &Api,
    access: &Access,
    kind: RecordKind,
    query: ListQuery,
) -> Result<Vec<Record>, Failure> {
    let wanted = access.within(query.namespace)?;
    let mut records = api.view.records().of_kind(kind);
    records.retain(|record| match &wanted {
        Namespaces::All => true,
        Namespaces::Only(names) => names.contains(place(&record.key).0),
    });
    Ok(records)
}

/// The records of a kind in one namespace.
pub(super) fn of_namespace(api: &Api, kind: RecordKind, namespace: &str) -> Vec<Record> {
    let mut records = api.view.records().of_kind(kind);
    records.retain(|record| place(&record.key).0 == namespace);
    records
}

/// The namespace that the request names, if the caller may do there what it asks for.
pub(super) fn own_namespace(
    api: &Api,
    access: &Access,
    query: OneQuery,
) -> Result<String, Failure> {
    let namespace = query.namespace.unwrap_or_else(|| DEFAULT_NAMESPACE.to_owned());
    access.check(&namespace, || access.no_namespace(&namespace))?;
    if api.asks_for_credentials && !namespaces::exists(api, &namespace) {
        return Err(access.no_namespace(&namespace));
    }
    Ok(namespace)
}

/// Encrypts and stores a record; tries again when another change came in between.
pub(super) async fn put<T: Send + 'static>(
    api: &Api,
    key: &RecordKey,
    audit: Option<AuditEntry>,
    seal: impl Fn(&KeyRing, &Published) -> Result<(T, Vec<RecordWrite>), KeyError>
    + Clone
    + Send
    + 'static,
) -> Result<T, Failure> {
    for _ in 0..ATTEMPTS {
        check_count(api, key)?;
        let (keys, view, handle) =
            (Arc::clone(&api.keys), Arc::clone(&api.view), api.handle.clone());
        let (seal, audit) = (seal.clone(), audit.clone());
        // A task of its own: it ends with its commit, also when the caller goes away.
        let storing = tokio::spawn(async move {
            let _in_use = keys.in_use().await;
            let ring = Arc::clone(&keys);
            // The first one makes keys, and with them a file.
            let sealing = tokio::task::spawn_blocking(move || seal(&ring, view.records()));
            let (sealed, writes) = sealing.await.map_err(PutError::Task)??;
            handle.on_behalf(audit).change_records(writes).await?;
            Ok(sealed)
        });
        match storing.await.map_err(PutError::Task).flatten() {
            Ok(sealed) => return Ok(sealed),
            Err(PutError::Call(CallError::Record(RecordRefusal::Changed(_)))) => {}
            Err(PutError::Call(error)) => return Err(error.into()),
            Err(error) => {
                let cause = format!("seal the {}: {}", key.kind.word(), chain(&error));
                return Err(Failure::Internal { cause });
            }
        }
    }
    Err(Failure::Call(CallError::QueueFull))
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

fn check_count(api: &Api, key: &RecordKey) -> Result<(), Failure> {
    let namespace = place(key).0;
    let before = of_namespace(api, key.kind, namespace);
    if before.len() >= MAX_RECORDS && before.iter().all(|record| record.key != *key) {
        let word = key.kind.word();
        return Err(Failure::InvalidBody(vec![FieldError {
            path: String::new(),
            reason: format!("namespace '{namespace}' has {MAX_RECORDS} {word}s already"),
        }]));
    }
    Ok(())
}

/// Values go over TLS, or stay on this machine.
pub(super) fn check_way(api: &Api, Peer(address): Peer) -> Result<(), Failure> {
    let is_local = address.is_some_and(is_loopback);
    if api.protection.is_some() || is_local {
        return Ok(());
    }
    Err(Failure::UnprotectedSecret)
}

fn is_loopback(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}
