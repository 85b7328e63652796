//! Replaces keys of the cluster while it runs.
//!
//! Each replacement begins with one commit, after which the new key is in use. What is left to do
//! then, such as encrypting values again, is done by [`upkeep`], also after a restart.

pub(crate) mod upkeep;
mod values;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use api_types::key::{Key, KeyPurpose, KeyState};
use api_types::{KeyDigest, NodeId, Timestamp};
use control_plane::audit::AuditEntry;
use control_plane::records::{RecordKind, RecordWrite};
use control_plane::store::{Member, StoreError};
use pki::MAX_AUTHORITIES;

use crate::access::node::holders;
use crate::access::token::shown;
use crate::clock;
use crate::driver::{CallError, Handle};
use crate::keys::authorities::{self, Authorities};
use crate::keys::{KeyError, KeyRing, Purpose, of_purpose};
use crate::members::Members;
use crate::protection::{Protection, ProtectionError};
use crate::records::Published;
use crate::view::View;

/// The most keys of values at a time. There are two while values are encrypted again, and more only
/// where a value is damaged: the key that it names stays.
const MAX_KEYS: usize = 8;

/// What replaces keys.
#[derive(Clone)]
pub(crate) struct Rotation {
    pub(crate) handle: Handle,
    pub(crate) view: Arc<View>,
    pub(crate) keys: Arc<KeyRing>,
    pub(crate) protection: Option<Arc<Protection>>,
    pub(crate) members: Arc<Members>,
}

