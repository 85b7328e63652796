//! Sealed records: named values of a namespace, each encrypted for its own place and version.
//!
//! [Secrets](crate::secrets) and [credentials](crate::credentials) are its kinds. They differ in
//! their scope: what a value may be used for, which is part of what it is encrypted for.

use api_types::Timestamp;
use control_plane::records::{Expected, Record, RecordKey, RecordKind, RecordWrite};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use crate::keys::sealing::Sealed;
use crate::keys::{KeyError, KeyRing};
use crate::records::Published;

/// What a value of one kind may be used for.
pub(crate) trait Scope:
    Clone + Serialize + DeserializeOwned + Send + Sync + 'static
{
    const KIND: RecordKind;

    /// What messages call a record of this kind.
    const NOUN: &'static str;

    /// The record as users see it, without its value.
    type Shown: Serialize + Send;

    /// The record with its value, as a node receives it.
    type Revealed: Send;

    /// What the value is encrypted for; it can be decrypted for nothing else.
    fn sealed_for(&self, key: &RecordKey, version: u64) -> String;

    fn shown(record: SealedRecord<Self>, key: &RecordKey) -> Self::Shown;

    /// `None` if the value is not of this kind.
    fn revealed(record: SealedRecord<Self>, name: &str, value: &[u8]) -> Option<Self::Revealed>;
}

/// A record as it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct SealedRecord<S> {
    #[serde(flatten)]
    pub(crate) scope: S,
    /// Counts the changes, from 1.
    pub(crate) version: u64,
    pub(crate) create_time: Timestamp,
    pub(crate) modify_time: Timestamp,
    sealed: Sealed,
}

/// The key of a record. Its name has no '/', whatever the namespace has.
pub(crate) fn key<S: Scope>(namespace: &str, name: &str) -> RecordKey {
    S::KIND.key(format!("{namespace}/{name}"))
}

/// Namespace and name.
pub(crate) fn place(key: &RecordKey) -> (&str, &str) {
    key.key.rsplit_once('/').unwrap_or_default()
}

/// The record with another value, and what has to be stored for it.
pub(crate) fn put<S: Scope>(
    keys: &KeyRing,
    records: &Published,
    key: &RecordKey,
    (scope, value): (S, &[u8]),
    now: Timestamp,
) -> Result<(S::Shown, Vec<RecordWrite>), KeyError> {
    let record = records.get(key);
    let before = record.as_ref().and_then(SealedRecord::<S>::from_record);
    let version = before.as_ref().map_or(0, |before| before.version) + 1;
    let (sealed, mut writes) = keys.seal_value(records, &scope.sealed_for(key, version), value)?;
    let create_time = before.map_or(now, |before| before.create_time);
    let changed = SealedRecord { scope, version, create_time, modify_time: now, sealed };
    let expected = Expected::as_read(record.as_ref());
    writes.push(RecordWrite::json(key.clone(), expected, &changed));
    Ok((S::shown(changed, key), writes))
}

/// The record with its value, and which of its values that is; `None` where there is no such record.
pub(crate) fn reveal<S: Scope>(
    keys: &KeyRing,
    records: &Published,
    key: &RecordKey,
) -> Result<Option<(u64, S::Revealed)>, KeyError> {
    let Some(stored) = records.get(key) else { return Ok(None) };
    let damaged = || KeyError::Damaged { what: what::<S>(key) };
    let record = SealedRecord::<S>::from_record(&stored).ok_or_else(damaged)?;
    let value = record.unsealed(keys, records, key)?;
    let version = record.version;
    let revealed = S::revealed(record, place(key).1, &value).ok_or_else(damaged)?;
    Ok(Some((version, revealed)))
}

fn what<S: Scope>(key: &RecordKey) -> String {
    format!("the {} '{}'", S::NOUN, key.key)
}

// === impl SealedRecord ===

impl<S: Scope> SealedRecord<S> {
    pub(crate) fn from_record(record: &Record) -> Option<Self> {
        serde_json::from_str(&record.value).ok()
    }

    /// Which key the value is encrypted with; `None` where the record is damaged.
    pub(crate) fn key_id(record: &Record) -> Option<String> {
        Self::from_record(record).map(|it| it.sealed.key_id)
    }

    /// The same value, encrypted with the newest key.
    pub(crate) fn encrypted_again(
        keys: &KeyRing,
        records: &Published,
        stored: &Record,
    ) -> Result<RecordWrite, KeyError> {
        let damaged = || KeyError::Damaged { what: what::<S>(&stored.key) };
        let record = Self::from_record(stored).ok_or_else(damaged)?;
        let value = record.unsealed(keys, records, &stored.key)?;
        let sealed_for = record.scope.sealed_for(&stored.key, record.version);
        // There is a key: the value was read with one.
        let (sealed, _) = keys.seal_value(records, &sealed_for, &value)?;
        let encrypted = Self { sealed, ..record };
        Ok(RecordWrite::json(stored.key.clone(), stored.unchanged(), &encrypted))
    }

    fn unsealed(
        &self,
        keys: &KeyRing,
        records: &Published,
        key: &RecordKey,
    ) -> Result<Zeroizing<Vec<u8>>, KeyError> {
        let sealed_for = self.scope.sealed_for(key, self.version);
        keys.unseal_value(records, &sealed_for, &self.sealed, || what::<S>(key))
    }
}
