//! Secrets of namespaces, as they are stored: encrypted, each for its own place and version.

use api_types::Timestamp;
use api_types::secret::Secret;
use control_plane::records::{Expected, Record, RecordKey, RecordKind, RecordWrite};
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use crate::access::token::shown;
use crate::keys::sealing::Sealed;
use crate::keys::{KeyError, KeyRing};
use crate::records::Published;

/// A secret as it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct StoredSecret {
    /// Counts the values, from 1.
    pub(crate) version: u64,
    create_time: Timestamp,
    modify_time: Timestamp,
    sealed: Sealed,
}

/// A value, and which of the secret's values it is.
pub(crate) struct Revealed {
    pub(crate) version: u64,
    pub(crate) value: Zeroizing<Vec<u8>>,
}

// === impl StoredSecret ===

impl StoredSecret {
    pub(crate) fn of(record: &Record) -> Option<Self> {
        serde_json::from_str(&record.value).ok()
    }

    pub(crate) fn wire(&self, key: &RecordKey) -> Secret {
        let (namespace, name) = place(key);
        Secret {
            name: name.to_owned(),
            namespace: namespace.to_owned(),
            version: self.version,
            create_time: shown(Some(self.create_time)),
            modify_time: shown(Some(self.modify_time)),
        }
    }
}

/// The record of a secret. Its name has no '/', whatever the namespace has.
pub(crate) fn key(namespace: &str, name: &str) -> RecordKey {
    RecordKind::Secret.key(format!("{namespace}/{name}"))
}

/// Namespace and name.
pub(crate) fn place(key: &RecordKey) -> (&str, &str) {
    key.key.rsplit_once('/').unwrap_or_default()
}

/// The secret with another value, and what has to be stored for it.
pub(crate) fn with_value(
    keys: &KeyRing,
    records: &Published,
    key: RecordKey,
    value: &[u8],
    now: Timestamp,
) -> Result<(Secret, Vec<RecordWrite>), KeyError> {
    let record = records.get(&key);
    let before = record.as_ref().and_then(StoredSecret::of);
    let version = before.as_ref().map_or(0, |before| before.version) + 1;
    let (sealed, mut writes) = keys.seal_value(records, &sealed_for(&key, version), value)?;
    let secret = StoredSecret {
        version,
        create_time: before.map_or(now, |before| before.create_time),
        modify_time: now,
        sealed,
    };
    let expected = Expected::as_read(record.as_ref());
    writes.push(RecordWrite::json(key.clone(), expected, &secret));
    let wire = secret.wire(&key);
    Ok((wire, writes))
}

/// The value of a secret; `None` where there is no such secret.
pub(crate) fn reveal(
    keys: &KeyRing,
    records: &Published,
    key: &RecordKey,
) -> Result<Option<Revealed>, KeyError> {
    let Some(record) = records.get(key) else { return Ok(None) };
    let what = || format!("the secret '{}'", key.key);
    let damaged = || KeyError::Damaged { what: what() };
    let StoredSecret { version, sealed, .. } = StoredSecret::of(&record).ok_or_else(damaged)?;
    let value = keys.unseal_value(records, &sealed_for(key, version), &sealed, what)?;
    Ok(Some(Revealed { version, value }))
}

/// Which key the value is encrypted with.
pub(crate) fn key_id(record: &Record) -> Option<String> {
    StoredSecret::of(record).map(|secret| secret.sealed.key_id)
}

/// The same value, encrypted with the newest key.
pub(crate) fn encrypted_again(
    keys: &KeyRing,
    records: &Published,
    record: &Record,
) -> Result<RecordWrite, KeyError> {
    let what = || format!("the secret '{}'", record.key.key);
    let secret = StoredSecret::of(record).ok_or_else(|| KeyError::Damaged { what: what() })?;
    let place = sealed_for(&record.key, secret.version);
    let sealed = keys.seal_value_again(records, &place, &secret.sealed, what)?;
    let encrypted = StoredSecret { sealed, ..secret };
    Ok(RecordWrite::json(record.key.clone(), record.unchanged(), &encrypted))
}

/// No value can be put in the place of another secret's, or of a newer one.
fn sealed_for(key: &RecordKey, version: u64) -> String {
    format!("{}/{version}", key.key)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use control_plane::records::RecordRow;

    use super::*;

    fn store(records: &Published, writes: Vec<RecordWrite>) {
        let rows = writes.into_iter().map(|RecordWrite { key, value, .. }| RecordRow {
            key,
            version: 1,
            value,
        });
        records.update(&rows.collect::<Vec<_>>());
    }

    #[test]
    fn a_value_comes_back_from_what_is_stored_and_is_not_in_it() {
        let dir = tempfile::tempdir().unwrap();
        let keys = KeyRing::open(dir.path(), Path::new(""), &[]).unwrap();
        let (records, db) = (Published::default(), key("team/a", "db"));
        assert!(reveal(&keys, &records, &db).unwrap().is_none());
        for (version, value) in [(1, "first"), (2, "second")] {
            let (secret, writes) =
                with_value(&keys, &records, db.clone(), value.as_bytes(), Timestamp(7)).unwrap();
            assert_eq!((secret.namespace.as_str(), secret.name.as_str()), ("team/a", "db"));
            assert_eq!(secret.version, version);
            assert!(!format!("{writes:?}").contains(value));
            store(&records, writes);
            let revealed = reveal(&keys, &records, &db).unwrap().unwrap();
            assert_eq!((revealed.version, revealed.value.as_slice()), (version, value.as_bytes()));
        }
        assert_eq!(records.of_kind(RecordKind::Key).len(), 1, "one key for all");

        // After a start the same key is found, and without its file nothing is made anew.
        let stored = records.of_kind(RecordKind::Key);
        let again = KeyRing::open(dir.path(), Path::new(""), &stored).unwrap();
        assert_eq!(reveal(&again, &records, &db).unwrap().unwrap().version, 2);
        std::fs::remove_file(dir.path().join("cluster.key")).unwrap();
        let refused = KeyRing::open(dir.path(), Path::new(""), &stored).err().unwrap();
        assert!(refused.is_of_settings() && refused.to_string().contains("cluster.key is missing"));
    }

    #[test]
    fn a_value_is_refused_in_the_place_of_another() {
        let dir = tempfile::tempdir().unwrap();
        let keys = KeyRing::open(dir.path(), Path::new(""), &[]).unwrap();
        let records = Published::default();
        let (_, writes) =
            with_value(&keys, &records, key("a", "x"), b"hidden", Timestamp(7)).unwrap();
        store(&records, writes);
        let moved = RecordRow {
            key: key("b", "x"),
            version: 1,
            value: records.get(&key("a", "x")).map(|record| record.value),
        };
        records.update(&[moved]);
        let refused = reveal(&keys, &records, &key("b", "x")).err().unwrap();
        assert_eq!(refused.to_string(), "the secret 'b/x' is damaged; restore it from a backup");
    }
}