/// Why a key is not replaced.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RotationError {
    /// A refusal, for the caller.
    #[error(transparent)]
    Refused(#[from] RotationRefusal),
    #[error(transparent)]
    Call(#[from] CallError),
    #[error("read the other orchestrators")]
    Store(#[from] StoreError),
    #[error("replace a key")]
    Keys(#[from] KeyError),
    #[error("serve with another CA")]
    Protection(#[from] ProtectionError),
    #[error("a task ended early")]
    Task(#[from] tokio::task::JoinError),
}

/// A script rotates right after it has copied the next cluster key, or has restarted a machine, and
/// each orchestrator looks for the file every second.
const KEY_SHOWS_WITHIN: Duration = Duration::from_secs(3);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RotationRefusal {
    #[error("this orchestrator serves plain HTTP, without a CA")]
    Unprotected,
    #[error("the cluster has no such key yet")]
    NoKey,
    #[error(
        "{MAX_AUTHORITIES} CAs are trusted already; the oldest stays until its last certificate has \
         expired"
    )]
    TooManyAuthorities,
    #[error("there are {MAX_KEYS} such keys already, because values that name them are damaged")]
    TooManyKeys,
    #[error("the next cluster key cannot be used: {0}")]
    ClusterKeyFile(String),
    #[error("the next cluster key must be on every orchestrator, and {} is missing", .0.display())]
    NoNextClusterKey(PathBuf),
    #[error("the orchestrator {address} ({}) does not have the next cluster key", .id.short())]
    MemberLacksKey { id: NodeId, address: String },
}

// === impl RotationRefusal ===

impl RotationRefusal {
    pub(crate) fn hint(&self) -> &'static str {
        match self {
            Self::Unprotected => "nothing has to be done: there are no certificates",
            Self::NoKey => "nothing has to be done: the first use makes a new key",
            Self::TooManyAuthorities => {
                "list the keys to see when that is, and how many nodes still have its certificates"
            }
            Self::TooManyKeys => {
                "the service log names the values; set or delete them, then try again"
            }
            Self::NoNextClusterKey(_) => {
                "write the same new key (openssl rand -base64 32) to the name of the cluster key with \
                 '.next' on every orchestrator, then try again"
            }
            Self::MemberLacksKey { .. } => {
                "copy the file with the name of the cluster key and '.next' to it, then try again; an \
                 orchestrator that has been off for a minute does not count, and needs the new \
                 cluster key to start"
            }
            Self::ClusterKeyFile(_) => {
                "write the key yourself (openssl rand -base64 32) to the name of the cluster key \
                 with '.next', readable for the orchestrator alone, then try again"
            }
        }
    }
}

// === impl Rotation ===

impl Rotation {
    /// Puts another key in use. Runs to its end even if the caller stops waiting for it.
    pub(crate) async fn begin(
        self,
        purpose: KeyPurpose,
        audit: Option<AuditEntry>,
    ) -> Result<(), RotationError> {
        tokio::spawn(async move {
            match purpose {
                KeyPurpose::Ca => self.authority(audit).await,
                KeyPurpose::Secrets => self.values(audit).await,
                KeyPurpose::Cluster => self.cluster_key(audit).await,
            }?;
            tracing::info!(purpose = purpose.as_str(), "a key of the cluster was replaced");
            self.keys.changed.notify_one();
            Ok(())
        })
        .await?
    }

    async fn values(&self, audit: Option<AuditEntry>) -> Result<(), RotationError> {
        let _alone = self.keys.alone().await;
        match of_purpose(self.view.records(), Purpose::Values)?.len() {
            0 => return Err(RotationRefusal::NoKey.into()),
            MAX_KEYS.. => return Err(RotationRefusal::TooManyKeys.into()),
            _ => {}
        }
        let (_, write) = self.blocking(|it| it.keys.mint(it.view.records())).await??;
        self.commit(audit, vec![write]).await
    }

    async fn cluster_key(&self, audit: Option<AuditEntry>) -> Result<(), RotationError> {
        let _alone = self.keys.alone().await;
        let next = self.next_cluster_key().await?;
        let encrypt =
            move |it: Self| it.keys.under_next_cluster_key(it.view.records(), next.as_deref());
        let writes = self.blocking(encrypt).await?.map_err(refused_file)?;
        if writes.is_empty() {
            return Err(RotationRefusal::NoKey.into());
        }
        self.commit(audit, writes).await?;
        self.follow_cluster_key().await
    }

    /// Of a store with several orchestrators: the ID of the next cluster key, which each of them has.
    async fn next_cluster_key(&self) -> Result<Option<String>, RotationError> {
        if !self.members.are_several() {
            return Ok(None);
        }
        let next = self.blocking(|it| it.keys.next_cluster_key()).await?;
        let next = next.map_err(|error| match error {
            KeyError::NoNextClusterKey { path } => RotationRefusal::NoNextClusterKey(path).into(),
            error => refused_file(error),
        })?;
        match self.members.lacking(&next, KEY_SHOWS_WITHIN).await?.pop() {
            Some(Member { id, record, .. }) => {
                let address = record.address;
                Err(RotationRefusal::MemberLacksKey { id, address }.into())
            }
            None => Ok(Some(next)),
        }
    }

    async fn authority(&self, audit: Option<AuditEntry>) -> Result<(), RotationError> {
        let protection = self.protection.as_ref().ok_or(RotationRefusal::Unprotected)?;
        let _alone = self.keys.alone().await;
        let last_expiry = last_expiry(&self.view, clock::now() + protection.node_lifetime());
        let succession =
            move |it: Self| authorities::succession(&it.keys, it.view.records(), last_expiry);
        let writes = self.blocking(succession).await??;
        self.commit(audit, writes.ok_or(RotationRefusal::TooManyAuthorities)?).await?;
        self.follow_authorities().await
    }

    /// Signs and serves with the CAs of the ring.
    async fn follow_authorities(&self) -> Result<(), RotationError> {
        let Some(protection) = self.protection.clone() else { return Ok(()) };
        let load = |it: Self| Authorities::load(&it.keys, it.view.records());
        let Some(authorities) = self.blocking(load).await?? else { return Ok(()) };
        let known = protection.authorities();
        let keys = |it: &Authorities| -> Vec<KeyDigest> {
            it.trusted().iter().map(pki::AuthorityCertificate::key).collect()
        };
        if keys(&known) == keys(&authorities) {
            return Ok(());
        }
        protection.adopt(authorities)?;
        let publish = move |it: Self| protection.authorities().publish(&it.keys);
        Ok(self.blocking(publish).await??)
    }

    async fn follow_cluster_key(&self) -> Result<(), RotationError> {
        let follow = |it: Self| it.keys.follow_cluster_key(it.view.records());
        Ok(self.blocking(follow).await??)
    }

    async fn commit(
        &self,
        audit: Option<AuditEntry>,
        writes: Vec<RecordWrite>,
    ) -> Result<(), RotationError> {
        Ok(self.handle.on_behalf(audit).change_records(writes).await?)
    }

    /// Files are read and written, and much is encrypted, on threads that may wait.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(Self) -> T + Send + 'static,
    ) -> Result<T, tokio::task::JoinError> {
        let this = self.clone();
        tokio::task::spawn_blocking(move || work(this)).await
    }
}

/// What is wrong with the file of the next cluster key, if it is that.
fn refused_file(error: KeyError) -> RotationError {
    match error {
        KeyError::Io { path, source } => {
            let reason = format!("access {}: {source}", path.display());
            RotationRefusal::ClusterKeyFile(reason).into()
        }
        error @ (KeyError::NotAClusterKey { .. } | KeyError::NoNextClusterKey { .. }) => {
            RotationRefusal::ClusterKeyFile(error.to_string()).into()
        }
        error => RotationError::Keys(error),
    }
}

/// When the last certificate of the CA expires that signs now.
fn last_expiry(view: &View, newest: Timestamp) -> Timestamp {
    let identities = view.records().of_kind(RecordKind::NodeIdentity);
    let ends = identities.iter().filter_map(crate::access::node::StoredIdentity::from_record);
    ends.map(|identity| identity.expire_time).fold(newest, Timestamp::max)
}

/// All keys, as operators see them.
pub(crate) fn list(records: &Published, ring: &KeyRing) -> Result<Vec<Key>, KeyError> {
    let mut keys = Vec::new();
    let statuses = authorities::statuses(records)?;
    let first = statuses.last().map(|oldest| oldest.key);
    for (at, status) in statuses.into_iter().enumerate() {
        keys.push(Key {
            purpose: KeyPurpose::Ca,
            id: status.key.to_string(),
            state: if at == 0 { KeyState::Active } else { KeyState::Retiring },
            create_time: shown(Some(status.create_time)),
            last_expiry: shown(status.last_expiry),
            nodes: Some(holders(records, status.key, first == Some(status.key))),
        });
    }
    for (at, (record, stored)) in of_purpose(records, Purpose::Values)?.into_iter().enumerate() {
        keys.push(Key {
            purpose: KeyPurpose::Secrets,
            id: record.key.key,
            state: if at == 0 { KeyState::Active } else { KeyState::Retiring },
            create_time: shown((stored.number > 0).then_some(stored.create_time)),
            last_expiry: String::new(),
            nodes: None,
        });
    }
    keys.extend(ring.cluster_key_id().map(|id| Key {
        purpose: KeyPurpose::Cluster,
        id,
        state: KeyState::Active,
        create_time: String::new(),
        last_expiry: String::new(),
        nodes: None,
    }));
    Ok(keys)
}

#[cfg(test)]
mod tests;
