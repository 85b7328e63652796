//! Secrets of namespaces: values that jobs name and do not contain.

use api_types::job::JobSpec;
use api_types::secret::{Secret, SecretValue};
use control_plane::records::{RecordKey, RecordKind};
use serde::{Deserialize, Serialize};

use crate::access::token::shown;
use crate::records::Published;
use crate::sealed::{self, Scope, SealedRecord, place};

/// Any task of the namespace may have a secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SecretScope {}

// === impl SecretScope ===

impl Scope for SecretScope {
    const KIND: RecordKind = RecordKind::Secret;
    const NOUN: &'static str = "secret";

    type Shown = Secret;
    type Revealed = SecretValue;

    /// No value can be put in the place of another secret's, or of a newer one.
    fn sealed_for(&self, key: &RecordKey, version: u64) -> String {
        format!("{}/{version}", key.key)
    }

    fn shown(record: SealedRecord<Self>, key: &RecordKey) -> Secret {
        let (namespace, name) = place(key);
        Secret {
            name: name.to_owned(),
            namespace: namespace.to_owned(),
            version: record.version,
            create_time: shown(Some(record.create_time)),
            modify_time: shown(Some(record.modify_time)),
        }
    }

    fn revealed(record: SealedRecord<Self>, name: &str, value: &[u8]) -> Option<SecretValue> {
        Some(SecretValue::new(name.to_owned(), record.version, value))
    }
}

/// The record of a secret.
pub(crate) fn key(namespace: &str, name: &str) -> RecordKey {
    sealed::key::<SecretScope>(namespace, name)
}

/// The secrets that a job names and its namespace does not have.
pub(crate) fn missing(records: &Published, spec: &JobSpec) -> Vec<String> {
    let named = spec.tasks.iter().flat_map(|task| &task.secrets).map(|secret| &secret.name);
    let is_missing = |name: &&String| records.get(&key(&spec.namespace, name)).is_none();
    named.filter(is_missing).cloned().collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use api_types::Timestamp;
    use control_plane::records::{RecordRow, RecordWrite};

    use super::*;
    use crate::keys::{KeyError, KeyRing};

    type Reveal = Result<Option<(u64, SecretValue)>, KeyError>;

    fn reveal(keys: &KeyRing, records: &Published, key: &RecordKey) -> Reveal {
        sealed::reveal::<SecretScope>(keys, records, key)
    }

    fn put(
        keys: &KeyRing,
        records: &Published,
        key: &RecordKey,
        value: &[u8],
    ) -> (Secret, Vec<RecordWrite>) {
        sealed::put(keys, records, key, (SecretScope {}, value), Timestamp(7)).unwrap()
    }

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
            let (secret, writes) = put(&keys, &records, &db, value.as_bytes());
            assert_eq!((secret.namespace.as_str(), secret.name.as_str()), ("team/a", "db"));
            assert_eq!(secret.version, version);
            assert!(!format!("{writes:?}").contains(value));
            store(&records, writes);
            let (revealed_version, revealed) = reveal(&keys, &records, &db).unwrap().unwrap();
            assert_eq!((revealed_version, revealed.version), (version, version));
            assert_eq!(revealed.bytes().unwrap(), value.as_bytes());
        }
        assert_eq!(records.of_kind(RecordKind::Key).len(), 1, "one key for all");

        // After a start the same key is found, and without its file nothing is made anew.
        let stored = records.of_kind(RecordKind::Key);
        let again = KeyRing::open(dir.path(), Path::new(""), &stored).unwrap();
        assert_eq!(reveal(&again, &records, &db).unwrap().unwrap().0, 2);
        std::fs::remove_file(dir.path().join("cluster.key")).unwrap();
        let refused = KeyRing::open(dir.path(), Path::new(""), &stored).err().unwrap();
        assert!(refused.is_of_settings() && refused.to_string().contains("cluster.key is missing"));
    }

    #[test]
    fn a_value_is_refused_in_the_place_of_another() {
        let dir = tempfile::tempdir().unwrap();
        let keys = KeyRing::open(dir.path(), Path::new(""), &[]).unwrap();
        let records = Published::default();
        let (_, writes) = put(&keys, &records, &key("a", "x"), b"hidden");
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
