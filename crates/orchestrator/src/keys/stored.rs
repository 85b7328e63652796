//! Keys of the ring as they are stored.

use api_types::{KeyDigest, Timestamp};
use control_plane::records::{Expected, Record, RecordKey, RecordKind, RecordWrite};
use serde::{Deserialize, Serialize};

use super::error::{KeyError, named};
use super::sealing::Sealed;
use crate::records::Published;

/// Begins the names of records of CAs; the digest of the CA's key follows. What encrypts a key
/// authenticates the name of its record, so a key serves no other purpose than its own.
const AUTHORITY: &str = "ca-";

/// What a key is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Signs certificates.
    Authority,
    /// Encrypts secrets and credentials.
    Values,
}

/// A key as it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct StoredKey {
    /// Counts the keys of one purpose; the newest is in use.
    #[serde(default)]
    pub(crate) number: u64,
    #[serde(default = "beginning")]
    pub(crate) create_time: Timestamp,
    /// The key, encrypted with the cluster key. A CA that was replaced signs no more, and has none.
    #[serde(flatten)]
    pub(crate) sealed: Option<Sealed>,
    #[serde(flatten)]
    pub(crate) authority: Option<StoredAuthority>,
}

/// What everybody may know of a CA.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct StoredAuthority {
    /// Signed with its own key, in PEM.
    pub(crate) certificate: String,
    /// Signed with the key of the CA that it replaced, in PEM; empty for the first.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) certified_by_former: String,
    /// When the last certificate that it signed expires, once it is replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) last_expiry: Option<Timestamp>,
}

fn beginning() -> Timestamp {
    Timestamp::ZERO
}

// === impl Purpose ===

impl Purpose {
    pub(crate) fn from_key(key: &RecordKey) -> Self {
        if key.key.starts_with(AUTHORITY) { Self::Authority } else { Self::Values }
    }
}

// === impl StoredKey ===

impl StoredKey {
    pub(crate) fn read(record: &Record) -> Result<Self, KeyError> {
        let damaged = || KeyError::Damaged { what: named(&record.key) };
        let stored: Self = serde_json::from_str(&record.value).map_err(|_| damaged())?;
        let is_whole = match Purpose::from_key(&record.key) {
            Purpose::Values => stored.sealed.is_some(),
            Purpose::Authority => stored
                .authority
                .as_ref()
                .is_some_and(|it| stored.sealed.is_some() != it.last_expiry.is_some()),
        };
        if is_whole { Ok(stored) } else { Err(damaged()) }
    }

    pub(crate) fn write(&self, key: RecordKey, expected: Expected) -> RecordWrite {
        RecordWrite::json(key, expected, self)
    }
}

/// Under which record the CA with this key is.
pub(super) fn authority(key: KeyDigest) -> RecordKey {
    RecordKind::Key.key(format!("{AUTHORITY}{key}"))
}

/// The keys of one purpose, newest first.
pub(crate) fn of_purpose(
    records: &Published,
    purpose: Purpose,
) -> Result<Vec<(Record, StoredKey)>, KeyError> {
    let mut keys = Vec::new();
    for record in records.of_kind(RecordKind::Key) {
        if Purpose::from_key(&record.key) == purpose {
            let stored = StoredKey::read(&record)?;
            keys.push((record, stored));
        }
    }
    keys.sort_by_key(|(record, stored)| std::cmp::Reverse((stored.number, record.version)));
    Ok(keys)
}

pub(super) fn newest(
    records: &Published,
    purpose: Purpose,
) -> Result<Option<(Record, StoredKey)>, KeyError> {
    Ok(of_purpose(records, purpose)?.into_iter().next())
}
