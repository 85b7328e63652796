//! Encrypts secrets and credentials again, with the newest key, and removes the keys before it.

use std::collections::HashSet;
use std::sync::Arc;

use control_plane::records::{Record, RecordKey, RecordKind, RecordRefusal, RecordWrite};

use super::{Rotation, RotationError};
use crate::credentials::CredentialScope;
use crate::driver::CallError;
use crate::keys::{KeyError, KeyRing, Purpose, of_purpose};
use crate::records::Published;
use crate::sealed::SealedRecord;
use crate::secrets::SecretScope;

/// Values of one commit: it holds up submissions for a few milliseconds.
const VALUES_PER_COMMIT: usize = 32;

/// The kinds of records that have values.
const KINDS: [RecordKind; 2] = [RecordKind::Secret, RecordKind::Credential];

// === impl Rotation ===

impl Rotation {
    /// A crash in between loses nothing: each value names its key, which stays until then.
    pub(super) async fn encrypt_again(&self) -> Result<(), RotationError> {
        if of_purpose(self.view.records(), Purpose::Values)?.len() < 2 {
            return Ok(());
        }
        let stale = self.blocking(|it| stale(&it.keys, it.view.records())).await??;
        for keys in stale.chunks(VALUES_PER_COMMIT) {
            self.encrypt_chunk(&keys.into()).await?;
        }
        let _alone = self.keys.alone().await;
        let removals = self.blocking(|it| removals(it.view.records())).await??;
        let count = removals.len();
        if count > 0 {
            self.handle.change_records(removals).await?;
            tracing::info!(count, "removed keys with which no value is encrypted any longer");
        }
        Ok(())
    }

    pub(super) async fn encrypt_chunk(&self, keys: &Arc<[RecordKey]>) -> Result<(), RotationError> {
        loop {
            let of_chunk = Arc::clone(keys);
            let encrypt = move |it: Self| -> Result<Vec<RecordWrite>, KeyError> {
                let records = it.view.records();
                let newest = it.keys.newest_id(records)?.unwrap_or_default();
                let found = of_chunk.iter().filter_map(|key| records.get(key));
                let stale = found.filter(|record| is_stale(record, &newest));
                Ok(stale.filter_map(|record| encrypted(&it.keys, records, &record)).collect())
            };
            let writes = self.blocking(encrypt).await??;
            if writes.is_empty() {
                return Ok(());
            }
            match self.handle.change_records(writes).await {
                Ok(()) => return Ok(()),
                // A user has set or deleted one of them since.
                Err(CallError::Record(RecordRefusal::Changed(_))) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Which key a value names; none where the record is damaged.
fn key_id(record: &Record) -> Option<String> {
    match record.key.kind {
        RecordKind::Secret => SealedRecord::<SecretScope>::key_id(record),
        RecordKind::Credential => SealedRecord::<CredentialScope>::key_id(record),
        RecordKind::Token
        | RecordKind::Session
        | RecordKind::Namespace
        | RecordKind::Group
        | RecordKind::JoinToken
        | RecordKind::NodeIdentity
        | RecordKind::Key
        | RecordKind::Schedule
        | RecordKind::ScheduleState => None,
    }
}

fn is_stale(record: &Record, newest: &str) -> bool {
    key_id(record).is_some_and(|id| id != newest)
}

pub(super) fn stale(keys: &KeyRing, records: &Published) -> Result<Vec<RecordKey>, KeyError> {
    let newest = keys.newest_id(records)?.unwrap_or_default();
    let all = KINDS.into_iter().flat_map(|kind| records.of_kind(kind));
    Ok(all.filter(|record| is_stale(record, &newest)).map(|record| record.key).collect())
}

/// A value that cannot be read holds up no other; the key that it names stays.
fn encrypted(keys: &KeyRing, records: &Published, record: &Record) -> Option<RecordWrite> {
    let encrypted = match record.key.kind {
        RecordKind::Secret => SealedRecord::<SecretScope>::encrypted_again(keys, records, record),
        _ => SealedRecord::<CredentialScope>::encrypted_again(keys, records, record),
    };
    encrypted
        .inspect_err(|error| tracing::error!(%error, "a value stays encrypted with an older key"))
        .ok()
}

/// The removal of all keys that no value names, but for the newest.
fn removals(records: &Published) -> Result<Vec<RecordWrite>, KeyError> {
    let all = KINDS.into_iter().flat_map(|kind| records.of_kind(kind));
    let named: HashSet<String> = all.filter_map(|record| key_id(&record)).collect();
    let older = of_purpose(records, Purpose::Values)?.into_iter().skip(1);
    let unused = older.filter(|(record, _)| !named.contains(&record.key.key));
    Ok(unused.map(|(record, _)| record.removal()).collect())
}
